"""Tickets: what the portal gives a browser to show at the gate, good once and for a minute.

The form is that of `jobs/pod/gatekeeper/passes.py`, which reads them.
"""

import base64
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass

from jobs.services.models import Service
from jobs.services.tokens import ticket_key
from tenants.models import User

LIFETIME_S = 60


@dataclass(frozen=True)
class Ticket:
    """`expires_at` in seconds since 1970."""

    text: str
    expires_at: float


def issue(*, service: Service, user: User) -> Ticket:
    """A new ticket for this person, to the latest start of this service. Says nothing of rights."""
    now = time.time()
    expires_at = round(now + LIFETIME_S, 3)
    fields = {
        "aud": str(service.pk),
        "sub": str(user.pk),
        "jti": secrets.token_urlsafe(16),
        "iat": round(now, 3),
        "exp": expires_at,
        "start": service.start_count,
    }
    payload = _encode(json.dumps(fields, separators=(",", ":")).encode())
    key = ticket_key(service.pk, service.start_count).encode()
    signature = _encode(hmac.digest(key, payload.encode(), hashlib.sha256))
    return Ticket(f"{payload}.{signature}", expires_at)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
