"""Every address, for the owner, a team mate, a stranger and nobody: generated from the routes.

A new route fails here until it is sorted: into the ones that belong to somebody (they have a UUID in
them and are tried with the owner's objects) or into the lists below.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.converters import SlugConverter, UUIDConverter
from django.utils import timezone

from jobs.models import Artifact, Job
from jobs.rules.states import JobState
from jobs.services.models import Service
from tenants.actions import create_token
from tenants.models import Session, Team, Tenant
from tests.factories import make_job, make_service, make_tenant

pytestmark = pytest.mark.django_db

# Without an id: what they show is cut to the caller (tested where they live), or public.
PUBLIC = {"healthz", "readyz", "sign-in", "join", "api-token", "api-schema"}
OF_THE_CALLER = {
    "home",
    "sign-out",
    "account",
    "password-change",
    "sessions-end",
    "tenant-fragment",
    "tenant-make",
    "jobs",
    "job-new",
    "job-fit",
    "bundle-upload",
    "notebooks",
    "notebooks-stop",
    "notebook-new",
    "notebook-fit",
    "tensorboards",
    "tensorboards-stop",
    "tensorboard-new",
    "tensorboard-fit",
    "tensorboard-of",
    "lead-team",
    "lead-fragment",
    "lead-hours",
    "nodes",
    "queue",
    "health",
    "api-nodes",
    "api-queue",
    "namespaces",
    "namespace-new",
    "people",
    "person-invite",
    "teams",
    "audit",
    "audit-csv",
    "api-users",
    "api-teams",
    "api-audit",
    "api-me",
    "api-tenants",
    "api-bundles",
    "api-jobs",
    "api-job-preview",
    "api-notebooks",
    "api-tensorboards",
}
# Team mates see it too, and may not change it (tests/tenants/people/test_teams.py).
OF_THE_TEAM = {"api-team"}
# For pods, by the token of their own job (tests/jobs/test_internal.py).
FOR_PODS = "internal/"
# Pages that say 403 to everybody but admins, whatever the id.
FOR_ADMINS = "admin/"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Route:
    name: str
    path: str
    converters: dict[str, Any]


def routes() -> Iterator[Route]:
    def walk(patterns: list[Any], prefix: str, found: dict[str, Any]) -> Iterator[Route]:
        for pattern in patterns:
            path = prefix + str(pattern.pattern)
            converters = {**found, **pattern.pattern.converters}
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, path, converters)
            elif isinstance(pattern, URLPattern):
                yield Route(pattern.name or "", path, converters)

    yield from walk(get_resolver().url_patterns, "", {})


def test_every_route_is_sorted() -> None:
    for route in routes():
        owned = any(isinstance(c, UUIDConverter) for c in route.converters.values())
        known = (
            route.name in PUBLIC | OF_THE_CALLER
            or route.path.startswith((FOR_PODS, "^api/"))
            or owned
        )
        assert known, f"{route.path} ({route.name}) is new: who may call it?"


@dataclass(frozen=True)
class Scene:
    alice: Tenant
    job: Job
    artifact: Artifact
    notebook: Service
    tensorboard: Service
    token_id: UUID
    session_id: UUID

    def fill(self, route: Route, *, absent: bool = False) -> str:
        """The path with Alice's objects in it, or with ids that nobody has."""
        path = route.path
        for key, converter in route.converters.items():
            if isinstance(converter, UUIDConverter):
                value = str(uuid4() if absent else self._identity(route, key))
            elif isinstance(converter, SlugConverter):
                value = "suspend" if key == "verb" else "header"
            else:
                raise TypeError(f"{route.path}: what is {key}?")
            for form in ("uuid", "slug"):
                path = path.replace(f"<{form}:{key}>", value)
        return "/" + path

    def _identity(self, route: Route, key: str) -> UUID:
        if key == "artifact_id":
            return self.artifact.pk
        if route.name.startswith(("api-tenant", "tenant-", "namespace")):
            return self.alice.pk
        for service in (self.notebook, self.tensorboard):
            if service.kind in route.name:
                return service.pk
        if route.name == "token-revoke":
            return self.token_id
        if route.name.startswith(("person", "api-user")):
            return self.alice.owner.pk
        if route.name.startswith(("team-", "api-team")):
            assert self.alice.team is not None
            return self.alice.team.pk
        if route.name == "session-end":
            return self.session_id
        assert "job" in route.name or route.name == "lead-stop", f"{route.name}: whose id is {key}?"
        return self.job.pk


