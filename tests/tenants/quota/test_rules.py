"""Changing quotas: who may, what the budget leaves, what is written down."""

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied

from portal.errors import Refused
from portal.web.rest import read
from tenants.audit.record import asked_from
from tenants.models import AuditEntry, Team, Tenant, User
from tenants.quota.rules import budget_lines, change_quota, quota_sums
from tenants.quota.serializers import QuotaChangeSerializer
from tests.factories import make_tenant, make_user

pytestmark = pytest.mark.django_db

GIB = 2**30


@pytest.fixture
def team() -> Team:
    """`vision`, led by Lee, with Alice and Bob at 8 CPU, 16Gi and 2 GPU each."""
    made = Team.objects.create(
        name="vision",
        budget_cpu_millicores=20_000,
        budget_memory_bytes=40 * GIB,
        budget_gpu_count=4,
    )
    made.leads.add(make_user("lee", team=made))
    for name in ("alice", "bob"):
        make_tenant(name, team=made)
    return made


def tenant_of(name: str) -> Tenant:
    return Tenant.objects.get(owner__username=name)


def person(name: str) -> User:
    return User.objects.get(username=name)


def refusals(change: Any) -> dict[str, str]:
    with pytest.raises(Refused) as caught:
        change()
    return {error.field: error.code for error in caught.value.errors}


def test_a_lead_moves_quota_within_the_budget(team: Team):
    lee = person("lee")
    before = tenant_of("alice").revision
    changed = change_quota(by=lee, tenant=tenant_of("alice"), quota={"cpu": 12_000})
    assert changed.quota_cpu_millicores == 12_000
    assert changed.quota_memory_bytes == 16 * GIB
    assert changed.revision == before + 1
    # 20 are full now: the other must give before it can take.
    assert refusals(lambda: change_quota(by=lee, tenant=tenant_of("bob"), quota={"cpu": 8001})) == {
        "quota.cpu": "over_budget"
    }
    change_quota(by=lee, tenant=tenant_of("alice"), quota={"cpu": 4000})
    change_quota(by=lee, tenant=tenant_of("bob"), quota={"cpu": 16_000})
    assert quota_sums([team.pk])[team.pk]["cpu"] == 20_000


def test_a_refusal_names_every_kind_over_the_budget_and_changes_nothing(team: Team):
    quota = {"cpu": 13_000, "memory": 25 * GIB, "gpu": 3, "pods": 30}
    with pytest.raises(Refused, match="at most 12 is available here") as caught:
        change_quota(by=person("lee"), tenant=tenant_of("alice"), quota=quota)
    told = {error.field: error.code for error in caught.value.errors}
    assert told == dict.fromkeys(("quota.cpu", "quota.memory", "quota.gpu"), "over_budget")
    assert tenant_of("alice").quota["cpu"] == 8000
    assert tenant_of("alice").quota["pods"] == 20
    assert not AuditEntry.objects.filter(verb="quota").exists()
    # No budget binds an admin.
    root = make_user("root", role="admin")
    assert change_quota(by=root, tenant=tenant_of("alice"), quota=quota).quota == {
        **quota,
        "nodeports": 4,
    }


def test_when_the_budget_shrank_a_lead_may_still_take_away(team: Team):
    team.budget_gpu_count = 1
    team.save()
    change_quota(by=person("lee"), tenant=tenant_of("alice"), quota={"gpu": 1})
    gpu = {line.kind: line for line in budget_lines(team)}["gpu"]
    assert (gpu.total, gpu.budget, gpu.over, gpu.free) == (3, 1, 2, 0)


def test_kinds_without_a_budget_have_no_limit_but_the_largest(team: Team):
    team.budget_cpu_millicores = None
    team.save()
    wanted = {"cpu": 10**9, "pods": 500}
    assert change_quota(by=person("lee"), tenant=tenant_of("bob"), quota=wanted).quota_pods == 500
    assert {line.kind: line.free for line in budget_lines(team)}["cpu"] is None


def test_a_lead_has_no_rights_but_in_the_team(team: Team):
    """Not in another one, nor in the own tenant elsewhere, nor where it has gone meanwhile."""
    nlp = Team.objects.create(name="nlp")
    make_tenant("mallory", team=nlp)
    ivy = make_tenant("ivy", team=nlp)
    team.leads.add(ivy.owner)
    stale = tenant_of("alice")
    Tenant.objects.filter(pk=stale.pk).update(team=nlp)
    for who, tenant in (("lee", tenant_of("mallory")), ("ivy", ivy), ("lee", stale)):
        with pytest.raises(PermissionDenied):
            change_quota(by=person(who), tenant=tenant, quota={"gpu": 1})


def test_the_audit_trail_has_before_and_after_of_what_changed_if_anything(team: Team):
    before = tenant_of("alice")
    change_quota(by=person("lee"), tenant=before, quota=before.quota)
    assert tenant_of("alice").revision == before.revision
    quota = {"cpu": 500, "memory": 16 * GIB}
    with asked_from("10.1.2.3"):
        change_quota(by=person("lee"), tenant=tenant_of("alice"), quota=quota)
    entry = AuditEntry.objects.get(verb="quota")
    assert (entry.actor_name, entry.kind, entry.source_address) == ("lee", "tenant", "10.1.2.3")
    assert entry.object_id == str(tenant_of("alice").pk)
    assert entry.detail == {"before": {"cpu": "8"}, "after": {"cpu": "500m"}}


def test_a_tenant_that_is_gone_has_no_quota_and_counts_no_more(team: Team):
    alice = tenant_of("alice")
    alice.state = Tenant.State.GONE
    alice.save()
    assert refusals(lambda: change_quota(by=person("lee"), tenant=alice, quota={"gpu": 1})) == {
        "": "tenant_gone"
    }
    assert quota_sums([team.pk])[team.pk] == {"cpu": 8000, "memory": 16 * GIB, "gpu": 2}


def amounts(given: Any) -> Any:
    return read(QuotaChangeSerializer(data={"quota": given}))["quota"]


def test_amounts_are_read_as_kubernetes_writes_them():
    given = {"cpu": "1500m", "memory": "16Gi", "gpu": 2, "pods": "7", "nodeports": 0}
    found = {"cpu": 1500, "memory": 16 * GIB, "gpu": 2, "pods": 7, "nodeports": 0}
    assert amounts(given) == found
    assert amounts({"cpu": 2.5}) == {"cpu": 2500}
    endless = {"cpu": float("inf")}
    assert refusals(lambda: amounts(endless)) == {"quota.cpu": "invalid_quantity"}
