"""What the tests of the pages share: signed-in browsers, pages read as markup, services that run."""

from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils.timezone import now

from jobs.models import Workload
from tenants.models import Tenant, User
from tests.factories import make_service
from tests.portal.markup import Markup, find_faults

HTMX = {"HX-Request": "true"}
KEYS = ("requested", "admitted", "scheduled", "volumes", "image", "started", "ready")


def client_of(user: User) -> Client:
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    return client


def read(client: Client, path: str, **arguments: Any) -> Markup:
    """The page, which must keep the rules of all pages."""
    answer = client.get(path, **arguments)
    assert answer.status_code == 200, answer.content[:500]
    page = Markup(answer.content.decode())
    assert not find_faults(page)
    return page


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
