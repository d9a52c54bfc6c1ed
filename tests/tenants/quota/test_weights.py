"""Quotas by weight: who sets them, what pages and REST say, and what is written when the cluster changes."""

from typing import Any

import pytest
from django.core.exceptions import PermissionDenied

from jobs.models import Node
from portal.errors import Refused
from tenants.models import AuditEntry, Team, Tenant, User
from tenants.quota.rules import change_quota
from tenants.quota.serializers import quota_json
from tenants.quota.weights import give_parts, read_namespaces
from tests.browsing import client_of, page_of
from tests.factories import make_tenant, make_user
from tests.portal.markup import Markup, find_faults

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


GIB = 2**30
NODE = {"cpu": 8_000, "memory": 32 * GIB, "gpu": 2, "pods": 110}
READY = [{"type": "Ready", "status": "True", "reason": "", "message": "", "since": None}]


@pytest.fixture
def nodes(db: None) -> None:
    """Of 16 CPUs, 64 GiB and 4 GPUs in all; one more is for others, and one has been away for long."""
    taints = [{"key": "others", "value": "", "effect": "NoSchedule"}]
    away = [{**READY[0], "status": "False", "since": "2026-11-01T00:00:00+00:00"}]
    for name, more in {
        "one": {},
        "two": {"allocatable": {**NODE, "gpu": 0}},  # its device plugin starts again
        "others": {"taints": taints},
        "away": {"conditions": away},
    }.items():
        about = {"capacity": NODE, "allocatable": NODE, "conditions": READY, **more}
        Node.objects.create(name=name, **about)


def fixed(name: str, cpu: int, memory_gib: int, gpu: int) -> Tenant:
    tenant = make_tenant(name)
    quota = {"cpu": cpu, "memory": memory_gib * GIB, "gpu": gpu}
    change_quota(by=root(), tenant=tenant, quota=quota, is_confirmed=True)
    return Tenant.objects.get(pk=tenant.pk)


@pytest.mark.parametrize(
    ("other", "used", "part", "is_refused"),
    [
        ((24_000, 128, 8), {}, "CPU 0, memory 0, GPUs 0", True),
        ((24_000, 8, 0), {}, "CPU 0, memory 56Gi, GPUs 4", True),
        ((8_000, 8, 0), {}, "CPU 8, memory 56Gi, GPUs 4", False),
        ((12_000, 8, 2), {"cpu": 5_000}, "CPU 4, memory 56Gi, GPUs 2", True),
        ((12_000, 8, 2), {"cpu": 4_000, "gpu": 1}, "CPU 4, memory 56Gi, GPUs 2", False),
    ],
)
def test_a_part_is_shown_before_it_is_one_and_confirmed_where_it_is_too_small(
    nodes: None, other: tuple[int, int, int], used: dict[str, int], part: str, is_refused: bool
):
    make_user("root", role="admin")
    fixed("mallory", *other)
    alice = fixed("alice", 8_000, 16, 2)
    Tenant.objects.filter(pk=alice.pk).update(observed_used=used)
    page = page_of(client_of("root").get(f"/tenants/{alice.pk}/quota/"))
    assert f"That would be {part} now." in page.one("p", id="quota_by_weight-hint").text
    body = {"quota_by_weight": True}
    tried = patch("root", alice, {**body, "dry_run": True})
    assert tried.status_code == 200, tried.content
    shown = tried.json()["quota"]
    assert f"CPU {shown['cpu']}, memory {shown['memory']}, GPUs {shown['gpu']}" == part
    assert (tried.json()["quota_by_weight"], tenant_of("alice").quota) == (True, alice.quota)
    # By REST and by the form: nothing is changed before it is confirmed.
    typed = {"quota_by_weight": "true", "was-quota_by_weight": "false"}
    if is_refused:
        answer = patch("root", alice, body)
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (409, "confirm_part")
        assert part in answer.json()["errors"][0]["text"]
        page = page_of(client_of("root").post(f"/tenants/{alice.pk}/quota/", typed))
        assert part in page.text
        assert page.one("button", name="confirm").text == "Change it all the same"
        assert page.one("option", selected="").get("value") == "true"
        assert not tenant_of("alice").quota_by_weight
        typed["confirm"] = "1"
    assert client_of("root").post(f"/tenants/{alice.pk}/quota/", typed).status_code == 302
    assert tenant_of("alice").quota_by_weight
    give_parts({"cpu": 16_000, "memory": 64 * GIB, "gpu": 4})
    now = quota_json(tenant_of("alice").quota)
    assert f"CPU {now['cpu']}, memory {now['memory']}, GPUs {now['gpu']}" == part


