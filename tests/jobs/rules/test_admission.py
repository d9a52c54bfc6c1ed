"""What fits now, later and never, and the words for it."""

from dataclasses import replace
from functools import partial

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.admission import Fit, fit, pack, reserve
from jobs.rules.amounts import Amount, NodeCapacity, ReplicaRequest, total_of
from jobs.rules.nodes import capacity_of
from portal.pools import Pool

GI = 2**30


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


def never(code: str, text: str, field: str, step: str = "") -> Fit:
    return Fit("never", code, NEVER + text, field, step)


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
        "it needs 2 GPUs, the largest node has 1.", "replicas.worker.gpu", "Request less.")),
    "each larger than every node": ([request(2, gpu=2)], WIDE, WIDE, SMALL_GPUS, never("over_node",
        "each worker needs 2 GPUs, the largest node has 1.",
        "replicas.worker.gpu", "Request less per replica.")),
    "on no node together": ([request(cpu=6000, gpu=1)], HARD, HARD,
        [node(), node("b", cpu=4000, gpu=4)], never("over_node",
        "it needs 1 GPU and 6 CPU and 1Gi memory, which no single node has.",
        "replicas.worker", "Request less.")),
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
        later("quota", "quota: needs 1 notebook or TensorBoard, 0 of 1 free")),
    "no NodePort at all": ([PORT], HARD, HARD, [node()], never("over_quota",
        "needs 1 notebook or TensorBoard, the whole quota is 0.",
        "replicas.notebook.count", "Request less, or ask your lead for more quota.")),
    "GPUs in pairs": ([request(2, gpu=2)], WIDE, WIDE, PAIRS, READY),
    "a pair and two": ([request(gpu=2), request(2, gpu=1, role="ps")], WIDE, WIDE, PAIRS, READY),
    "GPUs are packed whole": ([request(3, gpu=1), request(gpu=2, role="ps")], WIDE, WIDE, PAIRS,
        never("over_cluster", "needs 5 GPUs, all nodes in total have 4.", "replicas.worker.gpu")),
    "a node for GPUs takes a GPU": ([request(gpu=1)], HARD, HARD, [KEPT], READY),
    "a node for GPUs takes nothing else": ([request()], HARD, HARD, [KEPT], never("over_node",
        "it needs 1 CPU and 1Gi memory, which no single node has.",
        "replicas.worker", "Request less.")),
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
    ("taints", "takes_cpu", "takes_gpu", "pool_takes_cpu", "pool_takes_gpu"),
    [
        ([], True, True, True, True),
        ([("nvidia.com/gpu", "yes", "NoSchedule")], False, True, False, True),
        ([("nvidia.com/gpu", "yes", "NoExecute")], False, False, False, False),
        ([("nvidia.com/gpu", "yes", "PreferNoSchedule")], True, True, True, True),
        ([("team", "vision", "PreferNoSchedule")], True, True, True, True),
        ([("team", "vision", "NoSchedule")], False, False, True, True),
        ([("team", "audio", "NoSchedule")], False, False, False, False),
        ([("team", "vision", "NoExecute")], False, False, False, False),
        ([("slow", "", "NoExecute")], False, False, True, True),
        (
            [("nvidia.com/gpu", "", "NoSchedule"), ("team", "vision", "NoSchedule")],
            *(False, False, False, True),
        ),
    ],
)
def test_taints_decide_what_a_node_takes(
    taints, takes_cpu, takes_gpu, pool_takes_cpu, pool_takes_gpu
) -> None:
    room = Amount(4000, 8 * GI, 2, 10)
    own = [
        {"key": "team", "value": "vision", "effect": "NoSchedule"},
        {"key": "slow", "operator": "Exists"},
    ]
    bare = NodeCapacity("a", room, room)
    pool = msgspec.convert(
        {"name": "vision", "node_selector": {"for": "vision"}, "tolerations": own}, Pool
    )
    for labels, takes in (
        ({}, (takes_cpu, takes_gpu)),
        ({"for": "vision"}, (pool_takes_cpu, pool_takes_gpu)),
    ):
        node_of = partial(capacity_of, bare, labels=labels, known=[pool], taints=taints)
        found = node_of(takes_pods=True)
        assert found.pool == ("vision" if labels else "default")
        asked = (Amount(1000, GI, 0, 1), Amount(1000, GI, 1, 1))
        assert tuple(bool(found.places(each)) for each in asked) == takes
        assert not any(node_of(takes_pods=False).places(each) for each in asked)


def in_pool(name: str, pool: str, **more) -> NodeCapacity:
    return node(name, pool=pool, **more)


TWO_POOLS = [in_pool("a", "a100", gpu=4), in_pool("b", "default"), in_pool("c", "t4", gpu=8)]
GPU_ALL = ("a100", "t4", "default")


@pytest.mark.parametrize(
    ("asked", "nodes", "pools", "kind", "said"),
    [
        ([request(gpu=4)], TWO_POOLS, ("a100",), "now", ""),
        (
            [request(gpu=5)],
            TWO_POOLS,
            ("a100",),
            "never",
            "the largest node of the pool a100 has 4",
        ),
        ([request(gpu=5)], TWO_POOLS, GPU_ALL, "now", ""),  # the first that has room
        # Never split over pools, also where all nodes together would do.
        (
            [request(3, gpu=4)],
            TWO_POOLS,
            GPU_ALL,
            "never",
            "any of its pools: needs 12 GPUs, all nodes of the pool a100 in total have 4",
        ),
        ([request(gpu=9)], TWO_POOLS, GPU_ALL, "never", "the largest node of the pool a100 has 4"),
        # Those without GPUs run on the other nodes, where there are such ones.
        ([request(gpu=4), request(role="ps", cpu=8000)], TWO_POOLS, ("a100",), "now", ""),
        (
            [request(gpu=4), request(role="ps", cpu=8000)],
            TWO_POOLS[:1],
            ("a100",),
            *("never", "needs 9 CPU, all nodes in total have 8"),
        ),
        (
            [request(gpu=4), replace(request(role="ps", cpu=9000), pool="t4")],
            TWO_POOLS,
            ("a100",),
            *("never", "each ps needs 9 CPU, the largest node of the pools a100 and t4 has 8"),
        ),
        ([request(gpu=4)], TWO_POOLS, ("h100",), "later", "there is none of the pool h100 now"),
        (
            [request(gpu=4)],
            [in_pool("a", "a100", gpu=4, used=Amount(gpu=3)), *TWO_POOLS[1:]],
            ("a100",),
            *("later", "needs 4 GPUs, 1 of 4 free"),
        ),
        (
            [request(gpu=4)],
            [
                in_pool("a", "a100", gpu=4, used=Amount(gpu=3)),
                in_pool("c", "t4", gpu=4, used=Amount(gpu=1)),
            ],
            ("a100", "t4"),
            *("later", "1 of 4 free; the other pools that it may use have no room either"),
        ),
    ],
)
def test_each_pool_is_looked_at_alone(asked, nodes, pools, kind, said) -> None:
    wide = Amount(99000, 99 * GI, 99, 99)
    found = fit(asked, wide, wide, nodes, pools=pools)
    assert found.kind == kind, found
    assert said in found.text


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
    assert len(reserve(requests, nodes)[0]) == len(nodes)
