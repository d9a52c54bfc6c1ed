"""What fits now, later and never, and the words for it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.admission import (
    Amount,
    Fit,
    Need,
    NodeRoom,
    fit,
    node_room,
    pack,
    reserve,
    total_of,
)
from jobs.rules.queue import TenantRoom, Verdict, Waiting, backoff_s, decide

GI = 2**30
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def need(count: int = 1, *, cpu: int = 1000, gpu: int = 0, memory: int = GI, role: str = "worker"):
    return Need(role, count, Amount(cpu, memory, gpu, 1))


def node(name: str = "a", *, cpu: int = 8000, gpu: int = 0, used: Amount | None = None, **more):
    allocatable = Amount(cpu, 64 * GI, gpu, 110)
    return NodeRoom(name, allocatable, allocatable - (used or Amount()), **more)


HARD = Amount(8000, 16 * GI, 2, 20)
WIDE = Amount(99000, 99 * GI, 9, 99)


def test_what_fits_starts() -> None:
    assert fit([need(3)], HARD, HARD, [node()]) == Fit("now")


def test_quota_that_others_hold_is_waited_for_with_the_arithmetic() -> None:
    left = HARD - Amount(7000, 0, 0, 7)
    verdict = fit([need(3)], HARD, left, [node()])
    assert (verdict.kind, verdict.code) == ("later", "quota")
    assert verdict.text == "Waits for quota: needs 3 CPU, 1 of 8 is free."


def test_every_lacking_resource_is_named_gpu_first() -> None:
    left = Amount(500, GI, -1, 0)
    verdict = fit([need(2, gpu=1)], HARD, left, [node(gpu=4)])
    assert verdict.text == (
        "Waits for quota: needs 2 GPU, 0 of 2 are free; needs 2 CPU, 0.5 of 8 are free; "
        "needs 2Gi memory, 1Gi of 16Gi is free; needs 2 pods, 0 of 20 are free."
    )


def test_a_resource_over_quota_does_not_hold_up_what_does_not_want_it() -> None:
    assert fit([need()], HARD, HARD - Amount(gpu=5), [node()]).kind == "now"


@pytest.mark.parametrize(
    ("needs", "field", "words"),
    [
        ([need(9)], "replicas.worker.cpu", "needs 9 CPU, the whole quota is 8"),
        ([need(3, gpu=1)], "replicas.worker.gpu", "needs 3 GPU, the whole quota is 2"),
        ([need(1, memory=17 * GI)], "replicas.worker.memory", "needs 17Gi memory"),
        ([need(21, cpu=10, memory=2**25)], "replicas.worker.count", "needs 21 pods"),
        ([need(1), need(8, role="ps")], "replicas.ps.cpu", "needs 9 CPU"),
    ],
)
def test_more_than_the_whole_quota_can_never_start(needs, field, words) -> None:
    verdict = fit(needs, HARD, HARD, [node(cpu=99000, gpu=9)])
    assert (verdict.kind, verdict.code, verdict.field) == ("never", "over_quota", field)
    assert words in verdict.text


def test_a_replica_larger_than_every_node_can_never_start() -> None:
    verdict = fit([need(gpu=2)], HARD, HARD, [node(gpu=1), node("b", gpu=1)])
    assert (verdict.kind, verdict.field) == ("never", "replicas.worker.gpu")
    assert "it needs 2 GPU, the largest node has 1. Ask for less." in verdict.text
    verdict = fit([need(2, gpu=2)], WIDE, WIDE, [node(gpu=1), node("b", gpu=1)])
    assert "each worker needs 2 GPU, the largest node has 1" in verdict.text


def test_resources_that_no_node_has_together_can_never_start() -> None:
    verdict = fit([need(cpu=6000, gpu=1)], HARD, HARD, [node(cpu=8000), node("b", cpu=4000, gpu=4)])
    assert (verdict.kind, verdict.field) == ("never", "replicas.worker")
    assert "which no node has together" in verdict.text


def test_more_than_all_nodes_together_can_never_start() -> None:
    verdict = fit([need(2, gpu=1)], HARD, HARD, [node(gpu=1)])
    assert (verdict.kind, verdict.code) == ("never", "over_cluster")
    assert "needs 2 GPU, all nodes together have 1" in verdict.text


def test_nodes_that_are_down_make_a_job_wait_not_impossible() -> None:
    verdict = fit([need()], HARD, HARD, [node(is_open=False)])
    assert (verdict.kind, verdict.text) == ("later", "Waits for a node: none takes new pods now.")


def test_pods_of_others_count_on_the_nodes() -> None:
    verdict = fit([need(3)], HARD, HARD, [node(used=Amount(7000, 0, 0, 1))])
    assert verdict.text == "Waits for room on the nodes: needs 3 CPU, 1 of 8 is free."


def test_room_in_pieces_is_no_room() -> None:
    nodes = [node("a", used=Amount(cpu=5000)), node("b", used=Amount(cpu=5000))]
    verdict = fit([need(1, cpu=4000)], HARD, HARD, nodes)
    assert verdict.kind == "later"
    assert "needs 4 CPU and 1Gi memory on one node; no node has that much free" in verdict.text
    nodes = [node("a", used=Amount(cpu=5000)), node("b")]
    verdict = fit([need(2, cpu=5000)], WIDE, WIDE, nodes)
    assert "only 1 of 2 replicas find room (each worker needs 5 CPU and 1Gi memory" in verdict.text


def test_a_nodeport_is_the_quotas_and_no_nodes() -> None:
    notebook = Need("notebook", 1, Amount(1000, GI, 0, 1, 1))
    hard = replace(HARD, nodeports=2)
    assert fit([notebook], hard, hard, [node()]).kind == "now"
    verdict = fit([notebook], hard, replace(hard, nodeports=0), [node()])
    assert verdict.text == "Waits for quota: needs 1 NodePort, 0 of 2 are free."
    assert fit([notebook], replace(HARD, nodeports=0), HARD, [node()]).code == "over_quota"


def test_gpus_are_packed_whole() -> None:
    nodes = [node("a", gpu=2), node("b", gpu=2)]
    wide = Amount(99000, 99 * GI, 9, 99)
    assert fit([need(2, gpu=2)], wide, wide, nodes).kind == "now"
    assert fit([need(1, gpu=2), need(2, gpu=1, role="ps")], wide, wide, nodes).kind == "now"
    assert fit([need(3, gpu=1), need(1, gpu=2, role="ps")], wide, wide, nodes).kind == "never"


def test_what_needs_no_gpu_leaves_gpu_nodes_free() -> None:
    packed = pack([need()], [node("a", gpu=4), node("b")])
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
    found = node_room("a", room, room, takes_pods=True, taints=taints)
    assert bool(found.places(Amount(1000, GI, 0, 1))) == takes_cpu
    assert bool(found.places(Amount(1000, GI, 1, 1))) == takes_gpu
    closed = node_room("a", room, room, takes_pods=False, taints=taints)
    assert closed.places(Amount(1000, GI, 1, 1)) == 0


def test_nodes_kept_for_gpus_take_nothing_else() -> None:
    kept = [node("a", gpu=4, only_gpu=True)]
    assert fit([need(gpu=1)], HARD, HARD, kept).kind == "now"
    assert fit([need()], HARD, HARD, kept).kind == "never"
    assert fit([need(9, cpu=500)], HARD, HARD, [*kept, node("b", cpu=500)]).kind == "never"


def test_without_a_counted_quota_nothing_starts() -> None:
    assert fit([need()], None, None, [node()]).code == "quota_unknown"


def test_without_nodes_nothing_starts_and_nothing_is_impossible() -> None:
    assert (fit([need()], HARD, HARD, []).kind, fit([need(9)], HARD, HARD, []).kind) == (
        "later",
        "never",
    )


amounts = st.builds(
    Amount, st.integers(0, 9000), st.integers(0, 9 * GI), st.integers(0, 4), st.just(1)
)
needs_lists = st.lists(
    st.builds(Need, st.sampled_from(["worker", "ps"]), st.integers(1, 5), amounts), min_size=1
)
nodes_lists = st.lists(
    st.builds(
        lambda i, a, u: NodeRoom(f"n{i}", a, a - u),
        st.integers(0, 99),
        st.builds(Amount, st.integers(0, 20000), st.just(20 * GI), st.integers(0, 8), st.just(50)),
        amounts,
    ),
    max_size=5,
)


@given(needs_lists, nodes_lists)
@settings(max_examples=100, deadline=None)
def test_packing_never_gives_more_than_there_is_and_loses_nothing(needs, nodes) -> None:
    packed = pack(needs, nodes)
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
    assert before - after == total_of(needs)


def packed_one_by_one(needs: list[Need], nodes: list[NodeRoom]) -> list[NodeRoom] | None:
    """First fit as one would write it down: each replica looks at each node."""
    rooms = sorted(nodes, key=lambda n: (n.free.gpu, n.free.cpu, n.name))
    replicas = [need.each for need in needs for _ in range(need.count)]
    for each in sorted(replicas, key=lambda a: (a.gpu, a.cpu, a.memory), reverse=True):
        for place, room in enumerate(rooms):
            if room.is_open and room.allows(each) and not room.free.lacking(each):
                rooms[place] = replace(room, free=room.free - each)
                break
        else:
            return None
    return rooms


@given(needs_lists, nodes_lists)
@settings(max_examples=200, deadline=None)
def test_packing_many_at_once_is_packing_them_one_by_one(needs, nodes) -> None:
    assert pack(needs, nodes) == packed_one_by_one(needs, nodes)


@given(needs_lists, nodes_lists)
@settings(max_examples=50, deadline=None)
def test_reserving_what_does_not_fit_does_no_harm(needs, nodes) -> None:
    assert len(reserve(needs, nodes)) == len(nodes)


# --- the queue ---
def waiting(name: str, seconds: int, *, tenant: str = "t", needs=None, not_before=None) -> Waiting:
    return Waiting(
        name, tenant, name, NOW + timedelta(seconds=seconds), needs or (need(3),), not_before
    )


def kinds(verdicts: list[Verdict]) -> dict[str, str]:
    return {v.job_id: v.fit.kind for v in verdicts}


ROOM = {"t": TenantRoom(HARD, HARD), "u": TenantRoom(HARD, HARD)}


def test_first_come_first_served_and_what_starts_is_held_against_the_rest() -> None:
    queue = [waiting("c", 3), waiting("a", 1), waiting("b", 2)]
    verdicts = decide(queue, ROOM, [node(cpu=99000)], NOW)
    assert [v.job_id for v in verdicts] == ["a", "b", "c"]
    assert kinds(verdicts) == {"a": "now", "b": "now", "c": "later"}
    assert verdicts[2].fit.text == "Waits for quota: needs 3 CPU, 2 of 8 are free."


def test_verdicts_end_when_as_many_are_admitted_as_is_asked_for() -> None:
    queue = [waiting(name, second) for second, name in enumerate(("a", "b", "c", "d"))]
    tenants = {"t": TenantRoom(HARD, HARD)}
    found = decide(queue, tenants, [node()], NOW, most=2)
    assert [(verdict.job_id, verdict.fit.kind) for verdict in found] == [("a", "now"), ("b", "now")]
    assert len(decide(queue, tenants, [node()], NOW)) == 4


def test_a_smaller_one_behind_does_not_overtake_in_the_same_tenant() -> None:
    queue = [waiting("big", 1, needs=(need(8),)), waiting("small", 2, needs=(need(1),))]
    rooms = {"t": TenantRoom(HARD, HARD - Amount(cpu=1000))}
    verdicts = decide(queue, rooms, [node(cpu=99000)], NOW)
    assert kinds(verdicts) == {"big": "later", "small": "later"}
    assert verdicts[1].fit.text == "Waits behind “big”, which was submitted earlier."


def test_the_head_of_one_tenant_does_not_hold_up_another() -> None:
    queue = [waiting("big", 1, needs=(need(8),)), waiting("other", 2, tenant="u")]
    rooms = {**ROOM, "t": TenantRoom(HARD, Amount())}
    assert kinds(decide(queue, rooms, [node(cpu=99000)], NOW)) == {"big": "later", "other": "now"}


def test_what_can_never_start_holds_up_nobody() -> None:
    queue = [waiting("never", 1, needs=(need(9),)), waiting("b", 2)]
    assert kinds(decide(queue, ROOM, [node()], NOW)) == {"never": "never", "b": "now"}


def test_what_sits_out_its_backoff_holds_up_nobody_and_says_when() -> None:
    queue = [waiting("a", 1, not_before=NOW + timedelta(seconds=119)), waiting("b", 2)]
    verdicts = decide(queue, ROOM, [node()], NOW)
    assert kinds(verdicts) == {"a": "later", "b": "now"}
    assert "The next try is in about 2 minutes." in verdicts[0].fit.text
    assert kinds(decide(queue, ROOM, [node()], NOW + timedelta(seconds=119)))["a"] == "now"


def test_a_closed_tenant_starts_nothing_and_says_why() -> None:
    rooms = {"t": TenantRoom(HARD, HARD, "The namespace is suspended.", "tenant_suspended")}
    verdicts = decide([waiting("a", 1)], rooms, [node()], NOW)
    assert verdicts == [
        Verdict("a", Fit("later", "tenant_suspended", "The namespace is suspended."))
    ]


@given(
    st.lists(st.tuples(st.sampled_from(["t", "u"]), st.integers(1, 4), st.integers(0, 2))),
    st.integers(0, 12000),
)
@settings(max_examples=100, deadline=None)
def test_admitted_work_never_exceeds_quota_nor_nodes(jobs, cpu) -> None:
    queue = [
        waiting(str(i), i, tenant=t, needs=(need(count, gpu=gpu),))
        for i, (t, count, gpu) in enumerate(jobs)
    ]
    nodes = [node(cpu=cpu, gpu=3)]
    admitted = {v.job_id for v in decide(queue, ROOM, nodes, NOW) if v.fit.kind == "now"}
    for tenant in ROOM:
        total = total_of(
            n for j in queue if j.job_id in admitted and j.tenant_id == tenant for n in j.needs
        )
        assert not HARD.lacking(total)
    assert not nodes[0].free.lacking(
        total_of(n for j in queue if j.job_id in admitted for n in j.needs)
    )


def test_backoff_doubles_up_to_a_quarter_of_an_hour() -> None:
    assert [backoff_s(n) for n in (1, 2, 3, 6, 99)] == [30, 60, 120, 900, 900]
