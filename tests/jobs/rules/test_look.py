"""A look at the queue in admission's words: who starts, and what each other one is told."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.amounts import Amount, total_of
from jobs.rules.queue.explain import explain
from jobs.rules.queue.look import Looked, Queued, QueueSnapshot, QuotaHeadroom, backoff_s, look
from jobs.rules.queue.state import QueueRules, Reservation, RunningWorkload
from jobs.rules.reasons import Reason
from tests.jobs.rules.test_admission import GI, HARD, WIDE, node, request

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOW_S = int(NOW.timestamp())
HEADROOM = {"t": QuotaHeadroom(HARD, HARD), "u": QuotaHeadroom(HARD, HARD)}
PLENTY = node(cpu=99000)
EIGHT = {"t": QuotaHeadroom(WIDE, WIDE), "u": QuotaHeadroom(WIDE, WIDE)}


def queued(name: str, after: float, *, cpu: int = 3, tenant: str = "t", **more) -> Queued:
    at = NOW - timedelta(minutes=10) + timedelta(seconds=after)
    return Queued(name, tenant, name, at, (request(cpu),), **more)


def told(looked: Looked) -> dict[str, str]:
    """By workload, in the order of the decisions: "now", or why not."""
    return {one.queued.workload_id: one.fit.text or one.fit.kind for one in looked.decisions}


def running(name: str, cpu: int, ends_in_s: int) -> RunningWorkload:
    size = (0, cpu * 1000, cpu * GI, cpu, 0)
    return RunningWorkload(name, "u", (("a", size),), size, NOW_S, NOW_S + ends_in_s)


FREE_NODES = "Waiting for free nodes: needs 8 CPU, {} of 8 free"
QUOTA = "Waiting for quota: needs 8 CPU, 7 of 8 free"
WITHDRAWN = (
    "The cluster did not schedule all replicas in time, so it returned to the queue; its events say why. "
    "The next attempt is in about 2 minutes"
)
UNPLACED = "Not all replicas were scheduled within 1 minute: 0/3 nodes match"
AGAIN = f"{UNPLACED}. The next attempt is in about 2 minutes"
CLOSED = QuotaHeadroom(HARD, HARD, "The namespace is suspended.", "tenant_suspended")
FULL = node(used=Amount(4000, 4 * GI, 0, 4))
KEPT = "Waiting for free nodes: what is free is kept for {}, which is ahead of it"
PROMISE = "; a node is kept so that it starts by 13:00 UTC on 20 November at the latest"
IN_AN_HOUR = (running("r", 4, 3600),)
# A table: the queue, headrooms, nodes, what runs, and what each is told.
# fmt: off
LOOKS = {
    "first come, first served, and what starts is held against the rest": (
        [queued("c", 3), queued("a", 1), queued("b", 1.5)], HEADROOM, PLENTY, (),
        {"a": "now", "b": "now", "c": "Waiting for quota: needs 3 CPU, 2 of 8 free"}),
    "a smaller one that wants what another of its namespace lacks of the quota": (
        [queued("big", 1, cpu=8), queued("small", 2, cpu=1)],
        {"t": QuotaHeadroom(HARD, HARD - Amount(1000))}, PLENTY, (),
        {"big": QUOTA, "small": "Waiting for quota behind “big”, which needs the same"}),
    "the head of one namespace does not hold up another": (
        [queued("big", 1, cpu=8), queued("other", 2, tenant="u")],
        {**HEADROOM, "t": QuotaHeadroom(HARD, HARD - Amount(1000))}, PLENTY, (),
        {"big": QUOTA, "other": "now"}),
    "what lacks only nodes does not hold up its namespace": (
        [queued("big", 1, cpu=8), queued("small", 2)], EIGHT, FULL, (),
        {"big": FREE_NODES.format(1), "small": "now"}),
    "unless room is kept for it": (
        [queued("big", 1, cpu=8), queued("small", 2)], EIGHT, FULL, IN_AN_HOUR,
        {"big": FREE_NODES.format(4) + PROMISE, "small": KEPT.format("“big”")}),
    "whose name another namespace is not told": (
        [queued("big", 1, cpu=8), queued("small", 2, tenant="u")], EIGHT, FULL, IN_AN_HOUR,
        {"big": FREE_NODES.format(4) + PROMISE, "small": KEPT.format("a workload of another namespace")}),
    "beside which what ends in time starts": (
        [queued("big", 1, cpu=8), queued("short", 2, lasts_s=3600)], EIGHT, FULL, IN_AN_HOUR,
        {"big": FREE_NODES.format(1) + PROMISE, "short": "now"}),
    "what can never start holds up nobody": (
        [queued("never", 1, cpu=9), queued("b", 2)], HEADROOM, node(), (),
        {"never": "This can never start: needs 9 CPU, the whole quota is 8.", "b": "now"}),
    "what sits out its back-off holds up nobody": (
        [queued("a", 1, not_before=NOW + timedelta(seconds=119)), queued("b", 2)], HEADROOM, node(), (),
        {"a": WITHDRAWN, "b": "now"}),
    "and says why it was not placed, as long as it does": (
        [queued("a", 1, not_before=NOW + timedelta(seconds=119), shown=Reason("withdrawn", UNPLACED)),
         queued("b", 2, not_before=NOW + timedelta(seconds=119), shown=Reason("withdrawn", AGAIN))],
        HEADROOM, node(), (), {"a": AGAIN, "b": AGAIN}),
    "what is larger than a part by weight holds up nobody, for the part may grow": (
        [queued("large", 1, cpu=9), queued("b", 2)],
        {"t": replace(HEADROOM["t"], by_weight=True)}, PLENTY, (),
        {"large": "Waiting for quota: needs 9 CPU, its part by weight is 8 now", "b": "now"}),
    "a closed namespace starts nothing": (
        [queued("a", 1)], {"t": CLOSED}, node(), (), {"a": CLOSED.closed}),
}
# fmt: on


@pytest.mark.parametrize("case", LOOKS)
def test_who_starts_and_what_the_others_are_told(case: str) -> None:
    queue, headroom, one, runs, expected = LOOKS[case]
    assert told(look(QueueSnapshot(queue, headroom, [one], runs), NOW)) == expected


# Between two stops: 6 of 8 CPU are held by work of low priority of its own namespace, the nodes have plenty.
LOW_HOLDS = {
    "while that is being stopped": (
        {"gone_by_s": NOW_S + 60}, {}, PLENTY,
        ("Waiting for quota: needs 3 CPU, 2 of 8 free; work of low priority in its namespace holds what it lacks, and "
        "is being stopped"),
        "Quota: work of low priority in its namespace holds what it lacks, and is being stopped."),
    "after a withdrawal, until it may stop others again": (
        {}, {"stops_from": NOW + timedelta(hours=1)}, PLENTY,
        ("Waiting for quota: needs 3 CPU, 2 of 8 free; work of low priority in its namespace holds what it lacks, and "
        "may be stopped from 13:00 UTC on 20 November on"),
        ("Quota: work of low priority in its namespace holds what it lacks. It was withdrawn after others had been "
        "stopped for it, so it stops nobody before 13:00 UTC on 20 November.")),
    "where the nodes have no room either": (
        {"gone_by_s": NOW_S + 60}, {}, node(used=Amount(7000, 4 * GI, 0, 4)),
        "Waiting for free nodes: needs 3 CPU, 1 of 8 free",
        ("All or nothing: it starts with all of its replicas at once, and the free nodes that are not kept for others "
        "have no room for that.")),
}  # fmt: skip


@pytest.mark.parametrize("case", LOW_HOLDS)
def test_what_low_priority_holds_of_the_quota_is_said_as_that(case: str) -> None:
    of_low, of_queued, one, text, rule = LOW_HOLDS[case]
    size = (0, 6000, 6 * GI, 6, 0)
    low = RunningWorkload("low", "t", (), size, NOW_S, is_low=True, **of_low)
    headroom = QuotaHeadroom(HARD, HARD - Amount(6000, 6 * GI, 0, 6))
    waiting = QueueSnapshot([queued("a", 1, **of_queued)], {"t": headroom}, [one], [low])
    looked = look(waiting, NOW)
    assert told(looked) == {"a": text}
    assert looked.state is not None
    assert looked.decided is not None
    rules = explain(looked.state, looked.decided, looked.rules, {})["a"]
    assert rules[-1] == rule
    code = "nodes" if text.startswith(FREE_NODES[:22]) else "quota"
    assert looked.decisions[0].fit.code == code


def test_a_look_ends_when_as_many_are_admitted_as_is_asked_for() -> None:
    queue = [queued(name, second) for second, name in enumerate(("a", "b", "c", "d"))]
    waiting = QueueSnapshot(queue, EIGHT, [PLENTY])
    assert told(look(waiting, NOW, rules=QueueRules(most=2))) == {"a": "now", "b": "now"}
    assert len(look(waiting, NOW).decisions) == 4
    # Each has three pods: one alone may be more than a cluster should be given at a time.
    few = QueueRules(most_pods=5)
    for pods, started in ((0, {"a": "now"}), (2, {"a": "now"}), (3, {})):
        looked = look(replace(waiting, pods_started=pods), NOW, rules=few)
        assert told(looked) == started
        assert looked.look_at == NOW + timedelta(seconds=1)
    assert told(look(waiting, NOW, rules=QueueRules(most_pods=2))) == {"a": "now"}


def test_a_reservation_is_kept_and_its_time_never_moves_back() -> None:
    queue = [queued("big", 1, cpu=8), queued("short", 2, lasts_s=3600)]
    first = look(QueueSnapshot(queue, EIGHT, [FULL], IN_AN_HOUR), NOW)
    room = (("a", (0, 8000, 8 * GI, 8, 0)),)
    assert list(first.reservations) == [Reservation("big", room, NOW_S + 3600)]
    assert [one.avoided_nodes for one in first.decisions] == [(), ()], (
        "it may use what it leaves in time"
    )
    later = NOW + timedelta(minutes=1)
    waiting = QueueSnapshot(queue[:1], EIGHT, [FULL], IN_AN_HOUR, first.reservations)
    assert look(waiting, later).reservations == list(first.reservations)
    free = look(replace(waiting, nodes=[node()], running=()), later)
    assert (told(free), free.reservations) == ({"big": "now"}, [])


def test_what_starts_elsewhere_keeps_off_the_nodes_that_are_kept() -> None:
    whole = replace(queued("whole", 1), requests=(request(1, cpu=8000),))
    queue = [whole, queued("small", 2)]
    found = look(QueueSnapshot(queue, EIGHT, [FULL, node("b", cpu=4000)], IN_AN_HOUR), NOW)
    assert [one.avoided_nodes for one in found.decisions] == [(), ("a",)]
    queue = [queued("small", 0), whole]  # also where that is asked first
    found = look(QueueSnapshot(queue, EIGHT, [FULL, node("b", cpu=3000)], IN_AN_HOUR), NOW)
    assert [one.avoided_nodes for one in found.decisions] == [("a",), ()]
    assert found.decisions[0].nodes == {"b": Amount(3000, 3 * GI, 0, 3)}


@given(
    st.lists(st.tuples(st.sampled_from(["t", "u"]), st.integers(1, 4), st.integers(0, 2))),
    st.integers(0, 12000),
)
@settings(max_examples=100, deadline=None)
def test_admitted_work_never_exceeds_quota_nor_nodes(jobs, cpu) -> None:
    queue = [
        Queued(str(i), t, str(i), NOW + timedelta(seconds=i), (request(count, gpu=gpu),))
        for i, (t, count, gpu) in enumerate(jobs)
    ]
    one = node(cpu=cpu, gpu=3)
    decisions = look(QueueSnapshot(queue, HEADROOM, [one]), NOW).decisions
    admitted = [one.queued for one in decisions if one.fit.kind == "now"]
    for tenant in HEADROOM:
        assert not HARD.lacking(
            total_of(r for one in admitted if one.tenant_id == tenant for r in one.requests)
        )
    assert not one.free.lacking(total_of(r for one in admitted for r in one.requests))


def test_backoff_doubles_up_to_a_quarter_of_an_hour() -> None:
    assert [backoff_s(n) for n in (1, 2, 3, 6, 99)] == [30, 60, 120, 900, 900]


def in_pools(*used: int, gpu: int = 4, **more) -> list:
    """A node of 4 GPUs in each of two pools, of which so many are taken, and one without GPUs."""
    return [
        node(f"{name}-0", cpu=99000, gpu=gpu, used=Amount(gpu=taken), pool=name, **more)
        for name, taken in zip(("a100", "t4"), used, strict=True)
    ] + [node("other", cpu=99000)]


def gpus(of: str, count: int, ends_in_s: int) -> RunningWorkload:
    size = (count, 0, 0, 1, 0)
    return RunningWorkload(of, "u", ((f"{of}-0", size),), size, NOW_S, NOW_S + ends_in_s)


ANY_POOL = ("a100", "t4", "default")
WORKER, PS = request(gpu=4), request(role="ps")


@pytest.mark.parametrize(
    ("requests", "pools", "used", "chosen"),
    [
        ([WORKER, PS], ANY_POOL, (0, 0), {"worker": "a100", "ps": "default"}),
        ([WORKER, PS], ANY_POOL, (1, 0), {"worker": "t4", "ps": "default"}),
        ([WORKER, PS], ("t4",), (0, 0), {"worker": "t4", "ps": "default"}),
        ([PS], ("default", "a100"), (0, 0), {"ps": "default"}),
        ([PS], ("t4",), (0, 0), {"ps": "t4"}),
        ([WORKER, replace(PS, pool="a100")], ("t4",), (0, 0), {"worker": "t4", "ps": "a100"}),
        # What of the two is whose, the sums tell.
        (
            [replace(WORKER, pool="a100"), replace(PS, pool="t4"), request(gpu=1, role="chief")],
            *(ANY_POOL, (0, 2), {"worker": "a100", "ps": "t4", "chief": "t4"}),
        ),
        ([request(2, gpu=4)], ANY_POOL, (0, 0), None),  # never split
        ([WORKER], ("t4",), (0, 1), None),
        ([WORKER], (), (0, 0), None),
    ],
)
def test_each_role_starts_in_one_pool(requests, pools, used, chosen) -> None:
    one = replace(queued("a", 1), requests=tuple(requests), pools=pools, no_pool="It is gone.")
    [found] = look(QueueSnapshot([one], EIGHT, in_pools(*used)), NOW).decisions
    assert (found.pools if found.fit.kind == "now" else None) == chosen
    if not pools:
        assert (found.fit.code, found.fit.text) == ("no_pool", "It is gone.")
    if chosen:
        where = {name.rpartition("-")[0] or "default" for name in found.nodes}
        assert where == set(chosen.values())


def test_room_is_kept_in_the_pool_where_it_starts_soonest() -> None:
    one = replace(queued("a", 1), requests=(WORKER,), pools=ANY_POOL)
    runs = (gpus("a100", 4, 7200), gpus("t4", 4, 3600))
    [kept] = look(QueueSnapshot([one], EIGHT, in_pools(4, 4), runs), NOW).reservations
    assert (dict(kept.room).keys(), kept.starts_at_s) == ({"t4-0"}, NOW_S + 3600)
    named = replace(one, pools=("a100",))
    [kept] = look(QueueSnapshot([named], EIGHT, in_pools(4, 4), runs), NOW).reservations
    assert (dict(kept.room).keys(), kept.starts_at_s) == ({"a100-0"}, NOW_S + 7200)


def test_replicas_are_packed_or_spread_over_the_domains_of_their_pool() -> None:
    nodes = [node(str(n), gpu=2, pool="a100", domain="xy"[n // 2]) for n in range(4)]
    for placement, domains in (("pack", {"x"}), ("spread", {"x", "y"})):
        one = replace(
            queued("a", 1), requests=(request(3, gpu=1),), pools=("a100",), placement=placement
        )
        [found] = look(QueueSnapshot([one], EIGHT, nodes), NOW).decisions
        assert {nodes[int(name)].domain for name in found.nodes} == domains
