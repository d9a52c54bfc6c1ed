"""Every route that changes something writes exactly one row of the audit trail.

Generated from the routes: a new one that takes POST, PUT, PATCH or DELETE fails here until it has a
line in `changes.py`.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls.converters import SlugConverter, UUIDConverter

from tenants.models import AuditEntry, User
from tests.portal.routes.walk import Route, routes
from tests.tenants.audit.changes import CHANGES, ELSEWHERE, LOOKS, Change, World, identity
from tests.tools.no_sockets import without_sockets

pytestmark = pytest.mark.django_db
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")


def our_routes() -> dict[str, Route]:
    """All but those of pods, which act for nobody."""
    return {
        route.name: route
        for route in routes()
        if not route.path.startswith(("internal/", "^api/")) and route.name
    }


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    with without_sockets():
        yield made


def path_of(world: World, route: Route) -> str:
    path = route.path
    for key, converter in route.converters.items():
        if isinstance(converter, UUIDConverter):
            value = world.job.pk if key == "artifact_id" else identity(world, route.name)
            path = path.replace(f"<uuid:{key}>", str(value))
        elif isinstance(converter, SlugConverter):
            words = {"key": world.join_key, "verb": "suspend", "name": "wandb"}
            value = words.get(key, "header")
            path = path.replace(f"<slug:{key}>", value)
    return f"/{path}"


def send(world: World, route: Route, method: str, change: Change) -> Any:
    client = Client(HTTP_HOST="localhost", REMOTE_ADDR="192.0.2.7")
    if change.who:
        client.force_login(User.objects.get(username=change.who))
    headers = {"Authorization": f"Token {change.token(world)}"} if change.token else {}
    path, body = path_of(world, route), change.body(world)
    is_upload = any(hasattr(value, "read") for value in body.values())
    if method == "POST" and (is_upload or not route.path.startswith("api/")):
        return client.post(path, body, headers=headers)
    return client.generic(
        method, path, json.dumps(body), content_type="application/json", headers=headers
    )


@pytest.mark.parametrize(("name", "method"), sorted(CHANGES), ids=lambda value: value)
def test_a_change_writes_one_row(world: World, name: str, method: str) -> None:
    change = CHANGES[name, method]
    change.before(world)
    before = AuditEntry.objects.count()
    answer = send(world, our_routes()[name], method, change)
    content = b"" if answer.streaming else answer.content
    assert answer.status_code < 400, content[-2000:]
    new = AuditEntry.objects.all()[: AuditEntry.objects.count() - before]
    assert [entry.verb for entry in new] == [change.verb], content[-3000:]
    entry = new[0]
    assert entry.source_address == "192.0.2.7"
    assert entry.actor_name in {change.who, "alice", "bob"}
    assert entry.result == "done"
    kinds = {"apitoken", "bundle", "job", "service", "team", "tenant", "user"}
    assert entry.kind in kinds | {"doctor", "node", "scheduling", "template", "usersecret"}
    assert entry.object_name


def test_every_route_that_changes_something_is_listed(world: World) -> None:
    client = Client(HTTP_HOST="localhost", raise_request_exception=False)
    client.force_login(world.root)
    sorted_out = LOOKS | ELSEWHERE
    for name, route in our_routes().items():
        for method in UNSAFE:
            if (name, method) in CHANGES or (method == "POST" and name in sorted_out):
                continue
            path = path_of(world, route)
            status = client.generic(method, path, "{}", content_type="application/json").status_code
            assert status == 405, f"{method} {path} ({name}) answers {status}: who writes it down?"


def test_looking_writes_nothing(world: World) -> None:
    client = Client(HTTP_HOST="localhost", raise_request_exception=False)
    client.force_login(world.root)
    before = AuditEntry.objects.count()
    for name, route in our_routes().items():
        answer = client.get(path_of(world, route))
        if answer.streaming:
            b"".join(answer.streaming_content)  # type: ignore[arg-type]
        truth = {503} if name == "status" else {200, 302, 403, 404, 405}  # nothing runs beside this
        assert answer.status_code in truth, (name, answer.status_code)
    # A try that was refused is no look.
    assert AuditEntry.objects.exclude(verb="try").count() == before
