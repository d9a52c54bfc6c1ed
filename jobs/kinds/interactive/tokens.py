"""The secrets of a notebook or TensorBoard: derived, so nothing of them is stored in the database.

The gate finds them as files of a Secret (`GATE_SECRETS`), whose values the reconciler puts in when
it creates the Secret; the manifests that are kept have an empty one.
"""

import secrets
import time
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from jobs.pod.protocol import tickets
from jobs.pod.protocol.tickets import Claims
from portal import signing

_PORTAL = "homeport.gate-portal-token"
_USAGE = "homeport.usage-token"


@dataclass(frozen=True)
class Ticket:
    """Good once and for a minute; `expires_at` in seconds since 1970."""

    text: str
    expires_at: float


def portal_token(service_id: UUID, key: str = "") -> str:
    """By which the gate speaks to `/internal/`; good for as long as the service's row exists."""
    return signing.derived(_PORTAL, str(service_id), key)


def is_portal_token(service_id: UUID, token: str) -> bool:
    return signing.is_derived(_PORTAL, str(service_id), token)


def usage_token(service_id: UUID, key: str = "") -> str:
    """By which what it uses is told; its program can read it, so it is good for nothing else."""
    return signing.derived(_USAGE, str(service_id), key)


def is_usage_token(service_id: UUID, token: str) -> bool:
    return signing.is_derived(_USAGE, str(service_id), token)


def ticket_key(service_id: UUID, generation: int, key: str = "") -> str:
    """Signs tickets, and the gate's cookies; new with every start."""
    return signing.derived("homeport.gate-ticket-key", f"{service_id}/{generation}", key)


def new_ticket(service_id: UUID, generation: int, user_id: UUID, key: str = "") -> Ticket:
    """By which a browser of this person comes in at the gate. Says nothing of rights.

    Args:
        key: the signing key with which the gate was started; empty: the one in use.
    """
    now = time.time()
    issued_at, expires_at = round(now, 3), round(now + tickets.TICKET_S, 3)
    identity = secrets.token_urlsafe(16)
    claims = Claims(str(service_id), str(user_id), generation, issued_at, expires_at, identity)
    text = tickets.write(claims, ticket_key(service_id, generation, key).encode())
    return Ticket(text, expires_at)


def app_token(service_id: UUID, generation: int, key: str = "") -> str:
    """What JupyterLab asks of everybody; only its gate knows it. New with every start."""
    return signing.derived("homeport.gate-app-token", f"{service_id}/{generation}", key)


def has_gate_tls() -> bool:
    """Whether gates speak TLS, by the certificate that the settings name."""
    return bool(settings.GATE_TLS_CERT_FILE and settings.GATE_TLS_KEY_FILE)


def gate_secrets(service_id: UUID, generation: int, key: str = "") -> dict[str, str]:
    """The Secret of one generation as file name -> text, as `jobs/pod/gate.py` reads them.

    Args:
        key: the signing key with which the generation was planned; empty: the one in use.

    Raises:
        OSError: the certificate or its key, which the settings name, cannot be read.
    """
    values = {
        "portal_token": portal_token(service_id, key),
        "ticket_key": ticket_key(service_id, generation, key),
        "app_token": app_token(service_id, generation, key),
        "usage_token": usage_token(service_id, key),
    }
    if has_gate_tls():
        for name, path in (
            ("tls.crt", settings.GATE_TLS_CERT_FILE),
            ("tls.key", settings.GATE_TLS_KEY_FILE),
        ):
            with open(path, encoding="ascii") as file:
                values[name] = file.read()
    return values
