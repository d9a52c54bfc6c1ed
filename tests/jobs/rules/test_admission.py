"""What fits now, later and never, and the words for it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.admission import (
    Amount,
    Fit,
    NodeCapacity,
    ReplicaRequest,
    fit,
    node_capacity,
    pack,
    reserve,
    total_of,
)
from jobs.rules.queue import Decision, Queued, QuotaHeadroom, backoff_s, decide

GI = 2**30
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def request(
    count: int = 1, *, cpu: int = 1000, gpu: int = 0, memory: int = GI, role: str = "worker"
):
    return ReplicaRequest(role, count, Amount(cpu, memory, gpu, 1))


def node(name: str = "a", *, cpu: int = 8000, gpu: int = 0, used: Amount | None = None, **more):
    allocatable = Amount(cpu, 64 * GI, gpu, 110)
    return NodeCapacity(name, allocatable, allocatable - (used or Amount()), **more)


HARD = Amount(8000, 16 * GI, 2, 20)
WIDE = Amount(99000, 99 * GI, 9, 99)


NEVER, LATER, READY = "This can never start: ", "Waiting for ", Fit("now")
PORT = ReplicaRequest("notebook", 1, Amount(1000, GI, 0, 1, 1))
ONE_PORT = replace(HARD, nodeports=1)
SMALL_GPUS = [node(gpu=1), node("b", gpu=1)]
PAIRS = [node(gpu=2), node("b", gpu=2)]
KEPT = node(gpu=4, only_gpu=True)
HALF_FREE = node(used=Amount(cpu=5000))
ALL_LACK = (
    "quota: needs 2 GPUs, 0 of 2 free; needs 2 CPU, 0.5 of 8 free; needs 2Gi memory, 1Gi of 16Gi "
    "free; needs 2 pods, 0 of 20 free"
)
PIECES = (
    "enough is free in total, but only 1 of 2 replicas fit on single nodes (each worker needs "
    "5 CPU and 1Gi memory on one node)"
)


def later(code: str, text: str) -> Fit:
    return Fit("later", code, LATER + text)


def never(code: str, text: str, field: str) -> Fit:
    return Fit("never", code, NEVER + text, field)


# A table: what is asked for, the quota, what is left of it, the nodes, and the answer.
# fmt: off
FITS = {
    "it fits": ([request(3)], HARD, HARD, [node()], READY),
    "others hold the quota": ([request(3)], HARD, HARD - Amount(7000, 0, 0, 7), [node()],
        later("quota", "quota: needs 3 CPU, 1 of 8 free")),
    "every lacking resource is named, GPUs first": ([request(2, gpu=1)], HARD,
        Amount(500, GI, -1, 0), [node(gpu=4)], later("quota", ALL_LACK)),
    "over quota of what is not wanted": ([request()], HARD, HARD - Amount(gpu=5), [node()], READY),
    "larger than every node": ([request(gpu=2)], HARD, HARD, SMALL_GPUS, never("over_node",
        "it needs 2 GPUs, the largest node has 1. Request less.", "replicas.worker.gpu")),
    "each larger than every node": ([request(2, gpu=2)], WIDE, WIDE, SMALL_GPUS, never("over_node",
        "each worker needs 2 GPUs, the largest node has 1. Request less per replica.",
        "replicas.worker.gpu")),
    "on no node together": ([request(cpu=6000, gpu=1)], HARD, HARD,
        [node(), node("b", cpu=4000, gpu=4)], never("over_node",
        "it needs 1 GPU and 6 CPU and 1Gi memory, which no single node has. Request less.",
        "replicas.worker")),
    "more than all nodes": ([request(2, gpu=1)], HARD, HARD, [node(gpu=1)], never("over_cluster",
        "needs 2 GPUs, all nodes in total have 1.", "replicas.worker.gpu")),
    "nodes are down": ([request()], HARD, HARD, [node(is_open=False)],
        later("nodes_closed",
        "a node: all are cordoned, not ready, reserved, or lack the label of NODE_SELECTOR")),
    "pods of others are on the nodes": ([request(3)], HARD, HARD, [node(used=Amount(7000))],
        later("nodes", "free nodes: needs 3 CPU, 1 of 8 free")),
    "one of two nodes is cordoned": ([request(3)], HARD, HARD,
        [node(used=Amount(7000)), node("b", is_open=False)],
        later("nodes", "free nodes: needs 3 CPU, 1 of 16 free; 1 of 2 nodes take no pods")),
    "room in pieces, for one": ([request(cpu=4000)], HARD, HARD, [HALF_FREE, HALF_FREE],
        later("nodes", "free nodes: needs 4 CPU and 1Gi memory on one node; no node has that much "
        "free")),
    "room in pieces, for two": ([request(2, cpu=5000)], WIDE, WIDE, [HALF_FREE, node("b")],
        later("nodes", "free nodes: " + PIECES)),
    "a NodePort is the quota's and no node's": ([PORT], ONE_PORT, ONE_PORT, [node()], READY),
    "no NodePort is left": ([PORT], ONE_PORT, HARD, [node()],
        later("quota", "quota: needs 1 NodePort, 0 of 1 free")),
    "no NodePort at all": ([PORT], HARD, HARD, [node()], never("over_quota",
        "needs 1 NodePort, the whole quota is 0. Request less, or ask your lead for more quota.",
        "replicas.notebook.count")),
    "GPUs in pairs": ([request(2, gpu=2)], WIDE, WIDE, PAIRS, READY),
    "a pair and two": ([request(gpu=2), request(2, gpu=1, role="ps")], WIDE, WIDE, PAIRS, READY),
    "GPUs are packed whole": ([request(3, gpu=1), request(gpu=2, role="ps")], WIDE, WIDE, PAIRS,
        never("over_cluster", "needs 5 GPUs, all nodes in total have 4.", "replicas.worker.gpu")),
    "a node for GPUs takes a GPU": ([request(gpu=1)], HARD, HARD, [KEPT], READY),
    "a node for GPUs takes nothing else": ([request()], HARD, HARD, [KEPT], never("over_node",
        "it needs 1 CPU and 1Gi memory, which no single node has. Request less.",
        "replicas.worker")),
    "the quota is not counted": ([request()], None, None, [node()],
        later("quota_unknown", "the cluster to count its quota")),
    "no nodes are known": ([request()], HARD, HARD, [],
        later("no_nodes", "the cluster: its nodes are not known yet")),
}
# fmt: on


@pytest.mark.parametrize("case", FITS)
def test_what_fits_now_later_and_never(case: str) -> None:
    requests, hard, left, nodes, answer = FITS[case]
    assert fit(requests, hard, left, nodes) == answer


def test_small_replicas_that_only_a_node_for_gpus_had_room_for_can_never_start() -> None:
    assert fit([request(9, cpu=500)], HARD, HARD, [KEPT, node("b", cpu=500)]).kind == "never"
    assert fit([request(9)], HARD, HARD, []).kind == "never"


@pytest.mark.parametrize(
    ("requests", "field", "words"),
    [
        ([request(9)], "replicas.worker.cpu", "needs 9 CPU, the whole quota is 8"),
        ([request(3, gpu=1)], "replicas.worker.gpu", "needs 3 GPUs, the whole quota is 2"),
        ([request(1, memory=17 * GI)], "replicas.worker.memory", "needs 17Gi memory"),
        ([request(21, cpu=10, memory=2**25)], "replicas.worker.count", "needs 21 pods"),
        ([request(1), request(8, role="ps")], "replicas.ps.cpu", "needs 9 CPU"),
    ],
)
def test_more_than_the_whole_quota_can_never_start(requests, field, words) -> None:
    answer = fit(requests, HARD, HARD, [node(cpu=99000, gpu=9)])
    assert (answer.kind, answer.code, answer.field) == ("never", "over_quota", field)
    assert words in answer.text


def test_more_than_a_whole_quota_by_weight_waits_for_it_to_grow() -> None:
    text = "Waiting for quota: needs 3 GPUs, its part by weight is 2 now"
    part = Fit("later", "quota_part", text, "replicas.worker.gpu")
    wide = [node(gpu=8)]
    assert fit([request(gpu=3)], HARD, HARD, wide, by_weight=True) == part
    assert fit([request(gpu=2)], HARD, HARD, wide, by_weight=True) == READY
    assert fit([request(gpu=1)], HARD, Amount(), wide, by_weight=True).code == "quota"
    # Nodes and the number of pods are not by weight.
    assert fit([request(gpu=9)], HARD, HARD, wide, by_weight=True).code == "over_node"
    assert fit([request(21, gpu=1)], HARD, HARD, wide, by_weight=True).code == "over_quota"


def test_what_needs_no_gpu_leaves_gpu_nodes_free() -> None:
    packed = pack([request()], [node("a", gpu=4), node("b")])
    assert packed is not None
    assert {n.name: n.free.cpu for n in packed} == {"a": 8000, "b": 7000}


@pytest.mark.parametrize(
    ("taints", "takes_cpu", "takes_gpu"),
    [
        ([], True, True),
        ([("nvidia.com/gpu", "NoSchedule")], False, True),
        ([("nvidia.com/gpu", "PreferNoSchedule")], True, True),
        ([("team", "PreferNoSchedule")], True, True),
        ([("team", "NoSchedule")], False, False),
        ([("nvidia.com/gpu", "NoSchedule"), ("team", "NoExecute")], False, False),
    ],
)
def test_taints_decide_what_a_node_takes(taints, takes_cpu, takes_gpu) -> None:
    room = Amount(4000, 8 * GI, 2, 10)
    found = node_capacity("a", room, room, takes_pods=True, taints=taints)
    assert bool(found.places(Amount(1000, GI, 0, 1))) == takes_cpu
    assert bool(found.places(Amount(1000, GI, 1, 1))) == takes_gpu
    closed = node_capacity("a", room, room, takes_pods=False, taints=taints)
    assert closed.places(Amount(1000, GI, 1, 1)) == 0


amounts = st.builds(
    Amount, st.integers(0, 9000), st.integers(0, 9 * GI), st.integers(0, 4), st.just(1)
)
requests_lists = st.lists(
    st.builds(ReplicaRequest, st.sampled_from(["worker", "ps"]), st.integers(1, 5), amounts),
    min_size=1,
)
nodes_lists = st.lists(
    st.builds(
        lambda i, a, u: NodeCapacity(f"n{i}", a, a - u),
        st.integers(0, 99),
        st.builds(Amount, st.integers(0, 20000), st.just(20 * GI), st.integers(0, 8), st.just(50)),
        amounts,
    ),
    max_size=5,
)


@given(requests_lists, nodes_lists)
@settings(max_examples=100, deadline=None)
def test_packing_never_gives_more_than_there_is_and_loses_nothing(requests, nodes) -> None:
    packed = pack(requests, nodes)
    if packed is None:
        return
    before, after = Amount(), Amount()
    for n in nodes:
        before += n.free
    for n in packed:
        after += n.free
        original = [o for o in nodes if o.name == n.name]
        assert any(n.free.cpu <= o.free.cpu for o in original)
        assert n.free.gpu >= min(0, *(o.free.gpu for o in original))
    assert before - after == total_of(requests)


def packed_one_by_one(
    requests: list[ReplicaRequest], nodes: list[NodeCapacity]
) -> list[NodeCapacity] | None:
    """First fit as one would write it down: each replica looks at each node."""
    filled = sorted(nodes, key=lambda n: (n.free.gpu, n.free.cpu, n.name))
    replicas = [request.each for request in requests for _ in range(request.count)]
    for each in sorted(replicas, key=lambda a: (a.gpu, a.cpu, a.memory), reverse=True):
        for place, one in enumerate(filled):
            if one.is_open and one.allows(each) and not one.free.lacking(each):
                filled[place] = replace(one, free=one.free - each)
                break
        else:
            return None
    return filled


@given(requests_lists, nodes_lists)
@settings(max_examples=200, deadline=None)
def test_packing_many_at_once_is_packing_them_one_by_one(requests, nodes) -> None:
    assert pack(requests, nodes) == packed_one_by_one(requests, nodes)


@given(requests_lists, nodes_lists)
@settings(max_examples=50, deadline=None)
def test_reserving_what_does_not_fit_does_no_harm(requests, nodes) -> None:
    assert len(reserve(requests, nodes)) == len(nodes)


# --- the queue ---
def queued(name: str, seconds: int, *, tenant: str = "t", requests=None, not_before=None) -> Queued:
    return Queued(
        name, tenant, name, NOW + timedelta(seconds=seconds), requests or (request(3),), not_before
    )


def kinds(decisions: list[Decision]) -> dict[str, str]:
    """By workload, in the order of the decisions."""
    return {one.queued.workload_id: one.fit.kind for one in decisions}


HEADROOM = {"t": QuotaHeadroom(HARD, HARD), "u": QuotaHeadroom(HARD, HARD)}


def test_first_come_first_served_and_what_starts_is_held_against_the_rest() -> None:
    queue = [queued("c", 3), queued("a", 1), queued("b", 2)]
    decisions = decide(queue, HEADROOM, [node(cpu=99000)], NOW)
    assert list(kinds(decisions).items()) == [("a", "now"), ("b", "now"), ("c", "later")]
    assert decisions[2].fit.text == "Waiting for quota: needs 3 CPU, 2 of 8 free"


def test_decisions_end_when_as_many_are_admitted_as_is_asked_for() -> None:
    queue = [queued(name, second) for second, name in enumerate(("a", "b", "c", "d"))]
    tenants = {"t": QuotaHeadroom(HARD, HARD)}
    found = decide(queue, tenants, [node()], NOW, most=2)
    assert kinds(found) == {"a": "now", "b": "now"}
    assert len(decide(queue, tenants, [node()], NOW)) == 4


def test_a_smaller_one_behind_does_not_overtake_in_the_same_tenant() -> None:
    queue = [queued("big", 1, requests=(request(8),)), queued("small", 2, requests=(request(1),))]
    headroom = {"t": QuotaHeadroom(HARD, HARD - Amount(cpu=1000))}
    decisions = decide(queue, headroom, [node(cpu=99000)], NOW)
    assert kinds(decisions) == {"big": "later", "small": "later"}
    assert decisions[1].fit.text == "Queued behind “big”"


def test_the_head_of_one_tenant_does_not_hold_up_another() -> None:
    queue = [queued("big", 1, requests=(request(8),)), queued("other", 2, tenant="u")]
    headroom = {**HEADROOM, "t": QuotaHeadroom(HARD, Amount())}
    assert kinds(decide(queue, headroom, [node(cpu=99000)], NOW)) == {
        "big": "later",
        "other": "now",
    }


def test_what_can_never_start_holds_up_nobody() -> None:
    queue = [queued("never", 1, requests=(request(9),)), queued("b", 2)]
    assert kinds(decide(queue, HEADROOM, [node()], NOW)) == {"never": "never", "b": "now"}


def test_what_sits_out_its_backoff_holds_up_nobody_and_says_when() -> None:
    queue = [queued("a", 1, not_before=NOW + timedelta(seconds=119)), queued("b", 2)]
    decisions = decide(queue, HEADROOM, [node()], NOW)
    assert kinds(decisions) == {"a": "later", "b": "now"}
    assert "The next attempt is in about 2 minutes" in decisions[0].fit.text
    assert kinds(decide(queue, HEADROOM, [node()], NOW + timedelta(seconds=119)))["a"] == "now"


def test_a_closed_tenant_starts_nothing_and_says_why() -> None:
    headroom = {"t": QuotaHeadroom(HARD, HARD, "The namespace is suspended.", "tenant_suspended")}
    decisions = decide([queued("a", 1)], headroom, [node()], NOW)
    assert [one.fit for one in decisions] == [
        Fit("later", "tenant_suspended", "The namespace is suspended.")
    ]


@given(
    st.lists(st.tuples(st.sampled_from(["t", "u"]), st.integers(1, 4), st.integers(0, 2))),
    st.integers(0, 12000),
)
@settings(max_examples=100, deadline=None)
def test_admitted_work_never_exceeds_quota_nor_nodes(jobs, cpu) -> None:
    queue = [
        queued(str(i), i, tenant=t, requests=(request(count, gpu=gpu),))
        for i, (t, count, gpu) in enumerate(jobs)
    ]
    nodes = [node(cpu=cpu, gpu=3)]
    decisions = decide(queue, HEADROOM, nodes, NOW)
    admitted = [one.queued for one in decisions if one.fit.kind == "now"]
    for tenant in HEADROOM:
        assert not HARD.lacking(
            total_of(r for one in admitted if one.tenant_id == tenant for r in one.requests)
        )
    assert not nodes[0].free.lacking(total_of(r for one in admitted for r in one.requests))


def test_backoff_doubles_up_to_a_quarter_of_an_hour() -> None:
    assert [backoff_s(n) for n in (1, 2, 3, 6, 99)] == [30, 60, 120, 900, 900]
