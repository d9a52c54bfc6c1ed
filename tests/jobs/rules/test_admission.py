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


def test_what_fits_starts() -> None:
    assert fit([request(3)], HARD, HARD, [node()]) == Fit("now")


def test_quota_that_others_hold_is_waited_for_with_the_arithmetic() -> None:
    left = HARD - Amount(7000, 0, 0, 7)
    answer = fit([request(3)], HARD, left, [node()])
    assert (answer.kind, answer.code) == ("later", "quota")
    assert answer.text == "Waiting for quota: needs 3 CPU, 1 of 8 free"


def test_every_lacking_resource_is_named_gpu_first() -> None:
    left = Amount(500, GI, -1, 0)
    answer = fit([request(2, gpu=1)], HARD, left, [node(gpu=4)])
    assert answer.text == (
        "Waiting for quota: needs 2 GPUs, 0 of 2 free; needs 2 CPU, 0.5 of 8 free; "
        "needs 2Gi memory, 1Gi of 16Gi free; needs 2 pods, 0 of 20 free"
    )


def test_a_resource_over_quota_does_not_hold_up_what_does_not_want_it() -> None:
    assert fit([request()], HARD, HARD - Amount(gpu=5), [node()]).kind == "now"


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


def test_a_replica_larger_than_every_node_can_never_start() -> None:
    answer = fit([request(gpu=2)], HARD, HARD, [node(gpu=1), node("b", gpu=1)])
    assert (answer.kind, answer.field) == ("never", "replicas.worker.gpu")
    assert "it needs 2 GPUs, the largest node has 1. Request less." in answer.text
    answer = fit([request(2, gpu=2)], WIDE, WIDE, [node(gpu=1), node("b", gpu=1)])
    assert "each worker needs 2 GPUs, the largest node has 1" in answer.text


def test_resources_that_no_node_has_together_can_never_start() -> None:
    answer = fit(
        [request(cpu=6000, gpu=1)], HARD, HARD, [node(cpu=8000), node("b", cpu=4000, gpu=4)]
    )
    assert (answer.kind, answer.field) == ("never", "replicas.worker")
    assert "which no single node has" in answer.text


def test_more_than_all_nodes_together_can_never_start() -> None:
    answer = fit([request(2, gpu=1)], HARD, HARD, [node(gpu=1)])
    assert (answer.kind, answer.code) == ("never", "over_cluster")
    assert "needs 2 GPUs, all nodes in total have 1" in answer.text


def test_nodes_that_are_down_make_a_job_wait_not_impossible() -> None:
    answer = fit([request()], HARD, HARD, [node(is_open=False)])
    assert (answer.kind, answer.text) == ("later", "Waiting for a node: none is schedulable now")


def test_pods_of_others_count_on_the_nodes() -> None:
    answer = fit([request(3)], HARD, HARD, [node(used=Amount(7000, 0, 0, 1))])
    assert answer.text == "Waiting for free nodes: needs 3 CPU, 1 of 8 free"


def test_room_in_pieces_is_no_room() -> None:
    nodes = [node("a", used=Amount(cpu=5000)), node("b", used=Amount(cpu=5000))]
    answer = fit([request(1, cpu=4000)], HARD, HARD, nodes)
    assert answer.kind == "later"
    assert "needs 4 CPU and 1Gi memory on one node; no node has that much free" in answer.text
    nodes = [node("a", used=Amount(cpu=5000)), node("b")]
    answer = fit([request(2, cpu=5000)], WIDE, WIDE, nodes)
    assert (
        "only 1 of 2 replicas fit on single nodes (each worker needs 5 CPU and 1Gi memory"
        in answer.text
    )


def test_a_nodeport_is_the_quotas_and_no_nodes() -> None:
    notebook = ReplicaRequest("notebook", 1, Amount(1000, GI, 0, 1, 1))
    hard = replace(HARD, nodeports=2)
    assert fit([notebook], hard, hard, [node()]).kind == "now"
    answer = fit([notebook], hard, replace(hard, nodeports=0), [node()])
    assert answer.text == "Waiting for quota: needs 1 NodePort, 0 of 2 free"
    assert fit([notebook], replace(HARD, nodeports=0), HARD, [node()]).code == "over_quota"


def test_gpus_are_packed_whole() -> None:
    nodes = [node("a", gpu=2), node("b", gpu=2)]
    wide = Amount(99000, 99 * GI, 9, 99)
    assert fit([request(2, gpu=2)], wide, wide, nodes).kind == "now"
    assert fit([request(1, gpu=2), request(2, gpu=1, role="ps")], wide, wide, nodes).kind == "now"
    assert fit([request(3, gpu=1), request(1, gpu=2, role="ps")], wide, wide, nodes).kind == "never"


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


def test_nodes_kept_for_gpus_take_nothing_else() -> None:
    kept = [node("a", gpu=4, only_gpu=True)]
    assert fit([request(gpu=1)], HARD, HARD, kept).kind == "now"
    assert fit([request()], HARD, HARD, kept).kind == "never"
    assert fit([request(9, cpu=500)], HARD, HARD, [*kept, node("b", cpu=500)]).kind == "never"


def test_without_a_counted_quota_nothing_starts() -> None:
    assert fit([request()], None, None, [node()]).code == "quota_unknown"


def test_without_nodes_nothing_starts_and_nothing_is_impossible() -> None:
    assert (fit([request()], HARD, HARD, []).kind, fit([request(9)], HARD, HARD, []).kind) == (
        "later",
        "never",
    )


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
