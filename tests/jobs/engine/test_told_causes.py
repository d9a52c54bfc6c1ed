"""What is told of one that waits is true: each situation is played to its end on a virtual clock.

Told is what the page has: what is lacking in figures, and when it starts because of what. It is true when
the one that waits starts within 20 % of the time, or never where nobody can tell; and when it starts sooner
without what was named.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID, uuid5

import pytest

from jobs.engine.admission import RULES
from jobs.engine.estimates import estimated, places_of
from jobs.rules.amounts import Amount
from jobs.rules.queue.look import (
    Looked,
    Queued,
    QueueSnapshot,
    QuotaHeadroom,
    amount_of,
    look,
    size_of,
)
from jobs.rules.queue.state import UNKNOWN, RunningWorkload, Size, add
from jobs.rules.queue.times import seconds_of, time_of
from tests.jobs.rules.test_admission import GI, node, request
from tests.jobs.rules.test_look import NOW, NOW_S

HOUR_S = 3600
CLOSED = {"closed": "The namespace is suspended.", "closed_code": "tenant_suspended"}


def an_id(name: str) -> str:
    return str(uuid5(UUID(int=0), name))


def size(gpus: int) -> Size:
    return (gpus, 1000, GI, 1, 0)


def runs(
    name: str, gpus: int, ends_in_s: int | None = None, at: str = "a", **more
) -> RunningWorkload:
    ends_by_s = UNKNOWN if ends_in_s is None else NOW_S + ends_in_s
    more = {"namespace": "t", "admitted_at_s": NOW_S - HOUR_S, **more}
    return RunningWorkload(
        an_id(name), nodes=((at, size(gpus)),), total=size(gpus), ends_by_s=ends_by_s, **more
    )


def waits(name: str, gpus: int, *, after_s: int = 0, count: int = 1, **more) -> Queued:
    at = NOW - timedelta(minutes=10) + timedelta(seconds=after_s)
    more = {"tenant_id": "t", "queued_at": at, **more}
    return Queued(an_id(name), name=name, requests=(request(count, gpu=gpus),), **more)


@dataclass(frozen=True)
class Situation:
    """What is there, and what is told of `about`.

    Attributes:
        quota: GPUs of the namespace `t`; all others have plenty.
        lasts: by name, how many seconds from its admission one really holds its room; else until its
            deadline, or for ever.
        usual: what earlier runs of it took.
        lacks: what is told to be lacking.
        basis, cause: what its start follows from.
        without: the situation without the cause, where that is no workload.
        holds: nodes that an admin holds, and in how many seconds.
    """

    running: tuple[RunningWorkload, ...]
    queue: tuple[Queued, ...]
    lacks: str
    basis: str
    cause: str = ""
    about: str = "w"
    nodes: Mapping[str, int] = field(default_factory=lambda: {"a": 8})
    quota: int = 99
    lasts: Mapping[str, int] = field(default_factory=dict)
    usual: Mapping[str, int] = field(default_factory=dict)
    closed: Mapping[str, str] = field(default_factory=dict)
    without: Callable[["Situation"], "Situation"] | None = None
    holds: Mapping[str, int] = field(default_factory=dict)

    @property
    def without_cause(self) -> "Situation":
        if self.without is not None:
            return self.without(self)
        name = an_id(self.cause)
        return replace(
            self,
            running=tuple(one for one in self.running if one.workload_id != name),
            queue=tuple(one for one in self.queue if one.workload_id != name),
        )


class Played:
    """A situation on the way to its end: all that is known of it comes true."""

    def __init__(self, situation: Situation) -> None:
        self._of = situation
        self.now_s = NOW_S
        self._queue = {one.workload_id: one for one in situation.queue}
        self._running: dict[str, RunningWorkload] = {}
        self._lasts = {an_id(name): lasts_s for name, lasts_s in situation.lasts.items()}
        self._asked = dict(self._queue)
        self._quotas = {"t": situation.quota, "u": 99}
        self._admitted: dict[str, list] = {name: [] for name in self._quotas}
        for one in situation.running:
            self._run(one)
        self.looked = Looked((), (), (), (), None)

    def _run(self, one: RunningWorkload) -> None:
        self._running[one.workload_id] = one

    def _end_of(self, one: RunningWorkload) -> int:
        lasts_s = self._lasts.get(one.workload_id)
        really_s = one.ends_by_s if lasts_s is None else one.admitted_at_s + lasts_s
        return min(really_s, one.gone_by_s)

    def _snapshot(self) -> QueueSnapshot:
        used: dict[str, Size] = dict.fromkeys(self._of.nodes, (0, 0, 0, 0, 0))
        held = {name: Amount() for name in self._quotas}
        for one in self._running.values():
            held[one.namespace] += amount_of(one.total)
            for name, taken in one.nodes:
                used[name] = add(used[name], taken)
        hard = {name: Amount(999_000, 999 * GI, gpus, 999) for name, gpus in self._quotas.items()}
        return QueueSnapshot(
            list(self._queue.values()),
            {
                name: QuotaHeadroom(hard[name], hard[name] - held[name], **self._of.closed)
                for name in hard
            },
            [
                node(name, cpu=64_000, gpu=gpus, used=amount_of(used[name]))
                for name, gpus in self._of.nodes.items()
            ],
            tuple(self._running.values()),
            self.looked.reservations,
            self.looked.claims,
            self._admitted,
            holds={name: NOW_S + after_s for name, after_s in self._of.holds.items()},
        )

    def look(self) -> Looked:
        now = time_of(self.now_s)
        assert now is not None
        self.looked = look(self._snapshot(), now, rules=RULES)
        for one in self.looked.decisions:
            if one.fit.kind == "now":
                queued = self._queue.pop(one.queued.workload_id)
                nodes = tuple((name, size_of(amount)) for name, amount in one.nodes.items())
                taken = (0, 0, 0, 0, 0)
                for _, part in nodes:
                    taken = add(taken, part)
                self._admitted[queued.tenant_id].append((now, amount_of(taken)))
                self._run(
                    RunningWorkload(
                        queued.workload_id, queued.tenant_id, nodes, taken, self.now_s,
                        seconds_of(one.ends_by), queued.priority == "low",
                    )
                )  # fmt: skip
        for stop in self.looked.preemptions:
            one = self._running[stop.workload_id]
            self._run(replace(one, gone_by_s=self.now_s + one.grace_s))
        return self.looked

    def start_of(self, name: str) -> int:
        """When it starts; `UNKNOWN`: nothing more happens, and it still waits."""
        for _ in range(200):
            looked = self.look()
            if an_id(name) not in self._queue:
                return self.now_s
            then_s = min([*map(self._end_of, self._running.values()), seconds_of(looked.look_at)])
            if then_s == UNKNOWN:
                return UNKNOWN
            self.now_s = max(self.now_s, then_s)
            for one in [o for o in self._running.values() if self._end_of(o) <= self.now_s]:
                self._leave(one)
        raise AssertionError("it never ends")

    def _leave(self, one: RunningWorkload) -> None:
        del self._running[one.workload_id]
        if one.gone_by_s <= self.now_s and one.workload_id in self._asked:
            self._queue[one.workload_id] = self._asked[one.workload_id]


def opened(one: Situation) -> Situation:
    return replace(one, closed={})


def released(one: Situation) -> Situation:
    return replace(one, holds={})


def at_once(one: Situation) -> Situation:
    return replace(one, queue=tuple(replace(queued, not_before=None) for queued in one.queue))


OLD = {"queued_at": NOW - timedelta(hours=7)}
FREE = "Waiting for free nodes: needs {} GPUs, {} of 8 free"
KEPT = "Waiting for free nodes: what is free is kept for “v”, which is ahead of it"
# fmt: off
SITUATIONS = {
    "quota": Situation(
        (runs("r", 4, HOUR_S),), (waits("w", 4),), "Waiting for quota: needs 4 GPUs, 2 of 6 free",
        "deadline", "r", quota=6),
    "behind one of the own namespace": Situation(
        (runs("r", 4, 2 * HOUR_S),), (waits("v", 4, lasts_s=1800), waits("w", 1, after_s=1)),
        "Waiting for quota behind “v”, which needs the same", "deadline", "v", quota=4),
    "nodes": Situation(
        (runs("r", 6, HOUR_S, namespace="u"),), (waits("w", 4),), FREE.format(4, 2), "deadline", "r"),
    "after one that is queued now": Situation(
        (runs("r", 8, 900, namespace="u"),),
        (waits("v", 8, lasts_s=HOUR_S), waits("w", 8, after_s=1)), FREE.format(8, 0), "deadline", "v"),
    "free nodes are in pieces": Situation(
        (runs("r", 2, HOUR_S, namespace="u"), runs("s", 2, 5 * HOUR_S, "b", namespace="u")), (waits("w", 4),),
        "Waiting for free nodes: needs 4 GPUs and 1 CPU and 1Gi memory on one node; no node has that much "
        "free", "deadline", "r", nodes={"a": 4, "b": 4}),
    "behind a reservation": Situation(
        (runs("r", 6, HOUR_S, namespace="u"),), (waits("v", 8, lasts_s=600), waits("w", 2, after_s=1)),
        KEPT, "deadline", "v"),
    "a closed namespace": Situation(
        (), (waits("w", 1),), CLOSED["closed"], "obstacle", closed=CLOSED, without=opened),
    "back-off after a withdrawal": Situation(
        (), (waits("w", 1, not_before=NOW + timedelta(minutes=15)),),
        "The cluster did not schedule all replicas in time, so it returned to the queue; its events say "
        "why. The next attempt is in about 15 minutes", "backoff", without=at_once),
    "a claim": Situation(
        (runs("r", 8, is_low=True, namespace="u"),), (waits("w", 8),),
        "Waiting for free nodes: work of low priority is being stopped for it, and has time to save",
        "stopping", "r"),
    "aged, and room is kept without a time": Situation(
        (runs("r", 6, namespace="u"), runs("s", 2, HOUR_S, namespace="u")), (waits("w", 8, **OLD),),
        FREE.format(8, 0) + "; a node is kept for it, but what runs there has no deadline", "unlimited", "r"),
    "low, after a younger one": Situation(
        (runs("r", 8, HOUR_S, namespace="u"),),
        (waits("w", 8, priority="low"), waits("v", 8, after_s=1, lasts_s=2 * HOUR_S)), FREE.format(8, 0),
        "deadline", "v"),
    "work without a limit": Situation(
        (runs("r", 8, namespace="u"),), (waits("w", 4),), FREE.format(4, 0), "unlimited", "r"),
    "an admin holds the only node": Situation(
        (), (waits("w", 4),), "Waiting for a node: node a is held from 14:00 UTC on 20 November until an admin "
        "releases it", "hold", holds={"a": 2 * HOUR_S}, without=released),
    "an admin holds one of two": Situation(
        (runs("r", 8, HOUR_S, "b", namespace="u"),), (waits("w", 4),),
        "Waiting for free nodes: needs 4 GPUs, 0 of 16 free; 1 of 2 nodes take no pods; node a is held from",
        "deadline", "r", nodes={"a": 8, "b": 8}, holds={"a": 0}, without=released),
    "a usual duration, this time longer": Situation(
        (runs("r", 8, namespace="u"),), (waits("w", 4),), FREE.format(4, 0), "usual", "r",
        usual={"r": 3 * HOUR_S}, lasts={"r": 3 * HOUR_S + 1200}),
    "longer than usual": Situation(
        (runs("r", 8, namespace="u"),), (waits("w", 4),), FREE.format(4, 0), "overdue", "r",
        usual={"r": 1800}),
}
# fmt: on


@pytest.mark.parametrize("case", SITUATIONS)
def test_what_is_told_of_a_situation_comes_true(case: str) -> None:
    situation = SITUATIONS[case]
    first = Played(situation)
    looked = first.look()
    if looked.preemptions:  # it is told with the next look, some moments later
        looked = first.look()
    fits = {one.queued.name: one.fit for one in looked.decisions}
    usual = {an_id(name): lasts_s for name, lasts_s in situation.usual.items()}
    place = places_of(looked, estimated(looked, usual, NOW_S))[UUID(an_id(situation.about))]
    assert bool(situation.holds) == any(rule.startswith("Hold: node a is") for rule in place.rules)
    assert fits[situation.about].text.startswith(situation.lacks)
    kept = "Reservation: a node is kept for “v”, which is ahead of it and starts by "
    assert situation.lacks != KEPT or any(rule.startswith(kept) for rule in place.rules)
    cause = UUID(an_id(situation.cause)) if situation.cause else None
    assert (place.basis, place.cause) == (situation.basis, cause)

    start_s = Played(situation).start_of(situation.about)
    if place.starts_at is None:
        assert start_s == UNKNOWN
    else:
        off_s = abs(seconds_of(place.starts_at) - start_s)
        assert off_s <= max(0.2 * (start_s - NOW_S), 150), "150 s: it is rounded to 5 min"
    assert Played(situation.without_cause).start_of(situation.about) < start_s
