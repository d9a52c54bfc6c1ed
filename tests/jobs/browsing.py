"""Reads pages of trainings as somebody in a browser does."""

from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.models import Node
from tenants.models import Tenant
from tests.factories import make_tenant
from tests.portal.markup import Markup

HTMX = {"HX-Request": "true"}


def tenant_with_a_node(name: str) -> Tenant:
    """Somebody's namespace, in a cluster with room for what they ask for."""
    Node.objects.create(
        name="node",
        is_ready=True,
        allocatable={"cpu": 64000, "memory": 2**38, "gpu": 8, "pods": 100},
    )
    return make_tenant(name)


def client_of(tenant: Tenant) -> Client:
    client = Client(headers={"host": "localhost"})
    client.force_login(tenant.owner)
    return client


def read(client: Client, path: str, **arguments: Any) -> Markup:
    answer = client.get(path, **arguments)
    assert answer.status_code == 200, answer.content[:500]
    return Markup(answer.content.decode())


def count_queries(client: Client, path: str) -> int:
    with CaptureQueriesContext(connection) as seen:
        read(client, path)
    return len(seen)


def body_of(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)
