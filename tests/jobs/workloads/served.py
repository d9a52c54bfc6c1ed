"""What the tests of the pages share: services that run, and their steps."""

from datetime import timedelta
from typing import Any

from django.utils.timezone import now

from jobs.models import Workload
from tenants.models import Tenant
from tests.factories import make_service

KEYS = ("requested", "admitted", "scheduled", "volumes", "image", "started", "ready")


def running(tenant: Tenant, **changes: Any) -> Workload:
    fields = {
        "state": "running",
        "observed_generation": 1,
        "started_at": now(),
        "node_port": 31000,
        **changes,
    }
    return make_service(tenant, **fields)


def steps(*states: str, **last: Any) -> list[dict[str, Any]]:
    """Steps two seconds apart; `last` goes to the last one given."""
    at = now() - timedelta(minutes=2)
    rows: list[dict[str, Any]] = []
    for place, state in enumerate(states):
        when = (at + timedelta(seconds=2 * place)).isoformat() if state == "done" else None
        rows.append({"key": KEYS[place], "state": state, "at": when, "detail": ""})
    rows[-1].update(last)
    return rows
