"""A simulated week: 125 nodes of 8 GPUs, 40 people in 8 teams, a saturated cluster, judged by the product's decision.

`python -m tests.scale.week_report` prints tables and draws. There is no code for order, fit, share or
reservation here: `jobs.rules.queue` has it. The trace has the shape of the public ones (Jeon et al.,
*Analysis of Large-Scale Multi-Tenant GPU Clusters*, ATC 2019; Hu et al., *Characterization and Prediction
of Deep Learning Workloads*, SC 2021): most trainings have one GPU, most GPU time goes to large ones,
durations are lognormal, few people submit most, half have a deadline.
"""

import heapq
import math
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from jobs.rules.queue.decision import decide
from jobs.rules.queue.order import dominant_share, usage_after
from jobs.rules.queue.state import (
    LOW,
    NORMAL,
    NOTHING,
    UNKNOWN,
    Decided,
    NamespaceState,
    NodeState,
    QueuedWorkload,
    QueueRules,
    QueueState,
    Reservation,
    RoleReplicas,
    RoomClaim,
    RunningWorkload,
    Size,
    TeamState,
    add,
)

NODES, GPUS, PEOPLE, DAY_S = 125, 8, 40, 86400
WEEK_S = 7 * DAY_S
START_UP_S, GRACE_S = 300, 120
GPU: Size = (1, 8000, 64 * 2**30, 0, 0)
SIZES = {1: 0.6, 2: 0.1, 4: 0.1, 8: 0.12, 16: 0.04, 32: 0.025, 64: 0.01, 128: 0.005}
# fmt: off
BY_HOUR = [0.7] * 8 + [1.0, 1.2, 1.2, 1.2, 0.85, 1.15, 1.15, 1.15, 1.15, 1.15, 0.85, 0.95, 1.0, 1.0, 1.0, 0.95]
# fmt: on
NODE: Size = add((0, 0, 0, 110, 0), GPU, GPUS)

NEVER_AGED = UNKNOWN // 2
POLICIES = {
    "queue": QueueRules(fair_share=True),
    "fair share alone": QueueRules(fair_share=True, aging_s=NEVER_AGED, reserves=False),
    "no reservation": QueueRules(fair_share=True, reserves=False),
    "fifo": QueueRules(aging_s=NEVER_AGED, reserves=False),
}
CLASSES = {"1-4": (1, 4), "8": (8, 8), "16-32": (16, 32), "64-128": (64, 128)}


@dataclass(frozen=True)
class People:
    """Who submits: namespaces as they are before anything runs, and teams with weights."""

    namespaces: tuple[NamespaceState, ...]
    teams: tuple[TeamState, ...] = ()


TEAMS = People(
    tuple(NamespaceState(f"person{i}", f"team{i % 8}") for i in range(PEOPLE)),
    tuple(TeamState(f"team{i}") for i in range(8)),
)
# The same with weights 1 to 4, and one and a half times the largest training for each person.
QUOTA: Size = (192, 192 * GPU[1], 192 * GPU[2], 192, 0)
QUOTAS = People(
    tuple(replace(one, hard=QUOTA) for one in TEAMS.namespaces),
    tuple(replace(one, weight=1 + i % 4) for i, one in enumerate(TEAMS.teams)),
)


@dataclass(frozen=True)
class Submit:
    """A training of the trace: when, how many GPUs, how long it runs, its deadline, whose."""

    at_s: int
    gpus: int
    runs_s: int
    deadline_s: int
    person: int
    is_low: bool = False


