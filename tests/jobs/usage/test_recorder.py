"""Usage rows follow pods: over restarts of the portal, outages, deletions and re-used names."""

from datetime import timedelta
from uuid import NAMESPACE_OID, uuid5

import pytest
from asgiref.sync import sync_to_async

from jobs.models import ReconcilerLease, ReplicaArchive, Workload
from jobs.usage.models import UsageInterval
from portal.cluster import labels
from tenants.models import Team, Tenant
from tests.factories import make_service
from tests.jobs.engine.kubelet import START, Life
from tests.jobs.engine.world import ROLE, TF_PS, World

pytestmark = pytest.mark.django_db(transaction=True)

GPU = {"worker": {**ROLE, "gpu_count": 2}}


@pytest.fixture
def world() -> World:
    return World()


async def rows() -> list[UsageInterval]:
    return [row async for row in UsageInterval.objects.order_by("started_at", "pk")]


def is_running(job: Workload) -> bool:
    return job.state == "running"


def is_final(job: Workload) -> bool:
    return job.state in {"succeeded", "failed", "stopped"}


def seconds(row: UsageInterval) -> float:
    assert row.ended_at is not None
    return (row.ended_at - row.started_at).total_seconds()


async def run(world: World) -> Workload:
    """A training that runs until it is told otherwise."""
    world.sim.lives = {"worker-0": [Life("hang")]}
    job = await world.submit()
    await world.until(is_running)
    return job


def lose_pods(world: World) -> None:
    """All pods vanish without a word."""
    for pod in world.sim.of("Pod"):
        world.sim.store.pop(("Pod", "u-alice", pod["metadata"]["name"]))


def put_pod(world: World, owner: str, role: str) -> None:
    """A pod that runs, of what has this id."""
    uid = str(uuid5(NAMESPACE_OID, f"{role} {owner}"))
    world.sim.life_of[uid] = Life("hang")
    marks = {labels.MANAGED_BY: labels.MANAGER, labels.OWNER: owner, labels.ROLE: role}
    name = f"{role}-{owner}".replace(" ", "-")
    world.sim.put(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "u-alice", "uid": uid, "labels": marks},
            "spec": {"containers": [{"name": "main"}], "nodeName": "node"},
            "status": {"phase": "Pending"},
        }
    )


async def last_known(seconds: float) -> None:
    """What a reconciler left in its lease: when it last knew the cluster."""
    at = START + timedelta(seconds=seconds)
    await ReconcilerLease.objects.filter(pk=1).aupdate(cluster_ok_at=at)


async def test_each_pod_of_a_training_has_one_row_from_start_to_end(world: World):
    await world.submit(topology="tf-ps", replicas=TF_PS, name="ps test")
    job = await world.until(is_final)
    await world.rest(40)
    found = await rows()
    assert len(found) == 3
    assert {(row.kind, row.object_id, row.object_name) for row in found} == {
        ("job", job.pk, "ps test")
    }
    assert {(row.tenant_id, row.owner_id) for row in found} == {(job.tenant_id, job.owner_id)}
    assert {row.node for row in found} == {"node"}
    assert all(row.ended_at is not None for row in found)
    # The two workers run one second each; the server until its grace is over.
    assert sorted(map(seconds, found))[:2] == [1, 1]
    assert sorted(map(seconds, found))[2] >= 30


async def test_the_row_says_what_was_held_and_the_team_of_that_time(world: World):
    world.sim.lives = {"worker-0": [Life("hang")]}
    await world.submit(replicas=GPU)
    vision = await Team.objects.acreate(name="vision")
    await Tenant.objects.aupdate(team=vision)
    await world.until(is_running)
    await Tenant.objects.aupdate(team=await Team.objects.acreate(name="nlp"))
    await world.intend(desired="stop")
    await world.until(is_final)
    await world.rest()
    (row,) = await rows()
    assert (row.gpu_count, row.cpu_millicores, row.memory_bytes) == (2, 1000, 2**30)
    assert row.team_id == vision.pk
    assert row.ended_at is not None


async def test_every_try_counts(world: World):
    world.sim.lives = {"worker-0": [Life("fail"), Life("ok")]}
    await world.submit(retries=1)
    await world.until(is_final)
    await world.rest()
    found = await rows()
    assert len({row.pod_uid for row in found}) == 2
    assert all(row.ended_at is not None for row in found)


async def test_a_restart_of_the_portal_goes_on_with_what_still_runs(world: World):
    await run(world)
    (before,) = await rows()
    await last_known(world.sim.seconds)
    for _ in range(100):
        world.sim.step()
    await world.start()
    await world.rest()
    (row,) = await rows()
    assert (row.pk, row.started_at, row.ended_at) == (before.pk, before.started_at, None)


async def test_a_pod_that_ended_while_nobody_looked_is_closed_with_its_own_time(world: World):
    await run(world)
    await last_known(world.sim.seconds)
    for _ in range(50):
        world.sim.step()
    world.sim.change_life("worker-0", Life("ok"))
    world.sim.step()
    ended_at = START + timedelta(seconds=world.sim.seconds)
    for _ in range(500):
        world.sim.step()
    await world.start()
    (row,) = await rows()
    assert row.ended_at == ended_at


async def test_a_pod_that_is_gone_after_a_restart_is_closed_when_it_was_last_known(world: World):
    await run(world)
    await world.rest(20)
    await last_known(world.sim.seconds)
    known_at = START + timedelta(seconds=world.sim.seconds)
    lose_pods(world)
    world.sim.seconds += 7200
    await world.start()
    await world.rest()
    row = (await rows())[0]
    assert row.ended_at == known_at
    assert 20 <= seconds(row) < 40


async def test_what_the_pod_itself_told_the_portal_is_believed_before_that(world: World):
    job = await run(world)
    await last_known(world.sim.seconds)
    (row,) = await rows()
    told_at = START + timedelta(seconds=world.sim.seconds + 3600)
    await ReplicaArchive.objects.acreate(
        workload=job, role="worker", index=0, attempt=1, pod_uid=row.pod_uid, completed_at=told_at
    )
    lose_pods(world)
    world.sim.seconds += 7200
    await world.start()
    assert (await rows())[0].ended_at == told_at


async def test_an_outage_of_the_cluster_is_not_counted_as_use(world: World):
    await run(world)
    await world.rest(10)
    known_at = START + timedelta(seconds=world.sim.seconds)
    informer = world.shift._cache.pods
    informer.watch.health.problem = "the cluster does not answer"
    world.is_view_frozen = True
    world.sim.seconds += 3600
    await world.rest(2)
    lose_pods(world)
    informer.watch.health.problem = ""
    world.is_view_frozen = False
    await world.rest(2)
    row = (await rows())[0]
    assert row.ended_at is not None
    assert abs(row.ended_at - known_at) <= timedelta(seconds=2)


async def test_a_notebooks_pod_counts_for_the_notebook(world: World):
    job = await world.submit()
    service = await sync_to_async(make_service)(job.tenant, name="explore")
    await world.until(is_final)
    put_pod(world, str(service.pk), "notebook")
    await world.rest()
    row = (await rows())[-1]
    assert (row.kind, row.object_id, row.object_name) == ("notebook", service.pk, "explore")
    assert row.ended_at is None


async def test_a_pod_of_nothing_we_know_is_left_out_and_not_asked_about_again(world: World):
    await world.submit()
    for owner in ("no uuid", "8c1f9f6e-5c0e-4b0e-9d0c-2f3f3b0b7a11"):
        put_pod(world, owner, "worker")
    job = await world.until(is_final)
    await world.rest(12)
    assert {row.object_id for row in await rows()} == {job.pk}
