"""Admission on rows and a view: quota and nodes are never given twice, and waits have words."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from jobs.engine.admission import newly_kept, write
from jobs.engine.rows import Kept
from jobs.models import Attempt, Workload
from jobs.places import NodeClaim, NodeReservation
from jobs.rules.queue.look import Looked
from jobs.rules.queue.state import Reservation, RoomClaim
from jobs.workloads.deadline import extend
from portal.errors import Refused
from tenants.models import Tenant
from tests.factories import make_user
from tests.jobs.engine.kubelet import Life
from tests.jobs.engine.simulation import Sim
from tests.jobs.engine.world import ROLE, TF_PS, World
from tests.pools import set_catalog, set_pools

pytestmark = pytest.mark.django_db(transaction=True)


def needs(cpu: int = 1000, gpu: int = 0) -> dict[str, Any]:
    return {"worker": {**ROLE, "cpu_millicores": cpu, "gpu_count": gpu}}


@pytest.fixture
def world() -> World:
    world = World()
    world.sim.lives = {"worker-0": [Life("hang")]}
    return world


async def states(world: World) -> list[str]:
    return [job.state async for job in Workload.objects.order_by("queued_at", "name")]


def held(world: World) -> int:
    """GPUs of pods that exist and have not ended."""
    return sum(
        int(p["spec"]["containers"][0]["resources"]["limits"].get("nvidia.com/gpu", 0))
        for p in world.sim.of("Pod")
        if p["status"]["phase"] not in {"Succeeded", "Failed"}
    )


async def test_many_at_once_get_exactly_what_there_is(world: World) -> None:
    for number in range(12):
        await world.submit(name=f"job {number:02}", replicas=needs(gpu=1))
    for _ in range(6):
        await world.round()
        assert held(world) <= 8
    assert await states(world) == ["running"] * 8 + ["queued"] * 4
    last = await world.row()
    assert last.reason_text.startswith(
        ("Waiting for quota: needs 1 GPU", "Waiting for quota behind")
    )


async def test_what_ends_makes_room_in_the_order_of_submission(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("ok")]}
    for number in range(20):
        await world.submit(name=f"job {number:02}", replicas=needs(gpu=2))
    order: list[str] = []
    for _ in range(60):
        await world.round()
        assert held(world) <= 8
        async for job in Workload.objects.exclude(state="queued").order_by("queued_at"):
            if job.name not in order:
                order.append(job.name)
    assert order == sorted(order)
    assert set(await states(world)) == {"succeeded"}


async def test_admitted_pods_that_are_not_there_yet_are_counted(world: World) -> None:
    await world.submit(name="first", replicas=needs(gpu=5))
    world.sim.is_down = True  # its pods cannot be made, but it is admitted
    await world.round()
    await world.submit(name="second", replicas=needs(gpu=5))
    await world.round()
    assert await states(world) == ["starting", "queued"]


async def test_foreign_pods_on_a_node_are_counted(world: World) -> None:
    world.sim.lives["x-0"] = [Life("hang")]
    world.sim.put(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "foreign",
                "namespace": "elsewhere",
                "labels": {"homeport.dev/role": "x"},
            },
            "spec": {
                "nodeName": "node",
                "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "6"}}}],
            },
            "status": {"phase": "Running"},
        }
    )
    await world.submit(replicas=needs(gpu=4))
    await world.round()
    job = await world.row()
    assert (job.state, job.reason_text) == (
        "queued",
        "Waiting for free nodes: needs 4 GPUs, 2 of 8 free",
    )


async def test_all_replicas_or_none(world: World) -> None:
    world.sim.lives = {f"worker-{n}": [Life("hang")] for n in range(8)}
    await world.submit(
        name="wide",
        topology="tf-ps",
        replicas={"worker": {**ROLE, "gpu_count": 1, "count": 6}, "ps": ROLE},
    )
    await world.round(2)
    await world.submit(
        name="too wide for what is left",
        topology="tf-ps",
        replicas={"worker": {**ROLE, "gpu_count": 1, "count": 4}, "ps": ROLE},
    )
    for _ in range(5):
        await world.round()
    assert await states(world) == ["running", "queued"]
    assert held(world) == 6


async def test_room_is_kept_for_one_that_lacks_only_nodes() -> None:
    world = World(Sim(namespaces=("u-alice", "u-bob")))
    world.sim.lives = {"worker-0": [Life("hang")]}

    async def submit(name: str, gpu: int, deadline_s: int | None = None, **more: Any) -> Workload:
        policy = {"deadline_s": deadline_s, "starting_deadline_s": 60}
        return await world.submit(name=name, replicas=needs(gpu=gpu), **policy, **more)

    async def state(of: Workload) -> tuple[str, str]:
        row = await world.row(of)
        return row.state, row.reason_text

    first = await submit("first", 6, 600)
    await world.round(3)
    large = await submit("large", 8, owner="bob")
    endless = await submit("endless", 1)
    short = await submit("short", 1, 60)
    await world.until(lambda row: row.state == "running")
    kept = await NodeReservation.objects.aget()
    assert (kept.workload_id, kept.room) == (large.pk, [["node", [8, 1000, 2**30, 1, 0]]])
    assert kept.starts_at is not None
    room_s = kept.starts_at.timestamp() - (await world.row(first)).admitted_at.timestamp()
    assert 0 <= room_s - (60 + 600 + 120) < 1, "rounded up"
    assert "; a node is kept so that it starts by " in (await state(large))[1]
    told = "what is free is kept for a workload of another namespace, which is ahead of it"
    assert (await state(endless))[1].endswith(told)
    await Workload.objects.filter(pk__in=[first.pk, short.pk]).aupdate(desired="stop")
    await world.until(lambda row: row.state == "running", of=large, seconds=10)
    assert (await state(endless))[0] == "queued"
    assert not await NodeReservation.objects.aexists()


async def test_an_end_that_is_extended_while_a_look_goes_on_moves_no_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The look has read the old end, and nothing is promised yet that the extension could be refused for."""
    world = World(Sim(namespaces=("u-alice", "u-bob")))
    world.sim.lives = {"worker-0": [Life("hang")]}
    lead = await sync_to_async(make_user)("root", role="admin")
    first = await world.submit(name="first", replicas=needs(gpu=8), deadline_s=600)
    await world.until(lambda row: row.state == "running")
    first = await world.row(first)
    assert world.shift is not None
    lease, promised, given = world.shift._lease, set(), []
    commit = lease.commit

    async def commit_late(written: Any) -> Any:
        if getattr(written, "func", None) is write and not given:
            given.append(await sync_to_async(extend)(by=lead, workload=first, deadline_s=7200))
        result = await commit(written)
        promised.update([one.starts_at async for one in NodeReservation.objects.all()])
        return result

    monkeypatch.setattr(lease, "commit", commit_late)
    await world.submit(name="large", owner="bob", replicas=needs(gpu=8))
    await world.rest(5)
    [starts_at] = promised
    ends_by = (await world.row(first)).ends_by
    assert given
    assert ends_by - first.ends_by == timedelta(seconds=6600)
    assert 0 <= (starts_at - ends_by).total_seconds() < 1, "rounded up"
    with pytest.raises(Refused, match="Its room is promised"):
        await sync_to_async(extend)(by=lead, workload=first, deadline_s=7201)