def test_who_takes_from_others_by_weight_confirms_it(nodes: None):
    make_user("root", role="admin")
    alice, bob = fixed("alice", 4_000, 16, 1), fixed("bob", 4_000, 16, 1)
    for tenant in (alice, bob):
        change_quota(by=root(), tenant=tenant, quota_by_weight=True, weight=1)
    give_parts({"cpu": 16_000, "memory": 64 * GIB, "gpu": 4})
    Tenant.objects.update(observed_used={"cpu": 6_000})
    mallory = fixed("mallory", 1_000, 1, 0)
    for body, others in (
        ({"quota": {"cpu": "12"}}, "2 other namespaces by weight"),
        ({"quota": {"gpu": 4}}, "2 other namespaces by weight"),
    ):
        answer = patch("root", mallory, body)
        assert (answer.status_code, others in answer.content.decode()) == (409, True)
        assert tenant_of("mallory").quota == mallory.quota
    assert patch("root", mallory, {"quota": {"cpu": "2"}}).status_code == 200
    # A larger weight of one takes from the other.
    answer = patch("root", alice, {"weight": 9})
    assert (answer.status_code, "1 other namespace by weight" in answer.content.decode()) == (
        409,
        True,
    )
    assert patch("root", alice, {"weight": 9, "confirm": True}).status_code == 200
    # What is not known is not asked about.
    Node.objects.all().delete()
    assert patch("root", bob, {"quota_by_weight": False}).status_code == 200


def posted_page(path: str, sent: dict[str, str]) -> Markup:
    """The form again, as it is shown after it was refused."""
    shown = Markup(client_of("root").post(path, sent).content.decode())
    assert find_faults(shown) == []
    return shown


@pytest.mark.parametrize(
    ("is_by_weight", "typed", "part"),
    [
        (False, {}, "CPU 4, memory 28Gi, GPUs 2"),
        (False, {"weight": "3"}, "CPU 6, memory 42Gi, GPUs 3"),
        (False, {"weight": "3", "quota_by_weight": "true"}, "CPU 6, memory 42Gi, GPUs 3"),
        (False, {"weight": "many"}, ""),
        (True, {}, ""),
        (True, {"weight": "3"}, "CPU 6, memory 42Gi, GPUs 3"),
        (True, {"weight": "3", "quota_by_weight": "false"}, ""),
        (True, {"weight": "0"}, ""),
    ],
)
def test_the_form_shows_the_part_of_the_weight_that_is_typed(
    nodes: None, is_by_weight: bool, typed: dict[str, str], part: str
):
    make_user("root", role="admin")
    bob, alice = fixed("bob", 0, 0, 0), fixed("alice", 0, 0, 0)
    fixed("mallory", 8_000, 8, 0)
    sharing = (bob, alice) if is_by_weight else (bob,)
    for tenant in sharing:
        change_quota(by=root(), tenant=tenant, quota_by_weight=True)
    shown = {"quota_by_weight": str(is_by_weight).lower(), "weight": "1"}
    sent = {**shown, **{f"was-{name}": text for name, text in shown.items()}, **typed}
    answer = client_of("root").get(
        f"/tenants/{alice.pk}/quota/", sent, headers={"HX-Request": "true"}
    )
    hint = page_of(answer).one("p", id="quota_by_weight-hint").text
    assert (f"That would be {part} now." if part else "") in hint
    assert ("That would be" in hint) == bool(part)


