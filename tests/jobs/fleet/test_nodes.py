"""The page and the REST list of nodes: the arithmetic, and who is told whose pods hold the GPUs."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from jobs.models import Attempt, Node, Replica, Workload
from jobs.scheduling.models import NodeHold
from jobs.workloads.fit import node_capacities
from tenants.models import AuditEntry, Team, Tenant, User
from tests.browsing import client_of
from tests.factories import make_job, make_service, make_tenant, make_user
from tests.jobs.fleet.rows import GIB, held_by, make_node, read, rest
from tests.pools import set_pools

pytestmark = pytest.mark.django_db


@dataclass
class Scene:
    alice: Tenant
    bob: Tenant
    mallory: Tenant
    lee: User
    root: User
    job: Workload
    node: Node


@pytest.fixture
def scene() -> Scene:
    team = Team.objects.create(name="vision")
    alice, bob = make_tenant("alice", team=team), make_tenant("bob", team=team)
    for tenant in (alice, bob):
        tenant.owner.team = team
        tenant.owner.save()
    mallory = make_tenant("mallory")
    lee, root = make_user("lee", team=team), make_user("root", role="admin")
    team.leads.add(lee)
    job = make_job(alice, name="mnist wide", state="running")
    notebook = make_service(bob, name="bobs book", state="running")
    board = make_service(mallory, name="her board", kind="tensorboard", state="running")
    node = make_node(
        requested={"cpu": 9000, "memory": 30 * GIB, "gpu": 5, "pods": 14},
        holders=[
            held_by(alice, job, 2, "0,1"),
            held_by(bob, notebook),
            held_by(mallory, board),
            held_by(None),
        ],
    )
    return Scene(alice, bob, mallory, lee, root, job, node)


def test_the_whole_cluster_is_counted_on_top(scene: Scene) -> None:
    make_node("cpu-01", capacity={"cpu": 16_000}, allocatable={"cpu": 16_000, "memory": 0})
    page = read(scene.alice.owner, "/nodes/")
    assert "5/8 GPUs (62.5%)" in page.text
    assert "9 of 80" in page.text
    assert "2 nodes, all schedulable" in page.text


def test_broken_gpus_count_as_there_but_not_as_free(scene: Scene) -> None:
    Node.objects.update(allocatable={**scene.node.allocatable, "gpu": 6})
    page = read(scene.alice.owner, "/nodes/")
    assert "5/8 GPUs (62.5%)" in page.text
    assert "1 free, 2 out of service" in page.text
    cells = [e.get("class") for e in page.all("span") if "gpu-cell" in (e.get("class") or "")]
    kinds = [str(cell).removeprefix("gpu-cell gpu-") for cell in cells]
    assert kinds == ["seen"] * 2 + ["held"] * 3 + ["free"] + ["broken"] * 2


@pytest.mark.parametrize(
    "why",
    ["cordoned", "not ready", "avoided", "held", "tainted", "not selected", "held from tomorrow"],
)
def test_what_is_free_where_nothing_new_starts_is_not_called_free(
    settings: Any, scene: Scene, why: str
) -> None:
    """The page says what the form says: only there can something start."""
    node, at = make_node("gpu-02", labels={"mount": "yes"}), timezone.now()
    changes: dict[str, dict[str, Any]] = {
        "cordoned": {"is_schedulable": False},
        "not ready": {"is_ready": False},
        "tainted": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
        "not selected": {"labels": {}},
    }
    Node.objects.exclude(name="gpu-02").update(labels={"mount": "yes"})
    settings.NODE_SELECTOR = {"mount": "yes"}
    Node.objects.filter(pk=node.pk).update(**changes.get(why, {"is_ready": True}))
    if why == "avoided":
        make_node("gpu-03", labels={"mount": "yes"}, capacity={}, allocatable={})
        for tenant in (scene.alice, scene.bob, scene.alice):
            die(tenant, "gpu-02")
    if why.startswith("held"):
        from_at = at + timedelta(days=1 if why.endswith("tomorrow") else -1)
        NodeHold.objects.create(node="gpu-02", from_at=from_at, reason="new disks")
    page = read(scene.alice.owner, "/nodes/")
    total = " ".join(page.one("section", aria_labelledby="total-title").text.split())
    cards = [card.text for card in page.all("article")]
    (card,) = (text for text in cards if "gpu-02" in text.partition("GPUs")[0])
    cells = [e.get("title") for e in page.all("span") if "gpu-cell" in (e.get("class") or "")]
    if why == "held from tomorrow":  # what ends by then may still start
        assert "11 free" in total
        assert "all schedulable" in total
        assert "8 free" in card
        assert cells.count("free") == 11
        return
    assert "3 free, 8 on closed nodes" in total
    assert f"{len(cards) - 1} schedulable" in total
    assert " free" not in card
    assert "closed" in card
    assert cells.count("free") == 3
    assert cells.count("closed") == 8


def test_a_researcher_sees_the_own_training_and_of_others_no_name(scene: Scene) -> None:
    page = read(scene.alice.owner, "/nodes/")
    assert page.one("a", href=f"/trainings/{scene.job.pk}/").text == "mnist wide"
    assert "GPU 0,1" in page.text
    assert "a teammate's" in page.text
    assert "another team's" in page.text
    assert "other workload" in page.text
    source = page.source
    for secret in (
        "bobs book",
        "her board",
        scene.bob.namespace,
        scene.mallory.namespace,
        "kube-sys",
    ):
        assert secret not in source


def test_a_lead_sees_the_team_and_an_admin_everything(scene: Scene) -> None:
    lead = read(scene.lee, "/nodes/")
    assert "mnist wide" in lead.text
    assert "bobs book" in lead.text
    assert "her board" not in lead.source
    admin = read(scene.root, "/nodes/")
    for text in ("mnist wide", "bobs book", "her board", "kube-system"):
        assert text in admin.text


def test_rest_says_the_same_and_hides_the_same(scene: Scene) -> None:
    listed = rest(scene.alice.owner, "/api/v1/nodes/")
    assert (listed["count"], listed["next"]) == (1, None)
    node = listed["results"][0]
    assert node["gpu"] == {"total": 8, "allocated": 5, "unhealthy": 0}
    assert node["allocatable"] == {"cpu": "64", "memory": "256Gi", "gpu": 8, "pods": 110}
    assert node["is_simulated"] is False
    mine, *others = node["holders"]
    assert (mine["kind"], mine["name"], mine["owner"]) == ("job", "mnist wide", "alice")
    assert mine["id"] == str(scene.job.pk)
    assert len(others) == 3
    for holder in others:
        hidden = ("namespace", "pod", "kind", "id", "name", "owner", "gpus")
        assert [holder[field] for field in hidden] == [None] * len(hidden)
        assert holder["gpu"] == 1
    seen = rest(scene.root, "/api/v1/nodes/")["results"][0]["holders"]
    assert {holder["kind"] for holder in seen} == {"job", "notebook", "tensorboard", "pod"}


def test_a_forged_owner_label_shows_nobody_elses_training(scene: Scene) -> None:
    forged = held_by(scene.mallory, scene.job)
    Node.objects.update(holders=[forged, {**forged, "owner": "no uuid", "pod": "odd"}])
    page = read(scene.mallory.owner, "/nodes/")
    assert "mnist wide" not in page.source
    assert forged["pod"] in page.text


def test_many_nodes_are_paged_and_an_empty_cluster_is_explained(scene: Scene) -> None:
    for number in range(60):
        make_node(f"n{number:03}")
    page = read(scene.alice.owner, "/nodes/")
    assert "24 of 61" in page.text
    assert "61 nodes" in page.text
    assert "5/488 GPUs (1%)" in page.text
    Node.objects.all().delete()
    assert "No nodes known" in read(scene.alice.owner, "/nodes/").text


def test_pools_and_whose_nodes_they_are_told(settings, tmp_path, scene: Scene) -> None:
    team = {"name": "a100", "title": "Large GPUs", "node_selector": {"gpu": "a100"}}
    empty = {"name": "t4", "node_selector": {"gpu": "t4"}, "scheduler_name": "yunikorn"}
    hidden = {"name": "old", "node_selector": {"gpu": "a100"}}
    assert "Pools" not in read(scene.alice.owner, "/nodes/").text
    set_pools(settings, tmp_path, {**team, "teams": ["vision", "gone"]}, empty, hidden)
    Node.objects.filter(name="gpu-01").update(
        labels={"gpu": "a100"}, taints=[{"key": "a", "value": "", "effect": "NoSchedule"}]
    )
    make_node("gpu-02")
    said = read(scene.alice.owner, "/nodes/").text
    assert "Pool: Large GPUs" in said
    assert "Large GPUs a100 1 node, for vision, gone." in " ".join(said.split())
    assert "t4 0 nodes. Placed by yunikorn: Homeport does not guarantee" in " ".join(said.split())
    assert "All other nodes default 1 node." in " ".join(said.split())
    assert "Reserved: a:NoSchedule" in said
    told = read(scene.root, "/admin/health/").text
    assert "No node has its labels: gpu=t4." in told
    assert "All nodes that it selects belong to a pool that stands before it." in told
    assert "There is no such team: gone." in told
    set_pools(settings, tmp_path, {**team, "tolerations": [{"key": "a", "operator": "Exists"}]})
    assert "Reserved" not in read(scene.alice.owner, "/nodes/").text
    Path(settings.CATALOG).write_text("pools: 3")
    assert "cannot be used" in read(scene.root, "/admin/health/").text
    assert "gpu-01" in read(scene.alice.owner, "/nodes/").text


def die(tenant: Tenant, node: str) -> None:
    """A training of this tenant's ends because the node was lost."""
    row, at = make_job(tenant, state="failed"), timezone.now() - timedelta(minutes=1)
    Attempt.objects.create(workload=row, number=1, cause="first", ended_at=at)
    Replica.objects.create(
        workload=row, role="worker", index=0, node=node, reason_code="node_lost", finished_at=at
    )


