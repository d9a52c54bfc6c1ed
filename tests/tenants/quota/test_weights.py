"""Quotas by weight: who sets them, what pages and REST say, and what is written when the cluster changes."""

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied

from portal.errors import Refused
from tenants.models import AuditEntry, Team, Tenant, User
from tenants.quota.rules import change_quota
from tenants.quota.weights import give_parts, read_namespaces
from tests.browsing import client_of, page_of
from tests.factories import make_tenant, make_user

pytestmark = pytest.mark.django_db

CLUSTER = {"cpu": 16_000, "memory": 50_451_910_656, "gpu": 8}


@pytest.fixture
def team() -> Team:
    """`vision`, led by Lee, with Alice and Bob by weight 3 and 5; Root is an admin."""
    made = Team.objects.create(name="vision")
    made.leads.add(make_user("lee", team=made))
    root = make_user("root", role="admin")
    for name, weight in (("alice", 3), ("bob", 5)):
        tenant = make_tenant(name, team=made)
        change_quota(by=root, tenant=tenant, weight=weight, quota_by_weight=True)
    return made


def tenant_of(name: str) -> Tenant:
    return Tenant.objects.get(owner__username=name)


def root() -> User:
    return User.objects.get(username="root")


def patch(name: str, tenant: Tenant, body: Any) -> Any:
    return client_of(name).patch(
        f"/api/v1/tenants/{tenant.pk}/", body, content_type="application/json"
    )


def test_a_split_is_written_once_and_anew_when_something_changes(
    team: Team, django_assert_num_queries: Any
):
    assert {pk for pk, _revision in give_parts(CLUSTER)} == {
        tenant_of("alice").pk,
        tenant_of("bob").pk,
    }
    alice, bob = tenant_of("alice"), tenant_of("bob")
    assert (alice.quota["cpu"], bob.quota["cpu"]) == (6_000, 10_000)
    assert (alice.quota["memory"], bob.quota["memory"]) == (18_919_466_496, 31_532_444_160)
    assert (alice.quota["gpu"], bob.quota["gpu"], bob.quota["pods"]) == (3, 5, 20)
    with django_assert_num_queries(1):
        assert give_parts(CLUSTER) == []
    # A fixed quota of 8 CPU, 16Gi and 2 GPUs comes first; a node that went takes 2 GPUs.
    make_tenant("mallory")
    assert len(give_parts({**CLUSTER, "gpu": 6})) == 2
    assert (tenant_of("alice").quota["gpu"], tenant_of("bob").quota["gpu"]) == (1, 3)
    assert tenant_of("mallory").quota["gpu"] == 2
    # Whose namespace is closed takes no part, and keeps its quota for when it is open again.
    Tenant.objects.filter(pk=bob.pk).update(desired=Tenant.Desired.SUSPENDED)
    [(changed, _)] = give_parts({**CLUSTER, "gpu": 6})
    assert (changed, tenant_of("alice").quota["gpu"]) == (alice.pk, 4)
    assert tenant_of("bob").quota["gpu"] == 3


def test_teams_are_split_first_and_one_without_a_team_is_one(team: Team):
    alone = make_tenant("ivy")
    change_quota(by=root(), tenant=alone, weight=2, quota_by_weight=True)
    assert (
        client_of("root")
        .patch(f"/api/v1/teams/{team.pk}/", {"weight": 6}, content_type="application/json")
        .json()["weight"]
        == 6
    )
    give_parts(CLUSTER)
    gpus = [tenant_of(name).quota["gpu"] for name in ("alice", "bob", "ivy")]
    assert gpus == [2, 4, 2]
    assert AuditEntry.objects.get(kind="team", verb="change").detail == {
        "before": {"weight": 1},
        "after": {"weight": 6},
    }


def test_nobody_by_weight_is_one_query_that_finds_nothing(django_assert_num_queries: Any):
    make_tenant("alice")
    with django_assert_num_queries(1):
        assert read_namespaces() == []


def test_only_an_admin_sets_weights_and_the_trail_tells(team: Team):
    alice, lee = tenant_of("alice"), User.objects.get(username="lee")
    for asked in ({"weight": 9}, {"quota_by_weight": False}):
        with pytest.raises(PermissionDenied):
            change_quota(by=lee, tenant=alice, **asked)
        assert patch("lee", alice, asked).status_code == 403
    assert patch("lee", alice, {"quota": {"pods": 9}, "weight": 3}).status_code == 200
    newest = AuditEntry.objects.filter(object_id=str(tenant_of("bob").pk)).first()
    assert newest is not None
    assert newest.detail == {
        "before": {"weight": 1, "quota": "fixed"},
        "after": {"weight": 5, "quota": "by weight"},
    }


def test_amounts_by_weight_are_not_typed_and_stay_when_they_are_fixed_again(team: Team):
    alice = tenant_of("alice")
    give_parts(CLUSTER)
    with pytest.raises(Refused, match="set by weight") as caught:
        change_quota(by=root(), tenant=alice, quota={"gpu": 4, "pods": 7})
    assert [error.field for error in caught.value.errors] == ["quota.gpu"]
    change_quota(by=root(), tenant=alice, quota_by_weight=False, quota={"cpu": 1000})
    give_parts(CLUSTER)
    assert tenant_of("alice").quota | {"memory": 0} == {
        "cpu": 1000,
        "memory": 0,
        "gpu": 3,
        "pods": 20,
        "nodeports": 4,
    }
    assert tenant_of("bob").quota["cpu"] == 15_000


@pytest.mark.parametrize("weight", [0, 101, 10**9, -1, 1.5, "many", None, True])
def test_weights_beyond_their_bounds_are_refused_in_words(team: Team, weight: Any):
    answer = patch("root", tenant_of("alice"), {"weight": weight})
    assert answer.status_code == 400
    [error] = answer.json()["errors"]
    assert error["field"] == "weight"
    numbers = isinstance(weight, int) and weight is not True
    assert error["text"] == "This must be from 1 to 100." or not numbers
    path = f"/api/v1/teams/{team.pk}/"
    body = {"weight": weight}
    assert client_of("root").patch(path, body, content_type="application/json").status_code == 400


def test_the_page_says_weight_share_and_by_how_much_it_is_over(team: Team):
    give_parts(CLUSTER)
    alice = tenant_of("alice")
    Tenant.objects.filter(pk=alice.pk).update(observed_used={"gpu": 5})
    for name in ("lee", "root"):
        page = page_of(client_of(name).get(f"/tenants/{alice.pk}/quota/"))
        assert page.one("p", id="by-weight").text == (
            "By weight: 3 of 8 in the team, whose weight is 1 of 1."
        )
        assert page.one("p", id="gpu-hint").text == (
            "5 in use. Over by 2. By weight 3 of 8 of the team, of 8 in all."
        )
    # A form that was sent as it was shown changes nothing; one field of it is changed alone.
    shown = {"quota_by_weight": "true", "weight": "3", "gpu": "3", "cpu": "6", "memory": "1"}
    sent = {**shown, **{f"was-{key}": value for key, value in shown.items()}, "weight": "4"}
    assert client_of("root").post(f"/tenants/{alice.pk}/quota/", sent).status_code == 302
    after = tenant_of("alice")
    assert (after.weight, after.quota_by_weight, after.quota) == (4, True, alice.quota)
    assert page_of(client_of("root").get(f"/admin/namespaces/{alice.pk}/")).text.count("by weight")