def test_a_weight_of_a_team_that_takes_from_others_is_confirmed(nodes: None):
    make_user("root", role="admin")
    teams = {name: Team.objects.create(name=name) for name in ("vision", "speech")}
    for name, team in (("alice", "vision"), ("bob", "speech")):
        tenant = make_tenant(name, team=teams[team])
        change_quota(by=root(), tenant=tenant, quota_by_weight=True)
    give_parts({"cpu": 16_000, "memory": 64 * GIB, "gpu": 4})
    Tenant.objects.update(observed_used={"cpu": 5_000})
    rest, page = f"/api/v1/teams/{teams['vision'].pk}/", f"/admin/teams/{teams['vision'].pk}/"
    text = "1 namespace by weight would have nothing, or less than it uses."

    def sent(**body: Any) -> Any:
        return client_of("root").patch(rest, body, content_type="application/json")

    answer = sent(weight=9, name="sight")
    [error] = answer.json()["errors"]
    assert (answer.status_code, error["code"]) == (409, "confirm_part")
    assert text in error["text"]
    teams["vision"].refresh_from_db()
    assert (teams["vision"].weight, teams["vision"].name) == (1, "vision")
    # What takes nothing that is used, or no weight at all, is not asked about.
    assert sent(weight=2).status_code == 200
    assert sent(name="sight").status_code == 200
    assert sent(weight=9, confirm=True).status_code == 200
    assert sent(weight=2).status_code == 200
    typed = {"name": "sight", "weight": "9"}
    shown = posted_page(page, typed)
    assert text in shown.text
    assert shown.value("weight") == "9"
    assert shown.one("button", name="confirm").text == "Save it all the same"
    assert client_of("root").post(page, {**typed, "confirm": "1"}).status_code == 302
    teams["vision"].refresh_from_db()
    assert teams["vision"].weight == 9


@pytest.mark.parametrize("quota", [{"cpu": "12", "gpu": 0}, {"gpu": 4}, {}])
def test_a_new_namespace_that_takes_from_others_is_confirmed(nodes: None, quota: dict[str, Any]):
    make_user("root", role="admin")
    make_user("carol")
    alice = fixed("alice", 4_000, 16, 1)
    fixed("bob", 2_000, 4, 2)  # and the default takes 8 CPU, 32Gi and 2 GPUs
    change_quota(by=root(), tenant=alice, quota_by_weight=True)
    give_parts({"cpu": 16_000, "memory": 64 * GIB, "gpu": 4})
    Tenant.objects.update(observed_used={"cpu": 4_000, "gpu": 1})
    body = {"owner": "carol", **({"quota": quota} if quota else {})}

    def sent(**more: Any) -> Any:
        return client_of("root").post(
            "/api/v1/tenants/", {**body, **more}, content_type="application/json"
        )

    answer = sent()
    text = "1 other namespace by weight would have nothing, or less than it uses."
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (409, "confirm_part")
    assert text in answer.json()["errors"][0]["text"]
    typed = {"owner": "carol", **{kind: str(amount) for kind, amount in quota.items()}}
    shown = posted_page("/admin/namespaces/new/", typed)
    assert text in shown.text
    assert shown.value("owner") == "carol"
    assert shown.one("button", name="confirm").text == "Create it all the same"
    assert not Tenant.objects.filter(owner__username="carol").exists()
    if quota:
        assert sent(confirm=True).status_code == 201
    else:
        typed["confirm"] = "1"
        answer = client_of("root").post("/admin/namespaces/new/", typed)
        assert answer.status_code == 302
    assert tenant_of("carol").quota["gpu"] == quota.get("gpu", 2)
    # Whoever has a namespace of one's own made at sign-in is asked nothing about others.
    client = client_of(make_user("dora").username)
    assert client.post("/api/v1/tenants/", {}, content_type="application/json").status_code == 201
