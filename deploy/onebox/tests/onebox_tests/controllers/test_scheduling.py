"""Which node takes a pod, and the words when none does: the decisions alone, as a table."""

from __future__ import annotations

from typing import Any

import pytest

from onebox.api.controllers.scheduling import (
    NodeState,
    choose,
    explain,
    least_allocated,
    pod_requests,
    read_node,
    wish_for,
)

Obj = dict[str, Any]


def node(name: str = "box", **changes: Any) -> Obj:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "2"}
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **changes.pop("labels", {})},
        },
        "spec": changes.pop("spec", {}),
        "status": {
            "allocatable": {**allocatable, **changes.pop("allocatable", {})},
            "conditions": [{"type": "Ready", "status": changes.pop("ready", "True")}],
        },
    }


def pod(
    name: str = "train", labels: Obj | None = None, requests: Obj | None = None, **spec: Any
) -> Obj:
    container = {"name": "main", "resources": {"requests": requests or {}}}
    return {
        "metadata": {"name": name, "namespace": "ada", "labels": labels or {}},
        "spec": {"containers": [container], **spec},
    }


def states(*nodes: Obj, running: tuple[Obj, ...] = ()) -> list[NodeState]:
    made = [read_node(each) for each in nodes]
    for each in running:
        made[0].place(each, pod_requests(each))
    return made


def refusal(wanted: Obj, nodes: list[NodeState]) -> str:
    wish = wish_for(wanted)
    found, rejections = choose(wish, nodes)
    assert found is None
    return explain(wish, nodes, rejections)


NO_VICTIMS = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
NOT_HELPFUL = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


@pytest.mark.parametrize(
    ("wanted", "where", "running", "words"),
    [
        (
            pod(requests={"nvidia.com/gpu": "1"}),
            node(),
            (pod("other", requests={"nvidia.com/gpu": "2"}),),
            f"0/1 nodes are available: 1 Insufficient nvidia.com/gpu. {NO_VICTIMS}",
        ),
        (
            pod(requests={"cpu": "5", "memory": "9Gi"}),
            node(),
            (),
            f"0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. {NOT_HELPFUL}",
        ),
        (
            pod(),
            node(allocatable={"pods": "1"}),
            (pod("other"),),
            f"0/1 nodes are available: 1 Too many pods. {NO_VICTIMS}",
        ),
        (
            pod(),
            node(spec={"unschedulable": True}),
            (),
            f"0/1 nodes are available: 1 node(s) were unschedulable. {NOT_HELPFUL}",
        ),
        (
            pod(),
            node(spec={"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}),
            (),
            f"0/1 nodes are available: 1 node(s) had untolerated taint(s). {NOT_HELPFUL}",
        ),
        (
            pod(),
            node(ready="False"),
            (),
            f"0/1 nodes are available: 1 node(s) had untolerated taint(s). {NOT_HELPFUL}",
        ),
        (
            pod(nodeSelector={"disk": "ssd"}),
            node(),
            (),
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. "
            + NOT_HELPFUL,
        ),
        (
            pod(requests={"cpu": "3"}, preemptionPolicy="Never"),
            node(),
            (pod("other", requests={"cpu": "3"}),),
            (
                "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
                "preemption: not eligible due to preemptionPolicy=Never."
            ),
        ),
    ],
)
def test_a_refusal_has_the_words_of_kube_scheduler(
    wanted: Obj, where: Obj, running: tuple[Obj, ...], words: str
) -> None:
    assert refusal(wanted, states(where, running=running)) == words


def test_reasons_are_counted_over_the_nodes() -> None:
    nodes = states(node("a", ready="Unknown"), node("b", allocatable={"cpu": "1"}), node("c"))
    for state in nodes[1:]:
        state.place(pod(requests={"cpu": "500m"}), pod_requests(pod(requests={"cpu": "4"})))
    words = refusal(pod(requests={"cpu": "800m"}), nodes)
    assert words == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
        "no new claims to deallocate, preemption: 0/3 nodes are available: "
        "1 Preemption is not helpful for scheduling, "
        "2 No preemption victims found for incoming pod."
    )


def test_no_node_at_all_is_said_so() -> None:
    assert refusal(pod(), []) == "no nodes available to schedule pods"


def test_onebox_says_that_it_does_not_preempt() -> None:
    nodes = states(node(), running=(pod("low", requests={"cpu": "4"}),))
    words = refusal(pod(requests={"cpu": "1"}, priority=10), nodes)
    assert "1 Running pods of lower priority are not preempted on onebox." in words


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "disk", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration: Obj, fits: bool) -> None:
    nodes = states(node(spec={"taints": [TAINT]}))
    found, _ = choose(wish_for(pod(tolerations=[toleration])), nodes)
    assert (found is not None) is fits


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ({"key": "zone", "operator": "In", "values": ["a", "b"]}, True),
        ({"key": "zone", "operator": "NotIn", "values": ["a"]}, False),
        ({"key": "zone", "operator": "Exists"}, True),
        ({"key": "zone", "operator": "DoesNotExist"}, False),
        ({"key": "gen", "operator": "Gt", "values": ["3"]}, True),
        ({"key": "gen", "operator": "Lt", "values": ["4"]}, False),
        ({"key": "absent", "operator": "NotIn", "values": ["x"]}, True),
    ],
)
def test_required_node_affinity(expression: Obj, fits: bool) -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    nodes = states(node(labels={"zone": "a", "gen": "4"}))
    found, _ = choose(wish_for(pod(affinity=affinity)), nodes)
    assert (found is not None) is fits