@pytest.fixture
def scene() -> Scene:
    team = Team.objects.create(name="vision")
    alice = make_tenant("alice", team=team)
    make_tenant("bob", team=team)
    make_tenant("mallory")
    job = make_job(alice, state=JobState.SUCCEEDED, finished_at=timezone.now())
    artifact = Artifact.objects.create(
        job=job, path="a", size_bytes=1, mtime_ns=1, storage_key="none", uploaded_at=timezone.now()
    )
    token, _ = create_token(by=alice.owner, name="t")
    notebook = make_service(alice)
    tensorboard = make_service(alice, kind="tensorboard")
    session = Session.objects.create(
        session_key="k", user=alice.owner, expire_date=timezone.now() + timedelta(days=1)
    )
    return Scene(alice, job, artifact, notebook, tensorboard, token.pk, session.id)


def owned_routes() -> list[Route]:
    return [
        route
        for route in routes()
        if any(isinstance(c, UUIDConverter) for c in route.converters.values())
        and not route.path.startswith(FOR_PODS)
    ]


def signed_in(name: str) -> Client:
    from tenants.models import User

    client = Client(raise_request_exception=False)
    client.force_login(User.objects.get(username=name))
    return client


def with_token(name: str) -> Client:
    from tenants.models import User

    _, plain = create_token(by=User.objects.get(username=name), name="t")
    return Client(raise_request_exception=False, headers={"Authorization": f"Token {plain}"})


@pytest.mark.parametrize("route", owned_routes(), ids=lambda route: route.name)
@pytest.mark.parametrize("name", ["bob", "mallory"])
def test_what_is_somebody_elses_is_not_there(scene: Scene, route: Route, name: str) -> None:
    before = Job.objects.get(pk=scene.job.pk).revision
    no = 403 if route.path.startswith(FOR_ADMINS) else 404
    if name == "bob" and route.name in OF_THE_TEAM:
        return
    clients = [signed_in(name)]
    if route.path.startswith("api/"):
        clients.append(with_token(name))
    for client in clients:
        for method in METHODS:
            for absent in (False, True):
                path = scene.fill(route, absent=absent)
                status = client.generic(
                    method, path, "{}", content_type="application/json", HTTP_HOST="localhost"
                ).status_code
                assert status in {no, 405}, f"{method} {path} as {name}: {status}"
        answered = {
            client.generic(method, scene.fill(route), HTTP_HOST="localhost").status_code
            for method in METHODS
        }
        assert no in answered
    assert Job.objects.get(pk=scene.job.pk).revision == before


@pytest.mark.parametrize("route", owned_routes(), ids=lambda route: route.name)
def test_the_owner_gets_an_answer(scene: Scene, route: Route) -> None:
    client = signed_in("alice")
    answered = {
        method: client.generic(method, scene.fill(route), HTTP_HOST="localhost").status_code
        for method in METHODS
    }
    # An artifact without bytes in the store is the one thing that is really not there.
    if "artifact" not in route.name or route.name.endswith("artifacts"):
        assert not all(status in {404, 405} for status in answered.values()), answered


@pytest.mark.parametrize(
    "route",
    [r for r in routes() if r.name not in PUBLIC and not r.path.startswith((FOR_PODS, "^api/"))],
    ids=lambda route: route.name,
)
def test_nobody_is_sent_to_the_sign_in(scene: Scene, route: Route) -> None:
    client = Client(raise_request_exception=False)
    for method in METHODS:
        answer = client.generic(method, scene.fill(route), HTTP_HOST="localhost")
        if route.path.startswith("api/"):
            assert answer.status_code in {401, 405}, (method, answer.status_code)
        elif answer.status_code != 405:
            assert answer.status_code == 302, (method, answer.status_code)
            assert answer["Location"].startswith("/sign-in/"), answer["Location"]


def test_a_disabled_person_is_nobody(scene: Scene) -> None:
    session, token = signed_in("alice"), with_token("alice")
    assert session.get("/api/v1/me/", HTTP_HOST="localhost").status_code == 200
    assert token.get("/api/v1/me/", HTTP_HOST="localhost").status_code == 200
    owner = scene.alice.owner
    owner.is_active = False
    owner.save()
    assert session.get("/api/v1/me/", HTTP_HOST="localhost").status_code == 401
    assert token.get("/api/v1/me/", HTTP_HOST="localhost").status_code == 401
