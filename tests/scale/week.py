"""A simulated week: 125 nodes of 8 GPUs, 40 people, a saturated cluster, judged by the product's decision.

`python -m tests.scale.week [SEED ...]` prints a table. There is no code for order, fit, share or
reservation here: `jobs.rules.queue` has it. The trace has the shape of the public ones (Jeon et al.,
*Analysis of Large-Scale Multi-Tenant GPU Clusters*, ATC 2019; Hu et al., *Characterization and Prediction
of Deep Learning Workloads*, SC 2021): most trainings have one GPU, most GPU time goes to large ones,
durations are lognormal, few people submit most, half have a deadline.
"""

import heapq
import math
import random
import sys
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
CAPACITY: Size = add(NOTHING, add((0, 0, 0, 110, 0), GPU, GPUS), NODES)

NEVER_AGED = UNKNOWN // 2
POLICIES = {
    "queue": QueueRules(fair_share=True),
    "fair share alone": QueueRules(fair_share=True, aging_s=NEVER_AGED, reserves=False),
    "no reservation": QueueRules(fair_share=True, reserves=False),
    "fifo": QueueRules(aging_s=NEVER_AGED, reserves=False),
}
CLASSES = {"1-4": (1, 4), "8": (8, 8), "16-32": (16, 32), "64-128": (64, 128)}


@dataclass(frozen=True)
class Submit:
    """A training of the trace: when, how many GPUs, how long it runs, its deadline, whose."""

    at_s: int
    gpus: int
    runs_s: int
    deadline_s: int
    person: int
    is_low: bool = False


def trace(
    seed: int, *, load: float = 1.05, with_deadline: float = 0.5, low: float = 0.0
) -> list[Submit]:
    """A week of arrivals; `load` is what is asked of the GPUs, `with_deadline` and `low` are parts."""
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
        has_deadline = dice.random() < with_deadline
        deadline_s = math.ceil(runs_s * dice.uniform(1.1, 3)) if has_deadline else UNKNOWN
        person = dice.choices(range(PEOPLE), weights)[0]
        is_low = low > 0 and dice.random() < low
        found.append(Submit(int(at_s), gpus, runs_s, deadline_s, person, is_low))
    return found


@dataclass
class Result:
    """What came of it: waits in seconds with GPUs and person, and promises that moved."""

    waits: list[tuple[int, int, int]] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    ended: list[tuple[str, str]] = field(default_factory=list)
    gpu_s: int = 0
    preempted: int = 0
    looks: int = 0
    cpu_s: float = 0.0
    longest_look_s: float = 0.0
    beyond_bound: list[str] = field(default_factory=list)

    @property
    def use(self) -> float:
        return self.gpu_s / (WEEK_S * NODES * GPUS)

    def of(self, name: str) -> list[int]:
        least, most = CLASSES[name]
        return sorted(wait_s for gpus, wait_s, _ in self.waits if least <= gpus <= most)


