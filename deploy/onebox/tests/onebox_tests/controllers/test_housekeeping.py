"""Quotas stay true, old events go, silent nodes are noticed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from onebox.api.controllers.job import JobController, JobFinalizers
from onebox.api.controllers.nodelife import NodeLifecycle
from onebox.api.controllers.objects import find_condition, name_of
from onebox.api.controllers.podstate import is_ready
from onebox.api.controllers.quota import QuotaController
from onebox.api.controllers.ttl import EventTtl
from onebox.api.timestamps import format_micro_time, format_time
from onebox_tests.controllers.world import Make, Obj, World, pod_spec

MakeWorld = Callable[[Make], World]


def make_quota(world: World, **hard: str) -> None:
    metadata = {"name": "ada"}
    world.api.create("resourcequotas", "ada", {"metadata": metadata, "spec": {"hard": hard}})


def used(world: World) -> dict[str, str]:
    return world.api.get("resourcequotas", "ada", "ada")["status"]["used"]


def make_pod(world: World, name: str) -> Obj:
    return world.api.create("pods", "ada", {"metadata": {"name": name}, "spec": pod_spec()})


@pytest.fixture
def quotas(make_world: MakeWorld) -> World:
    return make_world(lambda api: [QuotaController(api), JobController(api), JobFinalizers(api)])


def test_what_ends_or_goes_is_given_back_shortly_after(quotas: World) -> None:
    make_quota(quotas, pods="5")
    quotas.settle()
    pods = [make_pod(quotas, f"p-{number}") for number in range(3)]
    assert used(quotas) == {"pods": "3"}
    quotas.finish(pods[0])
    quotas.api.delete("pods", "ada", "p-1", grace_s=0)
    quotas.advance(0.1)
    assert used(quotas) == {"pods": "1"}


def test_a_burst_of_changes_is_counted_once(quotas: World) -> None:
    make_quota(quotas, pods="200")
    quotas.settle()
    for number in range(100):
        make_pod(quotas, f"p-{number}")
    quotas.settle()
    for number in range(100):
        quotas.api.delete("pods", "ada", f"p-{number}", grace_s=0)
    before = quotas.store.resource_version
    quotas.advance(0.1)
    assert used(quotas) == {"pods": "0"}
    assert quotas.store.resource_version == before + 1


def test_a_terminating_pod_of_a_silent_node_stops_counting_without_an_event(
    quotas: World,
) -> None:
    make_quota(quotas, pods="5")
    quotas.settle()
    quotas.run(make_pod(quotas, "train"))
    quotas.api.delete("pods", "ada", "train")
    quotas.advance(1)
    assert used(quotas) == {"pods": "1"}
    quotas.advance(120)
    assert used(quotas) == {"pods": "0"}


def test_a_job_over_quota_is_not_failed_and_goes_on_when_there_is_room(quotas: World) -> None:
    make_quota(quotas, pods="1")
    quotas.settle()
    spec = {
        "completions": 2,
        "parallelism": 2,
        "template": {"spec": pod_spec(restartPolicy="Never")},
    }
    quotas.api.create("jobs", "ada", {"metadata": {"name": "mnist"}, "spec": spec})
    quotas.settle()
    assert len(quotas.active()) == 1
    (message,) = quotas.events("FailedCreate")
    assert message.startswith('Error creating: pods "mnist-')
    assert "exceeded quota: ada" in message
    assert "conditions" not in quotas.api.get("jobs", "ada", "mnist")["status"]
    quotas.finish(quotas.active()[0])
    quotas.advance(0.1)  # far less than the next retry would take
    assert len(quotas.active()) == 1
    quotas.finish(quotas.active()[0])
    quotas.advance(1)
    conditions = quotas.api.get("jobs", "ada", "mnist")["status"]["conditions"]
    assert conditions[-1]["type"] == "Complete"


def test_events_go_an_hour_after_they_were_last_seen(make_world: MakeWorld) -> None:
    world = make_world(lambda api: [EventTtl(api)])
    pod = make_pod(world, "train")
    world.api.event(pod, "Normal", "Old", "old", "test")
    world.settle()
    world.advance(1800)
    world.api.event(pod, "Normal", "New", "new", "test")
    world.advance(1700)
    assert sorted(world.events()) == ["new", "old"]
    world.advance(200)
    assert world.events() == ["new"]
    world.api.event(pod, "Normal", "New", "new", "test")  # seen again: its hour begins anew
    world.advance(1700)
    assert world.events() == ["new"]
    world.advance(3700)
    assert world.events() == []
    assert world.runtime.next_due_s() is None


@pytest.fixture
def nodes(make_world: MakeWorld) -> World:
    world = make_world(lambda api: [NodeLifecycle(api)])
    world.api.create("namespaces", None, {"metadata": {"name": "kube-node-lease"}})
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    world.api.create(
        "nodes", None, {"metadata": {"name": "box"}, "status": {"conditions": conditions}}
    )
    world.api.create(
        "leases", "kube-node-lease", {"metadata": {"name": "box"}, "spec": lease(world)}
    )
    world.settle()
    return world


def lease(world: World) -> Obj:
    return {
        "holderIdentity": "box",
        "leaseDurationSeconds": 40,
        "renewTime": format_micro_time(world.clock()),
    }


def beat(world: World) -> None:
    world.api.patch("leases", "kube-node-lease", "box", {"spec": lease(world)})
    world.settle()


def ready(world: World) -> tuple[str, str, str]:
    status = world.api.get("nodes", None, "box")["status"]
    found = find_condition(status["conditions"], "Ready") or {}
    return found["status"], found.get("reason", ""), found.get("message", "")


def taints(world: World) -> list[tuple[str, str]]:
    spec = world.api.get("nodes", None, "box").get("spec", {})
    return [(taint["key"], taint["effect"]) for taint in spec.get("taints", [])]


def test_a_node_that_beats_stays_ready(nodes: World) -> None:
    for _ in range(12):
        nodes.advance(10)
        beat(nodes)
    assert ready(nodes)[0] == "True"
    assert taints(nodes) == []


def test_a_silent_node_turns_unknown_with_its_taints_and_pods(nodes: World) -> None:
    pod = nodes.run(make_pod(nodes, "train"))
    nodes.advance(39)
    assert ready(nodes)[0] == "True"
    nodes.advance(1)
    sentence = "Kubelet stopped posting node status."
    assert ready(nodes) == ("Unknown", "NodeStatusUnknown", sentence)
    assert taints(nodes) == [
        ("node.kubernetes.io/unreachable", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
    ]
    assert not is_ready(nodes.api.get("pods", "ada", name_of(pod)))
    assert nodes.events("NodeNotReady") == ["Node is not ready"]
    assert nodes.runtime.next_due_s() is None


def test_a_node_that_comes_back_loses_the_taints(nodes: World) -> None:
    nodes.advance(60)
    beat(nodes)
    assert taints(nodes)
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": format_time(nodes.clock()),
    }
    patch = {"status": {"conditions": [condition]}}
    nodes.api.patch("nodes", None, "box", patch, kind="strategic", subresource="status")
    nodes.settle()
    assert taints(nodes) == []
    nodes.advance(30)
    assert ready(nodes)[0] == "True"


def test_a_node_that_says_it_is_not_ready_is_tainted_so(nodes: World) -> None:
    patch = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    nodes.api.patch("nodes", None, "box", patch, subresource="status")
    nodes.settle()
    assert taints(nodes)[0] == ("node.kubernetes.io/not-ready", "NoSchedule")


def test_silence_while_the_api_was_down_is_not_held_against_the_node(nodes: World) -> None:
    nodes.close()
    nodes.clock.now += timedelta(hours=1)
    nodes._open()
    nodes.settle()
    assert ready(nodes)[0] == "True"
    nodes.advance(41)
    assert ready(nodes)[0] == "Unknown"