def test_a_node_on_which_trainings_die_is_avoided_until_an_admin_uses_it_again(
    scene: Scene,
) -> None:
    for name in ("gpu-02", "gpu-03"):
        make_node(name)
    admins, everybody = "/admin/scheduling/", "/nodes/"
    assert "No node is avoided" in read(scene.root, admins).text
    calm = read(scene.root, everybody).source
    for tenant in (scene.alice, scene.bob, scene.alice):
        die(tenant, "gpu-02")
        die(tenant, "gpu-01")
    assert {one.name for one in node_capacities() if not one.is_open} == {"gpu-01"}
    died_at = Replica.objects.filter(node="gpu-01").latest("finished_at").finished_at
    until = f"{died_at + timedelta(hours=1):%H:%M}"
    places = {one["name"]: one for one in rest(scene.alice.owner, "/api/v1/nodes/")["results"]}
    assert places["gpu-01"]["avoided_until"][:13] == f"{died_at + timedelta(hours=1):%Y-%m-%dT%H}"
    assert (places["gpu-02"]["avoided_until"], places["gpu-02"]["pool"]) == (None, "default")
    told = read(scene.alice.owner, everybody)
    assert f"Avoided until {until} UTC" in told.text
    assert "3 trainings of 2 people ended here within 30 minutes" in told.text
    assert told.text.count("It is used all the same") == 1
    assert "Use it again" not in told.text
    assert read(scene.root, everybody).text.count("Use it again") == 1
    assert "Use it again" not in calm
    assert f"Nothing new starts on gpu-01 until {until} UTC." in read(scene.root, admins).text
    health = read(scene.root, "/admin/health/").text
    assert "Node gpu-01" in health
    assert "Node gpu-02" in health
    admin = client_of(scene.root)
    for name, said in (("gone", "not there any more"), ("gpu-01", "starts on gpu-01 again")):
        answer = admin.post("/admin/nodes/use-again/", {"node": name}, follow=True)
        assert said in answer.content.decode()
    # Now it is the other one's turn to be avoided.
    assert {one.name for one in node_capacities() if not one.is_open} == {"gpu-02"}
    assert AuditEntry.objects.get(kind="node").object_name == "gpu-01"