def trace(seed: int, *, load: float = 1.05) -> list[Submit]:
    """A week of arrivals; `load` is the part of the GPUs that is asked for."""
    dice = random.Random(seed)
    weights = [1 / (i + 1) ** 0.8 for i in range(PEOPLE)]

    def one() -> tuple[int, int]:
        gpus = dice.choices(list(SIZES), list(SIZES.values()))[0]
        runs_s = dice.lognormvariate(math.log(300 if gpus < GPUS else 1800), 2.3)
        return gpus, int(min(4 * DAY_S, max(10, runs_s)))

    mean = sum(gpus * runs_s for gpus, runs_s in (one() for _ in range(40000))) / 40000
    rate = load * NODES * GPUS / mean
    at_s, found = 0.0, []
    while at_s < WEEK_S:
        weekday = 0.75 if (at_s // DAY_S) % 7 >= 5 else 1.1
        at_s += dice.expovariate(rate * BY_HOUR[int(at_s // 3600) % 24] * weekday)
        gpus, runs_s = one()
        deadline_s = _deadline_s(runs_s, dice) if dice.random() < 0.5 else UNKNOWN
        person = dice.choices(range(PEOPLE), weights)[0]
        found.append(Submit(int(at_s), gpus, runs_s, deadline_s, person))
    return found


def _deadline_s(runs_s: int, dice: random.Random) -> int:
    return math.ceil(runs_s * dice.uniform(1.1, 3))


def without_deadlines(submits: Iterable[Submit]) -> list[Submit]:
    """The same week, in which nobody has one."""
    return [replace(one, deadline_s=UNKNOWN) for one in submits]


def with_deadlines(submits: Iterable[Submit]) -> list[Submit]:
    """The same week, in which all have one."""
    dice = random.Random(1)
    return [
        replace(one, deadline_s=_deadline_s(one.runs_s, dice)) if one.deadline_s == UNKNOWN else one
        for one in submits
    ]


def with_low(submits: Iterable[Submit]) -> list[Submit]:
    """The same week, in which three of ten are of low priority."""
    dice = random.Random(2)
    return [replace(one, is_low=dice.random() < 0.3) for one in submits]


@dataclass
class Result:
    """What came of it.

    Attributes:
        waits: of each training GPUs, seconds until it started first, and whose it is.
        gpu_s: GPU seconds by namespace, until the end of the time that is looked at.
        moved, ended: promises that moved back, and reservations that ended with the cause.
        margins_s: of each that waited longer than QUEUE_AGING, how much sooner than its bound it started.
    """

    gpus: int
    lasts_s: int
    waits: list[tuple[int, int, int]] = field(default_factory=list)
    gpu_s: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    moved: list[str] = field(default_factory=list)
    ended: list[tuple[str, str]] = field(default_factory=list)
    margins_s: list[int] = field(default_factory=list)
    preempted: int = 0
    looks: int = 0
    cpu_s: float = 0.0
    longest_look_s: float = 0.0

    @property
    def use(self) -> float:
        return sum(self.gpu_s.values()) / (self.lasts_s * self.gpus)

    def of(self, name: str) -> list[int]:
        least, most = CLASSES[name]
        return sorted(wait_s for gpus, wait_s, _ in self.waits if least <= gpus <= most)


class Week:
    """The cluster on a virtual clock.

    Args:
        only_head: nobody starts before all that were queued earlier have.
        lasts_s: so long use is counted; what is queued then still runs to its end.
    """

    def __init__(
        self,
        submits: Iterable[Submit],
        rules: QueueRules,
        people: People = TEAMS,
        *,
        only_head: bool = False,
        nodes: int = NODES,
        lasts_s: int = WEEK_S,
    ) -> None:
        self._submits = list(submits)
        self._rules = rules
        self._people = people
        self._only_head = only_head
        self._now_s = 0
        self._capacity = add(NOTHING, NODE, nodes)
        self._nodes = {
            f"node{i:03}": NodeState(f"node{i:03}", "default", NODE) for i in range(nodes)
        }
        self._queued: dict[str, QueuedWorkload] = {}
        self._running: dict[str, RunningWorkload] = {}
        self._left_s = {str(i): one.runs_s for i, one in enumerate(self._submits)}
        # By namespace and by team: what normal work holds, as a share too, and its average.
        names = [one.name for one in (*people.namespaces, *people.teams)]
        self._held = dict.fromkeys(names, NOTHING)
        self._low_held = dict.fromkeys(names, NOTHING)
        self._shares = dict.fromkeys(names, 0)
        self._usage = dict.fromkeys(names, 0)
        self._usage_at_s = 0
        self._admitted: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
        self._reservations: tuple[Reservation, ...] = ()
        self._claims: tuple[RoomClaim, ...] = ()
        self._events = [(one.at_s, 0, str(i), 0) for i, one in enumerate(self._submits)]
        self._attempt: dict[str, int] = defaultdict(int)
        self._ran: list[tuple[int, int]] = []  # until when, and how long it might have
        self.result = Result(nodes * GPUS, lasts_s)

    def run(self) -> Result:
        heapq.heapify(self._events)
        while self._events and (self._queued or self._running or self._events[0][1] == 0):
            self._now_s = self._events[0][0]
            while self._events and self._events[0][0] == self._now_s:
                _, kind, name, attempt = heapq.heappop(self._events)
                if kind == 0:
                    self._submit(name)
                elif kind == 1 and self._attempt[name] == attempt:
                    self._end(name)
            while self._queued and self._look():
                pass
        return self.result

    def _submit(self, name: str) -> None:
        one = self._submits[int(name)]
        each = min(one.gpus, GPUS)
        role = RoleReplicas(one.gpus // each, add((0, 0, 0, 1, 0), GPU, each))
        self._queued[name] = QueuedWorkload(
            name,
            self._people.namespaces[one.person].name,
            one.at_s,
            (role,),
            priority=LOW if one.is_low else NORMAL,
            lasts_s=min(UNKNOWN, START_UP_S + one.deadline_s + GRACE_S),
        )

    def _end(self, name: str) -> None:
        running = self._running.pop(name)
        one = self._submits[int(name)]
        for node, size in running.nodes:
            self._nodes[node] = replace(self._nodes[node], free=add(self._nodes[node].free, size))
        lasts_s = self.result.lasts_s
        counted_s = max(0, min(self._now_s, lasts_s) - min(running.admitted_at_s, lasts_s))
        self.result.gpu_s[running.namespace] += one.gpus * counted_s
        self._hold(one, running.total, -1)
        left_s = self._left_s[name] - (self._now_s - running.admitted_at_s)
        if left_s > 0:
            self._left_s[name] = left_s
            self._submit(name)
        elif running.ends_by_s != UNKNOWN:
            self._ran.append((self._now_s, running.ends_by_s - running.admitted_at_s))

    def _hold(self, one: Submit, amount: Size, times: int) -> None:
        self._age_usage()
        namespace = self._people.namespaces[one.person]
        held = self._low_held if one.is_low else self._held
        for name in {namespace.name, namespace.team}:
            held[name] = add(held[name], amount, times)
            self._shares[name] = dominant_share(self._held[name], self._capacity)

    def _age_usage(self) -> None:
        elapsed_s = self._now_s - self._usage_at_s
        if elapsed_s:
            self._usage = {
                name: usage_after(usage, self._shares[name], elapsed_s)
                for name, usage in self._usage.items()
            }
            self._usage_at_s = self._now_s

    def _namespace(self, one: NamespaceState) -> NamespaceState:
        left = add(one.hard, self._held[one.name], -1)
        return NamespaceState(
            one.name,
            one.team,
            one.hard,
            left,
            add(left, self._low_held[one.name], -1),
            self._held[one.name],
            one.weight,
            self._usage[one.name],
            tuple(self._admitted[one.name]),
        )

    def _state(self, queued: Iterable[QueuedWorkload]) -> QueueState:
        self._age_usage()
        return QueueState(
            self._now_s,
            self._capacity,
            tuple(self._nodes.values()),
            tuple(self._running.values()),
            tuple(queued),
            {one.name: self._namespace(one) for one in self._people.namespaces},
            {one.name: replace(one, usage=self._usage[one.name]) for one in self._people.teams},
            self._reservations,
            self._claims,
        )

    def _look(self) -> bool:
        """One decision, carried out; whether there is more to decide at once."""
        queued: Iterable[QueuedWorkload] = self._queued.values()
        if self._only_head:
            queued = [min(queued, key=lambda one: (one.queued_at_s, int(one.workload_id)))]
        state = self._state(queued)
        began_s = time.process_time()
        found = decide(state, self._rules)
        took_s = time.process_time() - began_s
        self.result.looks += 1
        self.result.cpu_s += took_s
        self.result.longest_look_s = max(self.result.longest_look_s, took_s)
        self._carry_out(found)
        if found.look_at_s == self._now_s:
            return True
        if found.look_at_s < UNKNOWN // 4:
            heapq.heappush(self._events, (found.look_at_s, 2, "", 0))
        return self._only_head and bool(found.starts)

    def _carry_out(self, found: Decided) -> None:
        self.result.moved += found.moved
        self.result.ended += found.ended
        self._reservations, self._claims = tuple(found.reservations), tuple(found.claims)
        for start in found.starts:
            self._start(start.workload_id, start.nodes, start.ends_by_s)
        for one in found.preemptions:
            running = self._running[one.workload_id]
            gone_by_s = self._now_s + GRACE_S
            natural_s = running.admitted_at_s + self._left_s[one.workload_id]
            self._running[one.workload_id] = replace(running, gone_by_s=gone_by_s)
            if gone_by_s < natural_s:  # else it has ended by itself before
                self._push_end(one.workload_id, gone_by_s)
                self.result.preempted += 1

    def _push_end(self, name: str, at_s: int) -> None:
        self._attempt[name] += 1
        heapq.heappush(self._events, (at_s, 1, name, self._attempt[name]))

    def _start(self, name: str, nodes: tuple[tuple[str, Size], ...], ends_by_s: int) -> None:
        one, queued = self._submits[int(name)], self._queued.pop(name)
        for node, size in nodes:
            free = add(self._nodes[node].free, size, -1)
            assert min(free) >= 0, (node, free)
            self._nodes[node] = replace(self._nodes[node], free=free)
        total, namespace = queued.total, queued.namespace
        self._note_wait(queued)
        self._running[name] = RunningWorkload(
            name, namespace, nodes, total, self._now_s, ends_by_s, one.is_low, GRACE_S
        )
        self._hold(one, total, 1)
        if not one.is_low:
            kept = [
                entry
                for entry in self._admitted[namespace]
                if entry[0] > self._now_s - self._rules.aging_s
            ]
            self._admitted[namespace] = [*kept, (self._now_s, self._share(queued))]
        if self._left_s[name] == one.runs_s:
            self.result.waits.append((one.gpus, self._now_s - one.at_s, one.person))
        self._push_end(name, self._now_s + self._left_s[name])

    def _share(self, queued: QueuedWorkload) -> int:
        return dominant_share(queued.total, self._capacity)

    def _note_wait(self, queued: QueuedWorkload) -> None:
        """The bound: QUEUE_AGING and the longest that might have run meanwhile, after its queueing or the last
        admission of its namespace that asked for as much. The older ones before it are not even counted."""
        share = self._share(queued)
        as_much = [at_s for at_s, other in self._admitted[queued.namespace] if other >= share]
        since_s = max([queued.queued_at_s, *as_much])
        if queued.priority == LOW or self._now_s - since_s <= self._rules.aging_s:
            return
        longest_s = max(
            [one.ends_by_s - one.admitted_at_s for one in self._running.values()]
            + [lasts_s for until_s, lasts_s in self._ran if until_s >= since_s]
        )
        bound_s = since_s + self._rules.aging_s + longest_s
        self.result.margins_s.append(bound_s - self._now_s)


def quantile(values: Sequence[int], part: float) -> int:
    """Of sorted values; 0 of none."""
    return values[min(len(values) - 1, int(len(values) * part))] if values else 0


def simulate(submits: Sequence[Submit], policy: str, people: People = TEAMS) -> Result:
    """The week under one policy."""
    return Week(submits, POLICIES[policy], people, only_head=policy == "fifo").run()
