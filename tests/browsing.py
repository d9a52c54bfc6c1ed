"""Reads pages as somebody in a browser does."""

from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.models import Node
from tenants.models import Tenant, User
from tests.factories import make_tenant
from tests.portal.markup import Markup, find_faults

HTMX = {"HX-Request": "true"}


def tenant_with_a_node(name: str, **fields: Any) -> Tenant:
    """Somebody's namespace, in a cluster with room for what they ask for."""
    Node.objects.create(
        name="node",
        is_ready=True,
        allocatable={"cpu": 64000, "memory": 2**38, "gpu": 8, "pods": 100},
    )
    return make_tenant(name, **fields)


def client_of(who: User | Tenant | str) -> Client:
    """The browser of a person, of a namespace's owner, or of whoever has this name."""
    if isinstance(who, str):
        who = User.objects.get(username=who)
    client = Client(headers={"host": "localhost"})
    client.force_login(who.owner if isinstance(who, Tenant) else who)
    return client


def page_of(answer: Any) -> Markup:
    """The page, which must keep the rules of all pages."""
    assert answer.status_code == 200, answer.content[:500]
    page = Markup(answer.content.decode())
    assert find_faults(page) == []
    return page


def read(client: Client, path: str, **arguments: Any) -> Markup:
    return page_of(client.get(path, **arguments))


def count_queries(client: Client, path: str) -> int:
    with CaptureQueriesContext(connection) as seen:
        read(client, path)
    return len(seen)


def body_of(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)
