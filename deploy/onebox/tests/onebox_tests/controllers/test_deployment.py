"""Deployments and ReplicaSets: Recreate exactly, RollingUpdate within its bounds, honest status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onebox.api.controllers.deployment import DeploymentController
from onebox.api.controllers.deployment_plan import HASH_LABEL, REVISION
from onebox.api.controllers.gc import GarbageCollector
from onebox.api.controllers.objects import find_condition, is_deleting, name_of
from onebox.api.controllers.podstate import is_ready
from onebox.api.controllers.quota import QuotaController
from onebox.api.controllers.replicaset import ReplicaSetController
from onebox_tests.controllers.world import Make, Obj, World, pod_spec


@pytest.fixture
def world(make_world: Callable[[Make], World]) -> World:
    return make_world(
        lambda api: [
            DeploymentController(api),
            ReplicaSetController(api),
            GarbageCollector(api),
            QuotaController(api),
        ]
    )


def deploy(world: World, *, pod: Obj | None = None, **spec: Any) -> Obj:
    spec.setdefault("strategy", {"type": "Recreate"})
    spec["selector"] = {"matchLabels": {"app": "ps"}}
    spec["template"] = {"metadata": {"labels": {"app": "ps"}}, "spec": pod or pod_spec()}
    created = world.api.create("deployments", "ada", {"metadata": {"name": "ps-0"}, "spec": spec})
    world.settle()
    return created


def get(world: World) -> Obj:
    return world.api.get("deployments", "ada", "ps-0")


def change(world: World, **spec: Any) -> None:
    world.api.patch("deployments", "ada", "ps-0", {"spec": spec})
    world.settle()


def set_image(world: World, image: str) -> None:
    container = {"name": "main", "image": image, "command": ["true"]}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    world.api.patch("deployments", "ada", "ps-0", patch)
    world.settle()


def condition(world: World, type_: str) -> tuple[str, str, str]:
    found = find_condition(get(world)["status"]["conditions"], type_) or {}
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def images(world: World) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in world.active())


def run_all(world: World) -> None:
    for pod in world.active():
        if not is_ready(pod):
            world.run(pod)
    world.settle()


def end_deleted(world: World) -> None:
    for pod in world.pods():
        if is_deleting(pod):
            world.remove(pod)
    world.settle()


def replicasets(world: World) -> list[Obj]:
    return world.api.list("replicasets", "ada")


def test_recreate_waits_until_every_old_pod_has_ended(world: World) -> None:
    deploy(world, replicas=2)
    run_all(world)
    set_image(world, "new")
    assert world.active() == []
    assert len(world.pods()) == 2  # in their grace period
    assert len(replicasets(world)) == 1
    first, second = world.pods()
    world.remove(first)
    world.settle()
    assert world.active() == []
    world.remove(second)
    world.settle()
    assert images(world) == ["new", "new"]
    assert get(world)["metadata"]["annotations"][REVISION] == "2"


def test_scaling_up_and_down_creates_and_deletes(world: World) -> None:
    deploy(world)
    change(world, replicas=3)
    assert len(world.active()) == 3
    ready = world.run(world.active()[1])
    change(world, replicas=1)
    assert [name_of(pod) for pod in world.active()] == [name_of(ready)]
    change(world, replicas=0)
    end_deleted(world)
    assert world.pods() == []
    (rs,) = replicasets(world)
    assert world.events("ScalingReplicaSet")[-1] == (
        f"Scaled down replica set {name_of(rs)} from 1 to 0"
    )


@pytest.mark.parametrize("code", [0, 1])
def test_a_pod_that_ended_is_replaced_and_kept(world: World, code: int) -> None:
    deploy(world)
    world.finish(world.active()[0], code)
    world.settle()
    assert len(world.active()) == 1
    assert len(world.pods()) == 2


def test_minimum_ready_seconds_delay_availability_without_an_event(world: World) -> None:
    deploy(world, minReadySeconds=30)
    run_all(world)
    assert "availableReplicas" not in get(world)["status"]
    world.advance(29)
    assert "availableReplicas" not in get(world)["status"]
    world.advance(1)
    assert get(world)["status"]["availableReplicas"] == 1


def test_a_stuck_rollout_is_reported_after_its_deadline(world: World) -> None:
    deploy(world, progressDeadlineSeconds=60)
    (rs,) = replicasets(world)
    world.advance(59)
    assert condition(world, "Progressing")[0] == "True"
    world.advance(2)
    sentence = f'ReplicaSet "{name_of(rs)}" has timed out progressing.'
    assert condition(world, "Progressing") == ("False", "ProgressDeadlineExceeded", sentence)
    run_all(world)
    assert condition(world, "Progressing")[:2] == ("True", "NewReplicaSetAvailable")


def test_a_quota_shows_as_replica_failure_and_lifting_it_helps_at_once(world: World) -> None:
    quota = {"metadata": {"name": "ada"}, "spec": {"hard": {"pods": "1"}}}
    world.api.create("resourcequotas", "ada", quota)
    world.settle()
    deploy(world, replicas=2)
    assert len(world.active()) == 1
    status, reason, message = condition(world, "ReplicaFailure")
    assert (status, reason) == ("True", "FailedCreate")
    assert "exceeded quota: ada, requested: pods=1, used: pods=1, limited: pods=1" in message
    assert any(e.startswith("Error creating: pods ") for e in world.events("FailedCreate"))
    world.api.patch("resourcequotas", "ada", "ada", {"spec": {"hard": {"pods": "5"}}})
    world.settle()
    assert len(world.active()) == 2
    assert condition(world, "ReplicaFailure") == ("", "", "")


def test_a_rolling_update_stays_within_surge_and_unavailability(world: World) -> None:
    rolling = {"maxSurge": 1, "maxUnavailable": 1}
    deploy(world, replicas=4, strategy={"type": "RollingUpdate", "rollingUpdate": rolling})
    run_all(world)
    set_image(world, "new")
    for _ in range(20):
        assert len(world.active()) <= 5
        assert sum(is_ready(pod) for pod in world.active()) >= 3
        fresh = [p for p in world.active() if not is_ready(p)]
        if not fresh:
            break
        world.run(fresh[0])
        world.settle()
        end_deleted(world)
    assert images(world) == ["new"] * 4
    assert get(world)["status"]["updatedReplicas"] == 4
    assert condition(world, "Progressing")[1] == "NewReplicaSetAvailable"


def test_a_rolling_update_to_something_that_never_starts_keeps_the_old_pods(world: World) -> None:
    deploy(world, replicas=4, strategy={"type": "RollingUpdate"})
    run_all(world)
    set_image(world, "broken")
    end_deleted(world)
    world.advance(3600)
    assert images(world) == ["broken"] * 2 + ["python:3.11-slim"] * 3
    assert condition(world, "Progressing")[1] == "ProgressDeadlineExceeded"
    assert condition(world, "Available")[0] == "True"


def test_a_paused_deployment_scales_but_rolls_nothing_out(world: World) -> None:
    deploy(world, paused=False)
    change(world, paused=True)
    set_image(world, "new")
    change(world, replicas=2)
    assert images(world) == ["python:3.11-slim"] * 2
    assert condition(world, "Progressing")[1] == "DeploymentPaused"
    change(world, paused=False)
    end_deleted(world)
    assert images(world) == ["new"] * 2


def test_a_replicaset_adopts_pods_that_match_and_releases_those_that_no_longer_do(
    world: World,
) -> None:
    deploy(world)
    (rs,) = replicasets(world)
    labels = rs["spec"]["template"]["metadata"]["labels"]
    stray = {"metadata": {"name": "stray", "labels": labels}, "spec": pod_spec()}
    world.api.create("pods", "ada", stray)
    world.settle()
    assert len(world.active()) == 1  # adopted, so one was too many
    (kept,) = world.active()
    world.api.patch("pods", "ada", name_of(kept), {"metadata": {"labels": {HASH_LABEL: None}}})
    world.settle()
    assert len(world.active()) == 2
    released = world.api.get("pods", "ada", name_of(kept))
    assert "ownerReferences" not in released["metadata"]


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_deleting_the_deployment_takes_everything_along(world: World, propagation: str) -> None:
    deploy(world, replicas=2)
    running = world.run(world.active()[0])
    world.api.delete("deployments", "ada", "ps-0", propagation=propagation)
    world.settle()
    assert [name_of(pod) for pod in world.pods()] == [name_of(running)]
    waits = propagation == "Foreground"
    assert len(replicasets(world)) == (1 if waits else 0)
    assert (world.api.find("deployments", "ada", "ps-0") is not None) is waits
    end_deleted(world)
    assert world.pods() == replicasets(world) == world.api.list("deployments", "ada") == []


def test_orphaning_leaves_replicaset_and_pods_running(world: World) -> None:
    deploy(world, replicas=2)
    world.api.delete("deployments", "ada", "ps-0", propagation="Orphan")
    world.settle()
    (rs,) = replicasets(world)
    assert "ownerReferences" not in rs["metadata"]
    assert len(world.active()) == 2
    deploy(world, replicas=2)  # the same template again adopts what is there
    assert [name_of(each) for each in replicasets(world)] == [name_of(rs)]
    assert len(world.pods()) == 2


@pytest.mark.parametrize("commits", range(14))
def test_a_kill_at_any_write_ends_in_the_same_state(world: World, commits: int) -> None:
    spec = {
        "replicas": 2,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": {"app": "ps"}},
        "template": {"metadata": {"labels": {"app": "ps"}}, "spec": pod_spec()},
    }
    world.api.create("deployments", "ada", {"metadata": {"name": "ps-0"}, "spec": spec})
    world.settle_or_die_after(commits)
    assert len(world.active()) == len(world.pods()) == 2
    assert len(replicasets(world)) == 1
    container = {"name": "main", "image": "new", "command": ["true"]}
    patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    world.api.patch("deployments", "ada", "ps-0", patch)
    world.settle_or_die_after(commits)
    assert images(world) == ["new"] * 2
    assert len(replicasets(world)) == 2
    assert get(world)["metadata"]["annotations"][REVISION] == "2"
