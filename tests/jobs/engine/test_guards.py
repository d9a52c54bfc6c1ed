"""The guards of the queue on the simulated cluster: an image that cannot be pulled, and a node on which trainings die."""

import copy
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from jobs.models import Node, Workload
from jobs.scheduling.actions import use_again
from tests.factories import make_user
from tests.jobs.engine.kubelet import Life
from tests.jobs.engine.simulation import Sim
from tests.jobs.engine.world import ROLE, World

pytestmark = pytest.mark.django_db(transaction=True)
TOLD = (
    "python:3.11-slim could not be pulled three times within ten minutes (“not found”); one workload tries "
    "it every ten minutes, next at 12:{:02} UTC"
)


@pytest.fixture
def world() -> World:
    return World(Sim(namespaces=("u-alice", "u-bob")))


def fail_pulls(world: World, count: int) -> None:
    """What the kubelet says of all pods that wait for their image."""
    for pod in [pod for pod in world.sim.of("Pod") if pod["status"]["phase"] == "Pending"]:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        event = {
            "kind": "Event",
            "metadata": {"name": f"{name}.1", "namespace": namespace},
            "involvedObject": {"kind": "Pod", "name": name, "namespace": namespace},
            "reason": "Failed",
            "message": 'Failed to pull image "python:3.11-slim": not found',
            "type": "Warning",
            "count": count,
            "lastTimestamp": world.sim.stamp(),
        }
        world.sim.put(event)


async def states(world: World, *rows: Workload) -> list[str]:
    """What each says of its wait, or its state."""
    found = [await world.row(row) for row in rows]
    return [row.reason_text if row.state == "queued" else row.state for row in found]


async def test_one_tries_an_image_every_ten_minutes_until_it_can_be_pulled(world: World) -> None:
    lives = ("image", "ok", "image", "hang")
    world.sim.lives = {"worker-0": [Life(kind) for kind in lives]}
    first = await world.submit()
    await world.until(lambda job: job.reason_code == "image_pull")
    fail_pulls(world, 2)
    await world.rest()
    fail_pulls(world, 3)
    await world.rest()
    kinds = ({}, {"kind": "notebook", "image": "python:3.11-slim"}, {})
    line = [await world.submit(name=f"t{n}", **kind) for n, kind in enumerate(kinds)]
    await world.submit(owner="bob")
    await world.until(lambda job: job.state == "succeeded")
    assert await states(world, *line) == [TOLD.format(10)] * 3
    assert (await world.row(line[0])).reason_next_step.startswith("Starts when a pod with it runs.")
    await world.until(lambda job: job.state == "starting", of=line[0], seconds=10)
    assert 600 <= world.sim.seconds < 620
    assert (await world.row(first)).reason_code == "image_pull"
    assert await states(world, *line) == ["starting", TOLD.format(20), TOLD.format(20)]
    await world.until(lambda job: job.reason_code == "image_pull", of=line[0])
    fail_pulls(world, 3)
    await world.until(lambda job: job.state == "running", of=line[1], seconds=10)
    tried = [(await world.row(row)).admitted_at for row in line[:2]]
    assert 600 <= (tried[1] - tried[0]).total_seconds() < 640
    await world.until(lambda job: job.state == "running", of=line[2], rounds=10)


async def avoids(world: World, row: Workload) -> bool:
    """Whether the pods of its current attempt keep off the node."""
    plan: Any = (await world.row(row)).plan
    return "NotIn" in str(plan) and "'node'" in str(plan)


async def test_new_work_keeps_off_a_node_on_which_trainings_of_two_people_died(
    world: World,
) -> None:
    spare = copy.deepcopy(world.sim.of("Node")[0])
    spare["metadata"] = {"name": "spare", "namespace": ""}
    spare["status"]["allocatable"]["nvidia.com/gpu"] = "2"
    world.sim.put(spare)
    lives = ("evict", "refused", "evict", "hang")
    world.sim.lives = {"worker-0": [Life(kind) for kind in lives]}
    policy: Any = {"retries": 1, "restart_policy": "exit_code"}
    rows = [await world.submit(owner=name, **policy) for name in ("alice", "bob", "alice")]
    for row in rows:
        await world.until(lambda job: (job.attempt, job.state) == (2, "running"), of=row)
    assert [await avoids(world, row) for row in rows][-1]
    small = await world.submit(replicas={"worker": {**ROLE, "gpu_count": 1}})
    await world.until(lambda job: job.state == "running")
    assert await avoids(world, small)
    large = await world.submit(replicas={"worker": {**ROLE, "gpu_count": 4}})
    await world.rest()
    told = (await world.row(large)).reason_text
    assert told.startswith("Waiting for free nodes: needs 4 GPUs, ")
    assert told.endswith("; 1 of 2 nodes take no pods")
    root = await sync_to_async(make_user)("root", role="admin")
    node = await Node.objects.aget(name="node")
    await sync_to_async(use_again)(by=root, node=node)
    await world.until(lambda job: job.state == "running", of=large)
    assert not await avoids(world, large)
    assert all([(await world.row(row)).state == "running" for row in rows])
