"""What a body must not decide: whose a thing is, where it runs, its state, anybody's rights.

Each call of REST that changes something is sent as it should be, and then with one more field. The
other field is refused, or nothing comes out differently.
"""

import json
from typing import Any

import pytest
from django.test import Client

from jobs.kinds.registry import WITH_GATE
from jobs.models import Bundle, UserSecret, Workload
from tenants.actions import ensure_tenant
from tenants.models import ApiToken, Team, Tenant, User
from tests.portal.routes.scene import undone
from tests.portal.routes.table import TABLE
from tests.portal.routes.walk import Route, routes
from tests.tenants.audit.changes import CHANGES, World, identity

pytestmark = pytest.mark.django_db
ROUTES = {route.name: route for route in routes()}
CALLS = sorted((name, method) for name, method in CHANGES if name.startswith("api-"))
# What somebody might hope for. Ids and names are those of others.
WISHES: dict[str, Any] = {
    "namespace": "u-bob",
    "owner": "bob",
    "owner_id": "bob",
    "user": "bob",
    "tenant": "bob",
    "role": "admin",
    "is_staff": True,
    "is_superuser": True,
    "is_admin": True,
    "is_active": False,
    "team": "empty",
    "quota": {"gpu": 1000},
    "quota_gpu_count": 1000,
    "state": "running",
    "desired": "purged",
    "scope": "admin",
    "admitted_at": "2026-01-01T00:00:00Z",
    "purge_data": "delete",
    "plan": [{"kind": "Pod"}],
    "storage_key": "bundles/other",
    "id": "00000000-0000-4000-8000-000000000000",
}
# What these callers, admins but for the quota, may indeed decide.
GRANTED = {
    ("api-users", "POST"): {"role", "team"},
    ("api-user", "PATCH"): {"role", "team", "is_active"},
    ("api-tenants", "POST"): {"owner", "quota"},
    ("api-tenant", "PATCH"): {"quota"},
}
# Columns that are compared, by the model.
COLUMNS: dict[Any, tuple[str, ...]] = {
    User: ("username", "role", "is_active", "is_staff", "is_superuser", "team"),
    Team: ("name", "leads", "budget_gpu_count"),
    Tenant: ("namespace", "owner", "team", "state", "desired", "purge_data", "quota_gpu_count"),
    Workload: ("name", "owner", "tenant", "state", "desired", "admitted_at", "plan", "image"),
    Bundle: ("file_name", "tenant", "sha256"),
    UserSecret: ("name", "tenant", "kind", "is_deleted"),
    ApiToken: ("name", "user", "scope"),
}


def rows() -> list[str]:
    """All that matters of everything there is."""
    return sorted(
        f"{model.__name__} {row}"
        for model, columns in COLUMNS.items()
        for row in model.objects.values_list(*columns)
    )


def send(
    world: World, route: Route, method: str, wish: dict[str, Any]
) -> tuple[int, list[str], list[str]]:
    """The status, all rows before it, all rows after it."""
    change = CHANGES[route.name, method]
    client = Client(HTTP_HOST="localhost")
    with undone():
        change.before(world)
        before = rows()
        if change.who:
            client.force_login(User.objects.get(username=change.who))
        headers = {"Authorization": f"Token {change.token(world)}"} if change.token else {}
        path = "/" + route.path
        if "<uuid:pk>" in path:
            path = path.replace("<uuid:pk>", str(identity(world, route.name)))
        path = path.replace("<slug:name>", "wandb")
        body = change.body(world)
        if any(hasattr(value, "read") for value in body.values()):
            form = {
                key: json.dumps(v) if isinstance(v, dict | list) else v for key, v in wish.items()
            }
            answer = client.post(path, {**body, **form}, headers=headers)
        else:
            answer = client.generic(
                method,
                path,
                json.dumps({**wish, **body}),
                content_type="application/json",
                headers=headers,
            )
        return answer.status_code, before, rows()


@pytest.mark.parametrize(("name", "method"), CALLS, ids=lambda value: value)
def test_a_body_decides_nothing_that_is_not_the_callers_to_decide(name: str, method: str) -> None:
    world = World()
    route = ROUTES[name]
    status, _, right = send(world, route, method, {})
    assert status < 300
    own = set(CHANGES[name, method].body(world)) | GRANTED.get((name, method), set())
    wishes = {key: value for key, value in WISHES.items() if key not in own}
    for wish in [*({key: value} for key, value in wishes.items()), wishes]:
        status, before, found = send(world, route, method, wish)
        said = f"{method} {route.path} with {wish}: {status}"
        assert status < 300 or status in {400, 403}, said
        assert found == (right if status < 300 else before), said


def test_every_call_of_rest_that_changes_something_is_tried() -> None:
    looks = {"api-job-preview", "api-job-document"}  # POST, and changes nothing
    opens = {f"api-{kind}-open" for kind in WITH_GATE} | {"api-job-rerun-failed"}  # no body
    for name, rule in TABLE.items():
        for method in {"POST", "PUT", "PATCH", "DELETE"} & rule.methods.keys():
            if name.startswith("api-") and name not in looks | opens:
                assert (name, method) in CALLS, f"{method} {name} has no body in changes.py"


def test_nobody_but_an_admin_makes_a_namespace_for_somebody_else() -> None:
    world = World()
    for who in ("alice", "lee", "bob"):
        client = Client(HTTP_HOST="localhost")
        client.force_login(User.objects.get(username=who))
        for body in ({"owner": "root"}, {"owner": "root", "quota": {"gpu": 1}}):
            with undone():
                answer = client.post("/api/v1/tenants/", json.dumps(body), "application/json")
                assert answer.status_code == 403, (who, body)
        with undone():  # not even the own one beyond what everybody has
            answer = client.post(
                "/api/v1/tenants/", json.dumps({"quota": {"gpu": 1000}}), "application/json"
            )
            assert answer.status_code in {400, 403, 409}, who
    assert not Tenant.objects.filter(owner=world.root).exists()


def test_other_peoples_things_cannot_be_named_in_a_body() -> None:
    """Ids in bodies are looked up as those in addresses are."""
    world = World()
    bob = Client(HTTP_HOST="localhost")
    bob.force_login(world.bob)
    tenant = ensure_tenant(user=world.bob)
    tenant.state, tenant.observed_hard = Tenant.State.ACTIVE, tenant.quota
    tenant.save()
    bundle = Bundle.objects.create(
        tenant=world.alice, file_name="a.py", size_bytes=1, sha256="0" * 64
    )
    asked = {
        "jobs": {
            "name": "t",
            "image": "python:3.11-slim",
            "command": ["true"],
            "source": {"bundle": str(bundle.pk)},
        },
        "tensorboards": {"name": "t", "jobs": [str(world.job.pk)]},
    }
    for path, body in asked.items():
        before = rows()
        answer = bob.post(f"/api/v1/{path}/", json.dumps(body), "application/json")
        assert answer.status_code == 400, (path, answer.content)
        assert rows() == before