async def test_what_is_still_to_come_is_counted_where_it_was_admitted_to(world: World) -> None:
    """Not on the node that is kept for another one, whose time would move by a guess."""
    world = World(Sim(namespaces=("u-alice", "u-bob", "u-carol")))
    world.sim.lives = {"worker-0": [Life("hang")]}
    allocatable = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "4", "pods": "110"}
    for name in ("node-2", "node-3"):
        ready = {"type": "Ready", "status": "True"}
        status = {"allocatable": allocatable, "conditions": [ready]}
        world.sim.put(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
        )
    limits = {"deadline_s": 600, "starting_deadline_s": 60}
    await world.submit(name="first", replicas=needs(gpu=7), **limits)
    await world.rest(3)
    large = await world.submit(owner="bob", name="large", replicas=needs(gpu=8))
    await world.rest(3)
    promised = await NodeReservation.objects.aget()
    world.is_view_frozen = True  # pods of what starts now are not seen
    for number in range(3):
        await world.submit(owner="carol", name=f"later {number}", replicas=needs(gpu=1))
        await world.rest(2)
    assert (await states(world))[1:] == ["queued", *["starting"] * 3]
    kept = await NodeReservation.objects.aget()
    assert (kept.workload_id, kept.room, kept.starts_at) == (
        large.pk,
        promised.room,
        promised.starts_at,
    )
    avoided = {name for name, _ in kept.room}
    async for row in Workload.objects.filter(state="starting"):
        affinity = row.plan[0]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        [best] = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
        [field] = best["preference"]["matchFields"]
        assert not avoided.intersection(field["values"]), (
            "the scheduler is told where it found room"
        )


