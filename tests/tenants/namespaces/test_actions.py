"""The verbs: who may, from which state, with which words typed; each leaves one audit row."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.utils import timezone

from portal.errors import Refused
from portal.web.rest import read
from tenants.audit.record import asked_from
from tenants.models import AuditEntry, Team, Tenant, User
from tenants.namespaces import actions
from tenants.namespaces.actions import VERBS, verbs_for
from tenants.namespaces.serializers import VERB_FIELDS, WordsSerializer
from tests.factories import make_tenant, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> User:
    return make_user("root", role="admin")


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("alice")


def delete(root: User, tenant: Tenant, data: str = "keep") -> Tenant:
    return actions.delete(by=root, tenant=tenant, confirm=tenant.namespace, data=data)


def purge(root: User, tenant: Tenant) -> Tenant:
    name, owner = tenant.namespace, tenant.owner.username
    return actions.purge(by=root, tenant=tenant, confirm=name, confirm_early=owner)


def carry_out(name: str, *, by: User, tenant: Tenant, given: Any) -> Tenant:
    return VERBS[name](by=by, tenant=tenant, **read(WordsSerializer(VERB_FIELDS[name], given)))


def verbs() -> list[str]:
    return list(AuditEntry.objects.filter(kind="tenant").values_list("verb", flat=True))[::-1]


def test_the_whole_life_leaves_a_row_for_each_step(root: User, tenant: Tenant):
    with asked_from("10.0.0.9"):
        actions.suspend(by=root, tenant=tenant, why="no holiday work")
    actions.resume(by=root, tenant=tenant)
    delete(root, tenant, "delete")
    actions.restore(by=root, tenant=tenant)
    delete(root, tenant, "keep")
    assert purge(root, tenant).desired == "purged"
    assert verbs() == ["create", "suspend", "resume", "delete", "restore", "delete", "purge"]
    entry = AuditEntry.objects.get(verb="suspend")
    assert (entry.actor_name, entry.source_address) == ("root", "10.0.0.9")
    assert entry.detail == {"why": "no holiday work"}
    assert AuditEntry.objects.get(verb="purge").detail == {"data": "keep", "early": True}


def test_a_verb_that_changes_nothing_leaves_no_row(root: User, tenant: Tenant):
    actions.resume(by=root, tenant=tenant)
    actions.restore(by=root, tenant=tenant)
    actions.suspend(by=root, tenant=tenant)
    before = Tenant.objects.get(pk=tenant.pk)
    actions.suspend(by=root, tenant=tenant, why="again")
    after = Tenant.objects.get(pk=tenant.pk)
    assert (after.revision, after.desired_why) == (before.revision, "")
    assert verbs() == ["create", "suspend"]


@pytest.mark.parametrize("name", VERBS)
def test_only_an_admin_may(tenant: Tenant, name: str):
    team = Team.objects.create(name="vision")
    lee = make_user("lee", team=team)
    team.leads.add(lee)
    Tenant.objects.filter(pk=tenant.pk).update(team=team)
    for user in (tenant.owner, lee, make_user("mallory")):
        with pytest.raises(PermissionDenied):
            carry_out(name, by=user, tenant=tenant, given={})
    assert Tenant.objects.get(pk=tenant.pk).desired == "active"


@pytest.mark.parametrize(
    ("desired", "refused"),
    [
        ("active", {"purge"}),
        ("suspended", {"restore", "purge"}),
        ("deleted", {"suspend", "resume"}),
        ("purged", {"suspend", "resume", "delete", "restore"}),
    ],
)
def test_the_state_decides_what_may_come_next(
    root: User, tenant: Tenant, desired: str, refused: set[str]
):
    Tenant.objects.filter(pk=tenant.pk).update(desired=desired, purge_data="keep")
    tenant.refresh_from_db()
    words = {"confirm": tenant.namespace, "data": "keep"}
    for name in VERBS:
        given = {key: words[key] for key in VERB_FIELDS[name] if key in words}
        if name in refused:
            with pytest.raises(Refused) as caught:
                carry_out(name, by=root, tenant=tenant, given=given)
            assert caught.value.status == 409
            assert caught.value.errors[0].code == "wrong_state"
            assert name not in verbs_for(tenant)
    assert Tenant.objects.get(pk=tenant.pk).desired == desired


def test_what_is_gone_is_history(root: User, tenant: Tenant):
    Tenant.objects.filter(pk=tenant.pk).update(state="gone", desired="purged")
    for name in VERBS:
        with pytest.raises(Refused) as caught:
            carry_out(name, by=root, tenant=tenant, given={})
        assert caught.value.errors[0].code == "tenant_gone"


@pytest.mark.parametrize("typed", ["", "alice", "U-ALICE", "u-alice-00000000"])
@pytest.mark.parametrize("verb", ["delete", "purge"])
def test_the_name_must_be_typed_exactly(root: User, tenant: Tenant, verb: str, typed: str):
    if verb == "purge":
        delete(root, tenant)
    before = Tenant.objects.get(pk=tenant.pk).desired
    given = {"confirm": typed} | ({"data": "keep"} if verb == "delete" else {})
    with pytest.raises(Refused) as caught:
        carry_out(verb, by=root, tenant=tenant, given=given)
    assert (caught.value.errors[0].field, caught.value.errors[0].code) == (
        "confirm",
        "wrong_confirmation",
    )
    assert Tenant.objects.get(pk=tenant.pk).desired == before


@pytest.mark.parametrize(
    ("data", "code"),
    [("", "required"), ("archive", "not_available_yet"), ("burn", "invalid_choice")],
)
def test_the_choice_for_the_data_is_needed(root: User, tenant: Tenant, data: str, code: str):
    with pytest.raises(Refused) as caught:
        delete(root, tenant, data)
    assert (caught.value.errors[0].field, caught.value.errors[0].code) == ("data", code)


def test_a_purge_within_the_days_of_grace_needs_a_second_name(root: User, tenant: Tenant):
    delete(root, tenant, "delete")
    name = tenant.namespace
    with pytest.raises(Refused) as caught:
        actions.purge(by=root, tenant=tenant, confirm=name)
    assert (caught.value.errors[0].code, caught.value.status) == ("grace_not_over", 409)
    with pytest.raises(Refused) as caught:
        actions.purge(by=root, tenant=tenant, confirm=name, confirm_early="root")
    assert (caught.value.errors[0].code, caught.value.status) == ("wrong_confirmation", 400)
    assert Tenant.objects.get(pk=tenant.pk).desired == "deleted"
    over = timezone.now() - timedelta(seconds=1)
    Tenant.objects.filter(pk=tenant.pk).update(purge_after=over)
    assert actions.purge(by=root, tenant=tenant, confirm=name).desired == "purged"
    assert AuditEntry.objects.get(verb="purge").detail == {"data": "delete", "early": False}


def test_another_choice_for_the_data_begins_the_days_of_grace_anew(root: User, tenant: Tenant):
    delete(root, tenant, "keep")
    soon = timezone.now() + timedelta(minutes=1)
    Tenant.objects.filter(pk=tenant.pk).update(purge_after=soon)
    assert delete(root, tenant, "keep").purge_after == soon
    row = delete(root, tenant, "delete")
    assert row.purge_data == "delete"
    assert row.purge_after is not None
    assert row.purge_after > timezone.now() + timedelta(days=6, hours=23)


def test_restoring_forgets_the_choice(root: User, tenant: Tenant):
    delete(root, tenant, "delete")
    row = actions.restore(by=root, tenant=tenant)
    assert (row.desired, row.purge_data, row.purge_after) == ("active", "", None)


@pytest.mark.parametrize(
    "given",
    [None, [], "x", {"why": 1}, {"why": "a\0b"}, {"why": "x" * 501}, {"namespace": "kube-system"}],
)
def test_words_that_cannot_be_used_are_refused(root: User, tenant: Tenant, given: Any):
    with pytest.raises(Refused):
        carry_out("suspend", by=root, tenant=tenant, given=given)
    assert Tenant.objects.get(pk=tenant.pk).desired == "active"


def test_an_admin_makes_one_for_somebody_with_a_quota(root: User):
    make_user("bob")
    tenant = actions.create(by=root, owner="bob", quota={"gpu": 7})
    assert tenant.owner.username == "bob"
    assert tenant.quota["gpu"] == 7
    assert AuditEntry.objects.get(verb="create").actor_name == "root"


def test_nobody_gets_two_and_only_people_get_one(root: User, tenant: Tenant):
    disabled = make_user("dan")
    User.objects.filter(pk=disabled.pk).update(is_active=False)
    wanted = {"alice": "has_tenant", "nobody": "not_found", "dan": "account_disabled"}
    for owner, code in wanted.items():
        with pytest.raises(Refused) as caught:
            actions.create(by=root, owner=owner)
        assert caught.value.errors[0].code == code
    assert Tenant.objects.count() == 1


def test_a_researcher_makes_one_for_nobody_else(root: User):
    bob = make_user("bob")
    make_user("eve")
    calls: list[Callable[[], Tenant]] = [
        lambda: actions.create(by=bob, owner="eve"),
        lambda: actions.create(by=bob, owner="bob", quota={"gpu": 100}),
    ]
    for call in calls:
        with pytest.raises(PermissionDenied):
            call()
    assert actions.create(by=bob, owner="bob").owner == bob


def test_who_was_purged_gets_a_fresh_one_when_asked_and_not_by_signing_in(
    root: User, tenant: Tenant
):
    from tenants.actions import on_sign_in

    Tenant.objects.filter(pk=tenant.pk).update(state="gone", desired="purged")
    on_sign_in(user=tenant.owner)
    assert tenant.owner.tenant is None
    again = actions.create(by=tenant.owner, owner="alice")
    assert again.namespace == f"{tenant.namespace}-2"
    assert Tenant.objects.filter(owner=tenant.owner).count() == 2
