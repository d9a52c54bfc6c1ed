"""What a token of each scope may do, over all routes of REST."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from tenants.actions import create_token
from tenants.models import ApiToken, User
from tests.factories import make_tenant, make_user
from tests.portal.routes.walk import Route, routes
from tests.tenants.people.people import PASSWORD, codes, rest, send

pytestmark = pytest.mark.django_db
UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
# Taking back the token that is sent and making one by a password are no work with a token; the
# OpenAPI document is everybody's.
ABOUT_TOKENS = {"api-token", "api-schema"}


def rest_routes() -> list[Route]:
    return [
        route
        for route in routes()
        if route.path.startswith("api/v1/") and route.name not in ABOUT_TOKENS
    ]


def path_of(route: Route) -> str:
    path = route.path.removeprefix("api/v1/")
    for key in route.converters:
        for form in ("uuid", "slug"):
            path = path.replace(f"<{form}:{key}>", str(uuid4()) if form == "uuid" else "x")
    return path


@pytest.fixture
def alice() -> User:
    return make_tenant("alice").owner


@pytest.mark.parametrize("route", rest_routes(), ids=lambda route: route.name)
def test_a_token_that_may_look_changes_nothing(alice: User, route: Route) -> None:
    root = make_user("root", role="admin")
    for person in (alice, root):
        client = rest(person, "read")
        for method in UNSAFE:
            answer = send(client, method, path_of(route), {})
            assert answer.status_code == 403, (method, answer.content)
            assert codes(answer) == {("", "token_scope")}
        assert send(client, "GET", path_of(route)).status_code in {200, 403, 404, 405}
    assert send(rest(alice, "read"), "GET", "me/").json()["username"] == "alice"


def test_without_the_scope_admin_an_admin_acts_as_a_researcher(alice: User) -> None:
    root = make_user("root", role="admin")
    tenant = alice.tenant
    assert tenant is not None
    quota: dict[str, Any] = {"quota": {"gpu": 0}}
    looks = {"users/": 403, "audit/": 403, f"users/{alice.pk}/": 404, f"tenants/{tenant.pk}/": 404}
    for scope in ("read", "submit"):
        client = rest(root, scope)
        assert {path: send(client, "GET", path).status_code for path in looks} == looks
        assert send(client, "GET", "tenants/").json()["count"] == 0
    assert send(client, "PATCH", f"users/{alice.pk}/", {"role": "admin"}).status_code == 404
    assert send(client, "POST", "users/", {"username": "x"}).status_code == 403
    assert send(client, "POST", "teams/", {"name": "x"}).status_code == 403
    assert send(client, "PATCH", f"tenants/{tenant.pk}/", quota).status_code == 404
    full = rest(root, "admin")
    assert send(full, "PATCH", f"tenants/{tenant.pk}/", quota).status_code == 200


@pytest.mark.parametrize(
    ("name", "asked", "status", "given"),
    [
        ("alice", {}, 200, "submit"),
        ("root", {}, 200, "admin"),
        ("root", {"scope": "read"}, 200, "read"),
        ("alice", {"scope": "admin"}, 403, None),
        ("alice", {"scope": "x"}, 400, None),
    ],
)
def test_signing_in_by_rest_gives_all_that_one_may_unless_less_is_asked(
    alice: User, name: str, asked: dict[str, str], status: int, given: str | None
) -> None:
    make_user("root", role="admin")
    body = {"username": name, "password": PASSWORD, **asked}
    answer = send(Client(HTTP_HOST="localhost"), "POST", "auth/token/", body)
    assert (answer.status_code, answer.json().get("scope")) == (status, given)


def test_what_is_kept_of_a_token_does_not_authenticate(alice: User) -> None:
    token, plain = create_token(by=alice, name="t")
    for stolen in (token.digest, str(token.pk), f"hp_{token.digest}", plain[:-1], plain.upper()):
        client = Client(HTTP_HOST="localhost", headers={"Authorization": f"Token {stolen}"})
        assert send(client, "GET", "me/").status_code == 401


def test_an_expired_token_is_dead(alice: User) -> None:
    client = rest(alice)
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert send(client, "GET", "me/").status_code == 401
