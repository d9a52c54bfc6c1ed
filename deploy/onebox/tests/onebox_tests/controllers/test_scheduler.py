"""The scheduler on the real Api: order, parking, coming back, speed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from onebox.api.controllers.objects import find_condition, name_of
from onebox.api.controllers.scheduler import Scheduler
from onebox.api.controllers.volumebinder import VolumeBinder
from onebox_tests.controllers.world import Make, Obj, World, pod_spec


@pytest.fixture
def world(make_world: Callable[[Make], World]) -> World:
    return make_world(lambda api: [Scheduler(api), VolumeBinder(api)])


def add_node(world: World, name: str = "box", **allocatable: str) -> None:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}
    status = {
        "allocatable": amounts,
        "capacity": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    world.api.create("nodes", None, {"metadata": {"name": name}, "status": status})
    world.settle()


def submit(world: World, name: str, *, cpu: str = "0", settle: bool = True, **spec: Any) -> Obj:
    made = pod_spec(**spec)
    made["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    pod = world.api.create("pods", "ada", {"metadata": {"name": name}, "spec": made})
    if settle:
        world.settle()
    return pod


def where(world: World, name: str) -> str | None:
    return world.api.get("pods", "ada", name)["spec"].get("nodeName")


def scheduled(world: World, name: str) -> tuple[str, str, str]:
    status = world.api.get("pods", "ada", name)["status"]
    found = find_condition(status["conditions"], "PodScheduled") or {}
    return found["status"], found.get("reason", ""), found.get("message", "")


def test_a_pod_is_bound_and_says_so(world: World) -> None:
    add_node(world)
    submit(world, "train")
    assert where(world, "train") == "box"
    assert scheduled(world, "train")[0] == "True"
    assert world.events("Scheduled") == ["Successfully assigned ada/train to box"]


def test_a_pod_that_does_not_fit_waits_with_the_reason_and_comes_when_room_is_freed(
    world: World,
) -> None:
    add_node(world)
    first = submit(world, "first", cpu="3")
    submit(world, "second", cpu="2")
    words = (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    assert scheduled(world, "second") == ("False", "Unschedulable", words)
    assert world.events("FailedScheduling") == [words]
    world.advance(3600)
    assert world.events("FailedScheduling") == [words]  # not told again, not tried by timers
    world.finish(first)
    world.settle()
    assert where(world, "second") == "box"
    status = world.api.get("pods", "ada", "second")["status"]["conditions"]
    assert [c["status"] for c in status if c["type"] == "PodScheduled"] == ["True"]


def test_a_deleted_pod_frees_its_room(world: World) -> None:
    add_node(world)
    submit(world, "first", cpu="3")
    submit(world, "second", cpu="2")
    world.api.delete("pods", "ada", "first", grace_s=0)
    world.settle()
    assert where(world, "second") == "box"


def test_a_node_that_comes_or_gets_ready_or_larger_takes_waiting_pods(world: World) -> None:
    submit(world, "train", cpu="6")
    assert scheduled(world, "train")[2] == "no nodes available to schedule pods"
    add_node(world)
    assert "Insufficient cpu" in scheduled(world, "train")[2]
    status = world.api.get("nodes", None, "box")["status"]
    amounts = {**status["allocatable"], "cpu": "8"}
    world.api.patch(
        "nodes", None, "box", {"status": {"allocatable": amounts}}, subresource="status"
    )
    world.settle()
    assert where(world, "train") == "box"


def test_heartbeats_of_a_node_wake_nobody(world: World) -> None:
    add_node(world)
    submit(world, "train", cpu="6")
    beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-20T10:00:10Z"}
    world.api.patch("nodes", None, "box", {"status": {"conditions": [beat]}}, subresource="status")
    assert world.runtime.run_until_idle() == 0


def test_higher_priority_first_then_first_come(world: World) -> None:
    world.api.create("priorityclasses", None, {"metadata": {"name": "high"}, "value": 10})
    for name, extra in (("b", {}), ("a", {}), ("c", {"priorityClassName": "high"})):
        submit(world, name, cpu="2", settle=False, **extra)
    add_node(world)
    assert (where(world, "c"), where(world, "b"), where(world, "a")) == ("box", "box", None)


def test_gates_other_schedulers_and_deletion_are_respected(world: World) -> None:
    add_node(world)
    submit(world, "gated", schedulingGates=[{"name": "example.org/wait"}])
    submit(world, "foreign", schedulerName="kueue")
    assert (where(world, "gated"), where(world, "foreign")) == (None, None)
    world.api.patch("pods", "ada", "gated", {"spec": {"schedulingGates": []}})
    world.settle()
    assert where(world, "gated") == "box"


def claim(world: World, name: str, storage_class: str | None = "glusterfs") -> None:
    spec: Obj = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    if storage_class:
        spec["storageClassName"] = storage_class
    world.api.create("persistentvolumeclaims", "ada", {"metadata": {"name": name}, "spec": spec})
    world.settle()


def provision(world: World, name: str, storage_class: str = "glusterfs") -> None:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": f"/volumes/{name}"},
    }
    world.api.create("persistentvolumes", None, {"metadata": {"name": name}, "spec": spec})
    world.settle()


def test_a_pod_waits_for_its_claim(world: World) -> None:
    add_node(world)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    submit(world, "train", volumes=[volume])
    prefix = "0/1 nodes are available: "
    suffix = " preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    assert scheduled(world, "train")[2] == (
        f'{prefix}persistentvolumeclaim "data" not found.{suffix}'
    )
    claim(world, "data")
    assert scheduled(world, "train")[2] == (
        f"{prefix}pod has unbound immediate PersistentVolumeClaims.{suffix}"
    )
    provision(world, "pv-1")
    assert where(world, "train") == "box"


def test_a_claim_that_waits_for_its_first_consumer_learns_the_node(world: World) -> None:
    add_node(world)
    world.api.create(
        "storageclasses",
        None,
        {
            "metadata": {"name": "late"},
            "provisioner": "homeport.dev/folder",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    claim(world, "data", "late")
    assert "waiting for first consumer to be created before binding" in world.events(
        "WaitForFirstConsumer"
    )
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    submit(world, "train", volumes=[volume])
    assert where(world, "train") is None
    made = world.api.get("persistentvolumeclaims", "ada", "data")
    assert made["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "box"
    provision(world, "pv-1", "late")
    assert where(world, "train") == "box"


def test_200_pods_are_placed_at_little_cost(world: World) -> None:
    add_node(world, cpu="400", pods="500")
    for number in range(200):
        submit(world, f"train-{number:03}", cpu="1", settle=False)
    began_s = time.process_time()
    world.settle()
    took_s = time.process_time() - began_s
    assert all(pod["spec"].get("nodeName") == "box" for pod in world.pods())
    assert took_s < 2.0  # about 0.3 s


@pytest.mark.parametrize("commits", range(6))
def test_a_kill_at_any_write_binds_every_pod_once(world: World, commits: int) -> None:
    add_node(world)
    for name in ("a", "b", "c"):
        submit(world, name, cpu="2", settle=False)
    world.settle_or_die_after(commits)
    bound = [name_of(pod) for pod in world.pods() if pod["spec"].get("nodeName")]
    assert bound == ["a", "b"]
    assert scheduled(world, "c")[0] == "False"