async def test_what_belongs_to_a_tenant_that_is_not_ready_waits_with_words(world: World) -> None:
    async def why() -> tuple[str, str]:
        await world.round()
        job = await world.row()
        return job.state, job.reason_code

    await world.submit()
    await Tenant.objects.aupdate(state="provisioning")
    assert await why() == ("queued", "tenant_not_ready")
    await Tenant.objects.aupdate(state="active")
    world.sim.store["ResourceQuota", "u-alice", "homeport"]["status"] = {}
    assert await why() == ("queued", "quota_unknown")


async def test_a_cordoned_or_broken_node_takes_nothing(world: World) -> None:
    node = world.sim.store["Node", "", "node"]
    node["spec"] = {"unschedulable": True}
    await world.submit()
    await world.round()
    assert (await world.row()).reason_text == (
        "Waiting for a node: all are cordoned, not ready, reserved, or lack the label of NODE_SELECTOR"
    )
    node["spec"] = {}
    node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    world.sim.touch(node)
    await world.round()
    assert (await world.row()).state == "queued"
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    world.sim.touch(node)
    await world.round()
    assert (await world.row()).state == "starting"


# --- poisoned rows ---
@pytest.mark.parametrize(
    ("kind", "poison"),
    [
        *(("training", {"replicas": replicas}) for replicas in ({}, {"worker": {"count": 1}})),
        *(("training", {"spec": spec}) for spec in ({"topology": "single"}, {"topology": "ring"})),
        ("training", {"notes": {"restarts": 7}}),
        ("training", {"spec": {"topology": "single", "command": [], "run_policy": 7}}),
        ("training", {"spec": {"topology": "single", "command": {}}, "state": "starting"}),
        (
            "training",
            {"state": "running", "plan": [], "root_uid": "x", "replicas": {"worker": None}},
        ),
        ("notebook", {"steps": [{}]}),
        *(
            (kind, poison)
            for kind in ("training", "notebook")
            for poison in (
                {"notes": {"committed_at": "yesterday"}},
                {"state": "confused"},
                {"kind": "a later one"},
            )
        ),
    ],
    ids=str,
)
async def test_one_poisoned_row_stops_no_other(
    world: World, kind: str, poison: dict[str, Any]
) -> None:
    bad = await world.submit(kind, name="bad")
    await world.intend(**poison)
    await world.submit(topology="tf-ps", replicas=TF_PS, clean_policy="all")
    world.sim.lives = {}
    assert (await world.until(lambda job: job.state == "succeeded")).name != "bad"
    notebook = await world.submit("notebook")
    await world.until(lambda row: row.state == "running", of=notebook)
    assert kind == "training" or (await world.row(bad)).state != "running"


async def test_a_poisoned_job_says_so_and_is_tried_again(world: World) -> None:
    bad = await world.submit()
    await world.until(lambda job: job.state == "running")
    good_notes = (await world.row()).notes
    await world.intend(notes={**good_notes, "committed_at": "yesterday"})
    await world.rest(30)
    events = [event async for event in bad.events.filter(reason="trouble")]
    assert len(events) == 1
    assert 2 <= events[0].count <= 8
    assert "cannot be read" in events[0].message
    await world.intend(notes=good_notes, desired="stop")
    await world.until(lambda job: job.state == "stopped", rounds=200)


async def test_low_gives_its_room_and_comes_back() -> None:
    """It has its grace, costs no retry, keeps its place, and its attempt says for whom."""
    world = World(Sim(namespaces=("u-alice", "u-bob")))
    world.sim.lives = {"worker-0": [Life("hang")]}
    low = await world.submit(name="low", replicas=needs(gpu=8), priority="low")
    await world.until(lambda row: row.state == "running")
    normal = await world.submit(owner="bob", name="normal", replicas=needs(gpu=4))
    await world.until(lambda row: row.state == "stopping", of=low)
    assert (await world.row(low)).reason_code == "preempted_low"
    assert await NodeClaim.objects.filter(workload=normal.pk).aexists()
    waits = await world.row(normal)
    assert waits.reason_text.startswith("Waiting for free nodes: work of low priority is")
    late = await world.submit(name="late", replicas=needs(gpu=1))
    await world.until(lambda row: row.state == "running", of=normal, seconds=5)
    row = await world.row(low)
    assert (row.state, row.preempted_at, row.attempt) == ("queued", None, 2)
    assert row.queued_at < normal.queued_at
    assert row.notes["retries_used"] == 0 if "retries_used" in row.notes else True
    await world.until(lambda row: row.state == "running", of=late, seconds=5)
    assert not await NodeClaim.objects.aexists()
    await Workload.objects.filter(pk__in=[normal.pk, late.pk]).aupdate(desired="stop")
    await world.until(lambda row: row.state == "running", of=low, seconds=5)
    cause = await Attempt.objects.filter(workload=low.pk).order_by("number").alast()
    assert cause is not None
    assert (cause.number, cause.cause) == (2, "preempted")