def around(kind: str, **term: Any) -> Obj:
    term = {"topologyKey": "kubernetes.io/hostname", **term}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


WEB = {"labelSelector": {"matchLabels": {"app": "web"}}}


def test_pods_keep_away_from_each_other_in_both_directions() -> None:
    apart = around("podAntiAffinity", **WEB)
    web = pod("web", labels={"app": "web"})
    words = refusal(pod(affinity=apart), states(node(), running=(web,)))
    assert "1 node(s) didn't match pod anti-affinity rules." in words
    shy = pod("shy", affinity=apart)
    words = refusal(pod(labels={"app": "web"}), states(node(), running=(shy,)))
    assert "1 node(s) didn't satisfy existing pods anti-affinity rules." in words


def test_pods_want_company_but_the_first_of_a_group_may_go_alone() -> None:
    together = around("podAffinity", **WEB)
    words = refusal(pod(affinity=together), states(node()))
    assert "1 node(s) didn't match pod affinity rules." in words
    first = pod(labels={"app": "web"}, affinity=together)
    assert choose(wish_for(first), states(node()))[0]
    running = (pod("web", labels={"app": "web"}),)
    assert choose(wish_for(pod(affinity=together)), states(node(), running=running))[0]


def test_init_containers_and_sidecars_count_as_upstream_counts_them() -> None:
    spec = pod(requests={"cpu": "1"})
    spec["spec"]["initContainers"] = [
        {"name": "gate", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}},
        {"name": "fetch", "resources": {"requests": {"cpu": "900m", "memory": "1Gi"}}},
    ]
    # fetch runs beside the gate (1.1), later the container does (1.2): the greater counts.
    assert pod_requests(spec) == {"cpu": 1_200_000_000, "memory": 2**30 * 10**9}
    spec["spec"]["initContainers"][1]["resources"]["requests"]["cpu"] = "2"
    assert pod_requests(spec)["cpu"] == 2_200_000_000


def test_the_emptier_node_is_taken_and_names_decide_a_tie() -> None:
    nodes = states(node("a"), node("b"), running=(pod(requests={"cpu": "2"}),))
    assert choose(wish_for(pod()), nodes)[0] is nodes[1]
    nodes = states(node("b"), node("a"))
    assert choose(wish_for(pod()), nodes)[0] is nodes[1]
    assert least_allocated(wish_for(pod(requests={"cpu": "4", "memory": "8Gi"})), nodes[0]) == 0


def test_a_bound_volume_pins_the_pod_to_its_node() -> None:
    term = {
        "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]
    }
    volume = {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}
    nodes = states(node("a"), node("b"))
    assert choose(wish_for(pod(), [volume]), nodes)[0] is nodes[1]
    wish = wish_for(pod(), [volume])
    words = explain(wish, nodes[:1], choose(wish, nodes[:1])[1])
    assert "1 node(s) didn't match PersistentVolume's node affinity." in words