class Week:
    """The cluster on a virtual clock."""

    def __init__(self, submits: Sequence[Submit], rules: QueueRules, *, only_head: bool) -> None:
        self._submits = submits
        self._rules = rules
        self._only_head = only_head
        self._now_s = 0
        self._nodes = {
            f"node{i:03}": NodeState(f"node{i:03}", "default", add((0, 0, 0, 110, 0), GPU, GPUS))
            for i in range(NODES)
        }
        self._queued: dict[str, QueuedWorkload] = {}
        self._running: dict[str, RunningWorkload] = {}
        self._left_s = {str(i): one.runs_s for i, one in enumerate(submits)}
        self._usage = [0] * PEOPLE
        self._usage_at_s = 0
        self._held = [NOTHING] * PEOPLE
        self._shares = [0] * PEOPLE
        self._admitted: list[list[tuple[int, int]]] = [[] for _ in range(PEOPLE)]
        self._reservations: tuple[Reservation, ...] = ()
        self._claims: tuple[RoomClaim, ...] = ()
        self._events: list[tuple[int, int, str, int]] = []
        self._attempt: dict[str, int] = defaultdict(int)
        self._busy = 0
        self._busy_since_s = 0
        self.result = Result()

    def run(self) -> Result:
        self._events = [(one.at_s, 0, str(i), 0) for i, one in enumerate(self._submits)]
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

    def _count(self, gpus: int) -> None:
        until_s = min(self._now_s, WEEK_S)
        self.result.gpu_s += self._busy * max(0, until_s - self._busy_since_s)
        self._busy_since_s = max(until_s, self._busy_since_s)
        self._busy += gpus

    def _submit(self, name: str) -> None:
        one = self._submits[int(name)]
        each = min(one.gpus, GPUS)
        role = RoleReplicas(one.gpus // each, add((0, 0, 0, 1, 0), GPU, each))
        self._queued[name] = QueuedWorkload(
            name,
            f"person{one.person}",
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
        self._count(-one.gpus)
        if not one.is_low:
            self._hold(one.person, running.total, -1)
        if running.is_being_stopped:
            self._left_s[name] -= running.gone_by_s - running.admitted_at_s
            self._submit(name)

    def _hold(self, person: int, amount: Size, times: int) -> None:
        self._age_usage()
        self._held[person] = add(self._held[person], amount, times)
        self._shares[person] = dominant_share(self._held[person], CAPACITY)

    def _age_usage(self) -> None:
        elapsed_s = self._now_s - self._usage_at_s
        if elapsed_s:
            self._usage = [
                usage_after(usage, share, elapsed_s)
                for usage, share in zip(self._usage, self._shares, strict=True)
            ]
            self._usage_at_s = self._now_s

    def _state(self, queued: Iterable[QueuedWorkload]) -> QueueState:
        self._age_usage()
        namespaces = {
            f"person{i}": NamespaceState(
                f"person{i}",
                f"person{i}",
                held=self._held[i],
                usage=self._usage[i],
                admitted=tuple(self._admitted[i]),
            )
            for i in range(PEOPLE)
        }
        return QueueState(
            self._now_s,
            CAPACITY,
            tuple(self._nodes.values()),
            tuple(self._running.values()),
            tuple(queued),
            namespaces,
            {},
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
            if gone_by_s < natural_s:
                self._running[one.workload_id] = replace(running, gone_by_s=gone_by_s)
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
        total = queued.total
        self._running[name] = RunningWorkload(
            name, queued.namespace, nodes, total, self._now_s, ends_by_s, one.is_low, GRACE_S
        )
        self._count(one.gpus)
        if not one.is_low:
            self._hold(one.person, total, 1)
            kept = [
                entry
                for entry in self._admitted[one.person]
                if entry[0] > self._now_s - self._rules.aging_s
            ]
            self._admitted[one.person] = [*kept, (self._now_s, dominant_share(total, CAPACITY))]
        if self._left_s[name] == one.runs_s:
            self.result.waits.append((one.gpus, self._now_s - one.at_s, one.person))
        self._push_end(name, self._now_s + self._left_s[name])


def quantile(values: Sequence[int], part: float) -> int:
    """Of sorted values; 0 of none."""
    return values[min(len(values) - 1, int(len(values) * part))] if values else 0


def simulate(submits: Sequence[Submit], policy: str) -> Result:
    """The week under one policy."""
    return Week(submits, POLICIES[policy], only_head=policy == "fifo").run()


def line(policy: str, result: Result) -> str:
    waits = "  ".join(
        f"{name}: {quantile(of, 0.95) / 60:.0f} min / {max(of, default=0) / 3600:.1f} h"
        for name in CLASSES
        for of in [result.of(name)]
    )
    return (
        f"{policy:17} use {result.use:.3f} | {waits} | {result.looks} looks, {result.cpu_s:.0f} s, longest "
        f"{result.longest_look_s * 1000:.0f} ms, preempted {result.preempted}, moved {len(result.moved)}, "
        f"ended {len(result.ended)}"
    )


if __name__ == "__main__":
    for seed in [int(word) for word in sys.argv[1:]] or [3]:
        week = trace(seed)
        print("seed", seed, len(week), "trainings", flush=True)
        for policy in POLICIES:
            print(line(policy, simulate(week, policy)), flush=True)