async def test_a_catalog_that_changes_under_what_waits_and_runs(
    settings: Any, tmp_path: Path
) -> None:
    world = World(Sim(namespaces=("u-alice", "u-bob")))
    a100 = {"name": "a100", "node_selector": {"gpu": "a100"}}
    node = world.sim.store["Node", "", "node"]
    node["metadata"]["labels"] = {"gpu": "a100"}
    world.sim.touch(node)
    set_pools(settings, tmp_path, a100)
    world.sim.lives = {"worker-0": [Life("fail", 137), Life("hang")]}
    runs = await world.submit(name="runs", replicas=needs(gpu=2), retries=1)
    await world.rest(2)

    async def terms() -> Any:
        [root] = [one for one in (await world.row(runs)).plan if one["kind"] == "Job"]
        affinity = root["spec"]["template"]["spec"].get("affinity", {}).get("nodeAffinity", {})
        [found] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).values()
        return found

    own = [{"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100"]}]}]
    assert await terms() == own
    await world.until(lambda row: row.attempt == 2 and row.state == "running", of=runs)
    assert await terms() == own, "between two attempts it keeps its room"
    waits = await world.submit(owner="bob", name="waits", replicas=needs(gpu=8), pool="a100")
    await world.rest(2)
    assert (await world.row(waits)).reason_code == "nodes"
    for pools, code, said in (
        (
            [{**a100, "name": "b100"}],
            "no_pool",
            "there is no pool a100, or it is not for its team.",
        ),
        ([{**a100, "teams": ["others"]}], "no_pool", "there is no pool a100, or it is not"),
        ([{**a100, "node_selector": {"gpu": "h100"}}], "no_nodes", "none of the pool a100 now"),
        ([a100], "nodes", "needs 8 GPUs, 6 of 8 free"),
    ):
        set_pools(settings, tmp_path, *pools)
        world.sim.touch(node)
        await world.rest(2)
        row = await world.row(waits)
        assert (row.state, row.reason_code) == ("queued", code), row.reason_text
        assert said in row.reason_text
        assert (await world.row(runs)).state == "running"
    good = settings.CATALOG
    settings.CATALOG = str(tmp_path / "wrong.yaml")
    Path(settings.CATALOG).write_text("pools: 3")
    world.sim.touch(node)
    await world.rest(2)
    row = await world.row(waits)
    assert (row.state, row.reason_code) == ("queued", "catalog_wrong")
    assert (await world.row(runs)).state == "running"
    settings.CATALOG = good
    world.sim.lives = {"worker-0": [Life("hang")]}
    world.about = runs
    await world.intend(desired="stop")
    await world.until(lambda row: row.state in {"starting", "running"}, of=waits)


async def test_low_borrows_beyond_the_quota_and_gives_it_back(
    settings: Any, tmp_path: Path
) -> None:
    set_catalog(settings, tmp_path, borrowing="cluster")
    world = World(Sim(namespaces=("u-alice", "u-bob")))
    world.sim.lives = {"worker-0": [Life("hang")]}
    own = await world.submit(name="own", replicas=needs(gpu=2))
    await Tenant.objects.aupdate(quota_gpu_count=4)
    await world.until(lambda row: row.state == "running", of=own)
    more = await world.submit(name="more", replicas=needs(gpu=4))
    low = await world.submit(name="low", replicas=needs(gpu=6), priority="low")
    await world.until(lambda row: row.state == "running", of=low)
    waits = await world.row(more)
    assert (waits.state, waits.reason_text) == (
        "queued",
        "Waiting for quota: needs 4 GPUs, 2 of 4 free",
    )
    back = await world.submit(owner="bob", name="back", replicas=needs(gpu=2))
    await world.until(lambda row: row.state == "running", of=back, seconds=5)
    assert (await world.row(low)).state == "queued"
    assert (await world.row(own)).state == "running"


def test_what_is_kept_as_before_is_not_written_again() -> None:
    """Rows come by their ids, and a look tells them in the order of the queue."""
    one, two = (Reservation(name, (("a", (1, 1, 1, 1, 0)),), 9) for name in ("b", "a"))
    claim = RoomClaim("c", (("a", (1, 1, 1, 1, 0)),), 9)
    before = Kept((two, one), (claim,))
    assert newly_kept(before, Looked((), (), (one, two), (claim,), None)) is None
    assert newly_kept(before, Looked((), (), (one,), (claim,), None)) == Kept((one,), (claim,))
    assert newly_kept(before, Looked((), (), (one, two), (), None)) == Kept((one, two))
