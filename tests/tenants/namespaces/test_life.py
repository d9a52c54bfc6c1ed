"""The life of a namespace by REST: who may, from which state; one audit row each.

Bodies that are refused are rows of tests/recorded (`given/bodies.yaml`).
"""

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone

from tenants.actions import on_sign_in
from tenants.models import AuditEntry, Tenant
from tenants.namespaces.actions import VERBS, verbs_for
from tenants.namespaces.serializers import VERB_FIELDS
from tests.factories import make_tenant, make_user
from tests.tenants.people.people import rest, send

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("alice")


def verb(client: Client, tenant: Tenant, name: str, body: Any = None) -> Any:
    return send(client, "POST", f"tenants/{tenant.pk}/{name}/", {} if body is None else body)


def delete(client: Client, tenant: Tenant, data: str = "keep") -> Any:
    return verb(client, tenant, "delete", {"confirm": tenant.namespace, "data": data})


def told(answer: Any) -> tuple[int, str, str]:
    """Status; field and code of the first error."""
    error = answer.json()["errors"][0]
    return answer.status_code, error["field"], error["code"]


def desired(tenant: Tenant) -> str:
    return Tenant.objects.get(pk=tenant.pk).desired


def test_the_whole_life_leaves_a_row_for_each_step(api: Client, tenant: Tenant) -> None:
    shown = verb(api, tenant, "suspend", {"why": "no holiday work"}).json()
    assert (shown["desired"], shown["why"]) == ("suspended", "no holiday work")
    assert verb(api, tenant, "resume").json()["desired"] == "active"
    shown = delete(api, tenant, "delete").json()
    assert (shown["desired"], shown["purge_data"]) == ("deleted", "delete")
    assert shown["purge_after"]
    shown = verb(api, tenant, "restore").json()
    assert (shown["desired"], shown["purge_data"], shown["purge_after"]) == ("active", "", None)
    delete(api, tenant, "keep")
    words = {"confirm": tenant.namespace, "confirm_early": "alice"}
    assert verb(api, tenant, "purge", words).json()["desired"] == "purged"
    rows = AuditEntry.objects.filter(kind="tenant").order_by("pk")
    assert [(row.verb, row.detail) for row in rows] == [
        ("create", {}),
        ("suspend", {"why": "no holiday work"}),
        ("resume", {}),
        ("delete", {"data": "delete"}),
        ("restore", {}),
        ("delete", {"data": "keep"}),
        ("purge", {"data": "keep", "early": True}),
    ]


def test_a_verb_that_changes_nothing_leaves_no_row(api: Client, tenant: Tenant) -> None:
    verb(api, tenant, "resume")
    verb(api, tenant, "restore")
    verb(api, tenant, "suspend")
    before = Tenant.objects.get(pk=tenant.pk)
    shown = verb(api, tenant, "suspend", {"why": "again"}).json()
    assert (shown["revision"], shown["why"]) == (before.revision, "")
    verbs = AuditEntry.objects.filter(kind="tenant").values_list("verb", flat=True)
    assert list(verbs) == ["suspend", "create"]


@pytest.mark.parametrize("name", VERBS)
def test_only_an_admin_may(tenant: Tenant, name: str) -> None:
    words = dict.fromkeys(VERB_FIELDS[name], "")
    with pytest.raises(PermissionDenied):
        VERBS[name](by=tenant.owner, tenant=tenant, **words)


@pytest.mark.parametrize(
    ("wanted", "state", "refused", "code"),
    [
        ("active", "active", {"purge"}, "wrong_state"),
        ("suspended", "suspended", {"restore", "purge"}, "wrong_state"),
        ("deleted", "deleting", {"suspend", "resume"}, "wrong_state"),
        ("purged", "deleting", {"suspend", "resume", "delete", "restore"}, "wrong_state"),
        ("purged", "gone", set(VERBS), "tenant_gone"),
    ],
)
def test_the_state_decides_what_may_come_next(
    api: Client, tenant: Tenant, wanted: str, state: str, refused: set[str], code: str
) -> None:
    Tenant.objects.filter(pk=tenant.pk).update(desired=wanted, state=state, purge_data="keep")
    tenant.refresh_from_db()
    words = {"confirm": tenant.namespace, "data": "keep"}
    for name in refused:
        given = {key: words[key] for key in VERB_FIELDS[name] if key in words}
        assert told(verb(api, tenant, name, given)) == (409, "", code)
        assert name not in verbs_for(tenant)
    assert desired(tenant) == wanted


def test_a_purge_within_the_days_of_grace_needs_a_second_name(api: Client, tenant: Tenant) -> None:
    delete(api, tenant, "delete")
    wrong = {"confirm": "alice"}
    assert told(verb(api, tenant, "purge", wrong)) == (400, "confirm", "wrong_confirmation")
    words = {"confirm": tenant.namespace}
    assert told(verb(api, tenant, "purge", words)) == (409, "confirm_early", "grace_not_over")
    answer = verb(api, tenant, "purge", words | {"confirm_early": "root"})
    assert told(answer) == (400, "confirm_early", "wrong_confirmation")
    assert desired(tenant) == "deleted"
    over = timezone.now() - timedelta(seconds=1)
    Tenant.objects.filter(pk=tenant.pk).update(purge_after=over)
    assert verb(api, tenant, "purge", words).json()["desired"] == "purged"
    assert AuditEntry.objects.get(verb="purge").detail == {"data": "delete", "early": False}


def test_another_choice_for_the_data_begins_the_days_of_grace_anew(
    api: Client, tenant: Tenant
) -> None:
    delete(api, tenant, "keep")
    now = timezone.now()
    Tenant.objects.filter(pk=tenant.pk).update(purge_after=now)
    for data, is_anew in (("keep", False), ("delete", True)):
        delete(api, tenant, data)
        row = Tenant.objects.get(pk=tenant.pk)
        assert row.purge_data == data
        assert row.purge_after is not None
        assert (row.purge_after > now + timedelta(days=6, hours=23)) == is_anew


def test_an_admin_makes_one_for_somebody_and_a_researcher_for_themselves(api: Client) -> None:
    bob = make_user("bob")
    body = {"owner": "bob", "quota": {"gpu": 3, "memory": "4Gi"}}
    answer = send(api, "POST", "tenants/", body)
    assert answer.status_code == 201
    assert (answer.json()["owner"], answer.json()["quota"]["gpu"]) == ("bob", 3)
    assert AuditEntry.objects.get(verb="create", kind="tenant").actor_name == "root"
    assert told(send(rest(bob), "POST", "tenants/", {})) == (409, "owner", "has_tenant")
    assert send(rest(make_user("eve")), "POST", "tenants/", {}).json()["owner"] == "eve"


def test_what_was_purged_is_history_and_its_owner_gets_a_fresh_one_when_asked(
    api: Client, tenant: Tenant
) -> None:
    Tenant.objects.filter(pk=tenant.pk).update(state="gone", desired="purged")
    assert send(api, "GET", "tenants/").json()["count"] == 0
    gone = send(api, "GET", "tenants/?state=gone").json()["results"]
    assert [row["namespace"] for row in gone] == [tenant.namespace]
    assert send(api, "GET", f"tenants/{tenant.pk}/").status_code == 200
    on_sign_in(user=tenant.owner)  # which gives others one
    owner = rest(tenant.owner)
    assert send(owner, "GET", f"tenants/{tenant.pk}/").status_code == 404
    assert send(owner, "GET", "me/").json()["tenant"] is None
    again = send(owner, "POST", "tenants/", {}).json()
    assert again["namespace"] == f"{tenant.namespace}-2"
