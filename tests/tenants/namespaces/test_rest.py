"""REST of namespaces: what each role is answered, and what bad bodies are told."""

from typing import Any

import pytest
from django.test import Client

from tenants.actions import create_token
from tenants.models import ApiToken, Team, Tenant, User
from tests.factories import make_tenant, make_user

pytestmark = pytest.mark.django_db


def client_of(user: User) -> Client:
    scope = ApiToken.Scope.ADMIN if user.may("administer") else ApiToken.Scope.SUBMIT
    _, plain = create_token(by=user, name="t", scope=scope)
    return Client(
        raise_request_exception=False,
        headers={"Authorization": f"Token {plain}", "Host": "localhost"},
    )


@pytest.fixture
def root() -> Client:
    return client_of(make_user("root", role="admin"))


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("alice")


def post(client: Client, path: str, body: Any = None) -> Any:
    return client.post(
        f"/api/v1/{path}", {} if body is None else body, content_type="application/json"
    )


def verb(client: Client, tenant: Tenant, name: str, body: Any = None) -> Any:
    return post(client, f"tenants/{tenant.pk}/{name}/", body)


def test_a_namespace_goes_through_its_life(root: Client, tenant: Tenant):
    shown = verb(root, tenant, "suspend", {"why": "holidays"}).json()
    assert (shown["desired"], shown["why"]) == ("suspended", "holidays")
    assert verb(root, tenant, "resume").json()["desired"] == "active"
    words = {"confirm": tenant.namespace, "data": "delete"}
    shown = verb(root, tenant, "delete", words).json()
    assert shown["desired"] == "deleted"
    assert shown["purge_data"] == "delete"
    assert shown["purge_after"]
    assert verb(root, tenant, "restore").json()["purge_after"] is None
    verb(root, tenant, "delete", words)
    answer = verb(root, tenant, "purge", {"confirm": tenant.namespace})
    assert answer.status_code == 409
    assert answer.json()["errors"][0]["code"] == "grace_not_over"
    words = {"confirm": tenant.namespace, "confirm_early": "alice"}
    assert verb(root, tenant, "purge", words).json()["desired"] == "purged"


def test_a_lead_sees_it_and_may_not_the_stranger_sees_nothing(tenant: Tenant):
    team = Team.objects.create(name="vision")
    lee = make_user("lee", team=team)
    team.leads.add(lee)
    Tenant.objects.filter(pk=tenant.pk).update(team=team)
    answered = {
        name: verb(client_of(user), tenant, "suspend").status_code
        for name, user in {
            "owner": tenant.owner,
            "lead": lee,
            "stranger": make_user("mallory"),
        }.items()
    }
    assert answered == {"owner": 403, "lead": 403, "stranger": 404}
    assert Tenant.objects.get(pk=tenant.pk).desired == "active"


@pytest.mark.parametrize(
    ("name", "body", "field", "code"),
    [
        ("suspend", {"why": 3}, "why", "invalid"),
        ("suspend", {"why": "\0"}, "why", "invalid"),
        ("suspend", ["why"], "", "invalid"),
        ("suspend", {"namespace": "kube-system"}, "namespace", "unknown_field"),
        ("delete", {}, "confirm", "wrong_confirmation"),
        ("delete", {"confirm": {"a": 1}, "data": "keep"}, "confirm", "invalid"),
        ("purge", {"confirm": "x"}, "", "wrong_state"),
    ],
)
def test_bad_words_are_told_by_field(
    root: Client, tenant: Tenant, name: str, body: Any, field: str, code: str
):
    answer = verb(root, tenant, name, body)
    assert answer.status_code in {400, 409}
    error = answer.json()["errors"][0]
    assert (error["field"], error["code"]) == (field, code)
    assert Tenant.objects.get(pk=tenant.pk).desired == "active"


def test_an_admin_makes_a_namespace(root: Client):
    make_user("bob")
    answer = post(root, "tenants/", {"owner": "bob", "quota": {"gpu": 3, "memory": "4Gi"}})
    assert answer.status_code == 201
    assert answer.json()["owner"] == "bob"
    assert answer.json()["quota"]["gpu"] == 3
    again = post(root, "tenants/", {"owner": "bob"})
    assert again.status_code == 409
    assert again.json()["errors"][0]["code"] == "has_tenant"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"owner": "nobody"}, "owner"),
        ({"owner": 7}, "owner"),
        ({"owner": "bob", "quota": {"gpu": -1}}, "quota.gpu"),
        ({"owner": "bob", "quota": {"gpu": 10**30}}, "quota.gpu"),
        ({"owner": "bob", "quota": "lots"}, "quota"),
        ({"owner": "bob", "team": "vision"}, "team"),
        ("bob", ""),
    ],
)
def test_a_namespace_that_cannot_be_made_is_not(root: Client, body: Any, field: str):
    make_user("bob")
    answer = post(root, "tenants/", body)
    assert answer.status_code == 400, answer.content
    assert answer.json()["errors"][0]["field"] == field
    assert not Tenant.objects.exists()


def test_a_researcher_makes_their_own_and_nobody_elses():
    bob, eve = make_user("bob"), make_user("eve")
    client = client_of(bob)
    assert post(client, "tenants/", {"owner": eve.username}).status_code == 403
    answer = post(client, "tenants/")
    assert answer.status_code == 201
    assert answer.json()["owner"] == "bob"


def test_what_was_purged_is_shown_to_admins_who_ask_for_it(root: Client, tenant: Tenant):
    Tenant.objects.filter(pk=tenant.pk).update(state="gone", desired="purged")
    assert root.get("/api/v1/tenants/").json()["count"] == 0
    gone = root.get("/api/v1/tenants/?state=gone").json()["results"]
    assert [row["namespace"] for row in gone] == [tenant.namespace]
    assert root.get(f"/api/v1/tenants/{tenant.pk}/").status_code == 200
    owner = client_of(tenant.owner)
    assert owner.get(f"/api/v1/tenants/{tenant.pk}/").status_code == 404
    assert owner.get("/api/v1/me/").json()["tenant"] is None
