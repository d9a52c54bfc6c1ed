"""Opening what is served behind a gate: the link that leads a browser through its gate.

The ticket stands in the fragment of the link, which browsers send to nobody; the gate's own page
hands it over (docs/adr has a page on the gate).
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from django.conf import settings

from jobs.kinds.base import WorkloadKind
from jobs.kinds.interactive.manifests import signing_key
from jobs.kinds.interactive.tokens import has_gate_tls, new_ticket
from jobs.models import Workload
from jobs.rules.states import Desired, WorkloadState
from portal.errors import Refused
from tenants import policy
from tenants.models import Tenant, User


@dataclass(frozen=True)
class OpenLink:
    """Good once, until `expires_at` (UTC). The URL is a secret: for the person's browser alone."""

    url: str
    expires_at: datetime


def new_link(user: User, service: Workload, kind: WorkloadKind) -> OpenLink:
    """A new link for this person, if the service can be opened now.

    Raises:
        Refused: not allowed, not running, or the installation cannot do it safely.
    """
    _check_installation()
    if not (user.is_active and policy.may(user, kind.open_verb, service.tenant)):
        raise Refused(
            "You may not open this one.",
            "not_allowed",
            403,
            next_step=f"Only its owner can open a {kind.noun}; ask them for what you need of it.",
        )
    if service.tenant.desired != Tenant.Desired.ACTIVE:
        raise Refused(
            "The namespace is suspended, so nothing in it can be opened.",
            "not_allowed",
            403,
            next_step="Ask an admin to resume it; the volumes are kept meanwhile.",
        )
    is_up = service.state == WorkloadState.RUNNING and may_be_inside(user, service, kind)
    if not is_up or service.node_port is None:
        text, next_step = _why_not(service, kind.noun)
        raise Refused(text, "not_running", 409, next_step=next_step)
    key = signing_key(service.plan)
    ticket = new_ticket(service.pk, service.generation, user.pk, key)
    return OpenLink(
        f"{gate_origin(service.node_port)}{service.path_prefix}__gate#t={ticket.text}",
        datetime.fromtimestamp(ticket.expires_at, UTC),
    )


def may_be_inside(user: User, service: Workload, kind: WorkloadKind) -> bool:
    """Whether the gate lets this person in, and lets him stay."""
    return (
        user.is_active
        and service.desired == Desired.RUN
        and service.tenant.desired == Tenant.Desired.ACTIVE
        and policy.may(user, kind.open_verb, service.tenant)
    )


def gate_origin(node_port: int) -> str:
    """Scheme, host and port under which browsers reach a NodePort."""
    host = f"[{settings.NODE_HOST}]" if ":" in settings.NODE_HOST else settings.NODE_HOST
    return f"{'https' if has_gate_tls() else 'http'}://{host}:{node_port}"


def _check_installation() -> None:
    """What `portal/checks.py` tells operators at start, told to whoever wants to open something."""
    if settings.NODE_HOST.lower() in {host.lower() for host in settings.BROWSER_HOSTS}:
        raise Refused(
            f"Homeport and the nodes have the same host name, {settings.NODE_HOST}, so that "
            "programs on the nodes would be sent your Homeport session.",
            "host_not_separate",
            409,
            next_step="Ask an admin to set NODE_HOST to another name of the nodes.",
        )
    if settings.HTTPS and not has_gate_tls():
        raise Refused(
            "Homeport is served by HTTPS, but the gates of workloads have no certificate.",
            "gate_needs_tls",
            409,
            next_step="Ask an admin to set GATE_TLS_CERT_FILE and GATE_TLS_KEY_FILE, then start it "
            "again.",
        )


def _why_not(service: Workload, noun: str) -> tuple[str, str]:
    """What is in the way of opening, and what to do."""
    if service.desired == Desired.RUN and not service.is_final:
        return f"The {noun} is still starting.", "Wait until it runs; its page shows the steps."
    if service.state == WorkloadState.FAILED:
        return f"The {noun} has failed.", "Read why on its page, then start it again."
    return f"The {noun} is not running.", "Start it again; the files on its volumes are kept."
