"""A small cluster with a queue, in plain dictionaries: steps of people and of the cluster, and looks.

It carries each decision out as the engine does, and has `queue_judge` judge it before. Sizes of replicas
divide each other, so that counting what fits is exact.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from jobs.rules.queue import decision
from jobs.rules.queue.state import (
    HIGH,
    LOW,
    NORMAL,
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
    TeamState,
)

NAMES = ("gpu", "cpu", "memory", "pods", "nodeports")
NODE = {"gpu": 4, "cpu": 6, "memory": 6, "pods": 12, "nodeports": 0}
GRACES = (120, 600)
NAMESPACES = {"ada": "red", "bob": "red", "eve": "blue", "kim": "kim"}
POOLS = ("default", "fast")
FOREVER = 10**12

Amount = dict[str, int]


class BrokenRuleError(AssertionError):
    """A property does not hold; the text begins with its name."""


def require(holds: bool, name: str, *facts: object) -> None:
    if not holds:
        raise BrokenRuleError(f"{name}: {facts}")


def amount(gpu: int, cpu: int, pods: int = 1, ports: int = 0) -> Amount:
    return {"gpu": gpu, "cpu": cpu, "memory": cpu, "pods": pods, "nodeports": ports}


def plus(one: Amount, other: Amount, times: int = 1) -> Amount:
    return {name: one[name] + other[name] * times for name in NAMES}


def within(wanted: Amount, room: Amount) -> bool:
    return all(wanted[name] <= room[name] for name in NAMES if wanted[name] > 0)


def as_size(of: Amount) -> tuple[int, int, int, int, int]:
    return (of["gpu"], of["cpu"] * 1000, of["memory"] * 2**30, of["pods"], of["nodeports"])


def as_amount(size: tuple[int, ...]) -> Amount:
    gpu, cpu, memory, pods, ports = size
    return {
        "gpu": gpu,
        "cpu": cpu // 1000,
        "memory": memory >> 30,
        "pods": pods,
        "nodeports": ports,
    }


def times_in(room: Amount, each: Amount) -> int:
    """How many more pods of this size a node takes; NodePorts are no node's."""
    return max(0, min(room[n] // each[n] for n in NAMES[:4] if each[n] > 0))


@dataclass
class Work:
    """A workload, wherever it is."""

    name: str
    namespace: str
    priority: str
    roles: list[tuple[int, Amount]]
    pools: tuple[str, ...]
    lasts_s: int | None
    grace_s: int
    queued_s: int
    rank: int = 0
    not_before_s: int = 0
    obstacle: str = ""
    stops_from_s: int = 0
    image: str = ""  # one that cannot be pulled
    # while it runs
    nodes: dict[str, Amount] = field(default_factory=dict)
    admitted_s: int = 0
    ends_by_s: int | None = None
    gone_by_s: int | None = None
    real_end_s: int = FOREVER
    was_preempted: bool = False

    @property
    def total(self) -> Amount:
        found = amount(0, 0, 0)
        for count, each in self.roles:
            found = plus(found, each, count)
        return found


@dataclass
class Node:
    pool: str
    is_open: bool = True
    hold_s: int | None = None
    foreign: int = 0  # GPUs and CPUs of pods of others


@dataclass
class Emptied:
    """Room for which `low` was stopped: nobody else starts there until then."""

    nodes: tuple[str, ...]
    gone_s: int
    victims: set[str]
    is_excused: bool = False


class World:
    """Steps that people and the cluster take, each followed by looks that are judged."""

    def __init__(self, judge: "Callable[[World, Decided], None]") -> None:
        self._judge = judge
        self.now_s = 1000
        self.nodes = {f"n{i}": Node(POOLS[i // 3]) for i in range(4)}
        self.queued: dict[str, Work] = {}
        self.running: dict[str, Work] = {}
        self.suspended: dict[str, Work] = {}
        self.quotas = {name: amount(7, 14, 20, 2) for name in NAMESPACES}
        self.borrowing = amount(4, 6, 10)
        self.admissions: dict[str, list[tuple[int, int]]] = {name: [] for name in NAMESPACES}
        self.reservations: tuple[Reservation, ...] = ()
        self.claims: tuple[RoomClaim, ...] = ()
        self.promises: dict[str, int] = {}
        self.emptied: dict[str, Emptied] = {}
        self.tries_from_s: dict[str, int] = {}  # by image
        self.is_fair = False
        self.look_at_s = UNKNOWN
        self.counts: dict[str, int] = {}
        self._made = 0

    # --- steps ---
    def submit(self, dice: random.Random) -> None:
        if len(self.queued) > 14:
            return
        self._made += 1
        kind = dice.random()
        each = dice.choice([amount(1, 1), amount(2, 2), amount(4, 4), amount(0, 1)])
        roles = [(dice.choice([1, 1, 1, 2, 3]), each)]
        if kind < 0.15:  # a notebook
            roles = [(1, amount(dice.choice([0, 1]), 1, 1, 1))]
        elif kind < 0.35:
            roles.append((dice.choice([1, 2]), amount(0, 1)))
        lasts_s = dice.choice([None, 700, 1500, 3600, 9000, 40000])
        self.queued[f"w{self._made:04}"] = Work(
            f"w{self._made:04}",
            dice.choice(list(NAMESPACES)),
            NORMAL if kind < 0.15 else dice.choice([LOW, LOW, NORMAL, NORMAL, NORMAL, HIGH]),
            roles,
            dice.choice([("default",), ("default",), ("fast",), ("default", "fast")]),
            None if kind < 0.15 else lasts_s,
            dice.choice(GRACES),
            self.now_s,
        )

    def wait(self, dice: random.Random) -> None:
        """Time goes by, with a look wherever something ends or was announced."""
        until_s = self.now_s + dice.choice([1, 60, 120, 600, 3000, 12000, 30000])
        while True:
            ends = [self._end_of(work) for work in self.running.values()]
            tries = [at_s for at_s in self.tries_from_s.values() if at_s > self.now_s]
            then_s = min([*ends, *tries, self.look_at_s, until_s])
            self.now_s = max(self.now_s, then_s)
            for work in [w for w in self.running.values() if self._end_of(w) <= self.now_s]:
                self._leave(work)
            if self.now_s >= until_s:
                return
            self.look()

    def _end_of(self, work: Work) -> int:
        return min(work.real_end_s, FOREVER if work.gone_by_s is None else work.gone_by_s)

    def _leave(self, work: Work) -> None:
        del self.running[work.name]
        if work.gone_by_s is not None and work.gone_by_s < work.real_end_s:
            work.nodes, work.gone_by_s, work.real_end_s = {}, None, FOREVER
            self.queued[work.name] = work

    def end(self, dice: random.Random) -> None:
        if self.running:
            self._leave_for_good(dice.choice(list(self.running.values())))

    def _leave_for_good(self, work: Work) -> None:
        work.gone_by_s = None
        del self.running[work.name]

    def withdraw(self, dice: random.Random) -> None:
        """The scheduler did not place it: back into the queue, with back-off."""
        young = [w for w in self.running.values() if w.gone_by_s is None]
        if not young:
            return
        work = dice.choice(young)
        del self.running[work.name]
        work.nodes, work.real_end_s = {}, FOREVER
        work.not_before_s = self.now_s + dice.choice([30, 900])
        work.stops_from_s = self.now_s + 3600
        self.queued[work.name] = work

    def suspend(self, dice: random.Random) -> None:
        if self.queued:
            work = self.queued.pop(dice.choice(list(self.queued)))
            self.suspended[work.name] = work

    def resume(self, dice: random.Random) -> None:
        if self.suspended:
            work = self.suspended.pop(dice.choice(list(self.suspended)))
            work.queued_s = self.now_s
            self.queued[work.name] = work

    def guard(self, dice: random.Random) -> None:
        if self.queued:
            work = self.queued[dice.choice(list(self.queued))]
            work.obstacle = "" if work.obstacle else "guarded"
            self._excuse(owner=work.name)

    def break_image(self, dice: random.Random) -> None:
        """Some have an image that cannot be pulled, or that can be again."""
        image = dice.choice(["x", "y"])
        for work in self.queued.values():
            if dice.random() < 0.4:
                work.image = "" if work.image == image else image
                self._excuse(owner=work.name)

    def is_guarded(self, work: Work) -> bool:
        return self.tries_from_s.get(work.image, 0) > self.now_s

    def reorder(self, dice: random.Random) -> None:
        if self.queued:
            self.queued[dice.choice(list(self.queued))].rank = dice.choice([-1, 0, 1])

    def lose_node(self, dice: random.Random) -> None:
        node = self.nodes[name := dice.choice(list(self.nodes))]
        node.is_open = not node.is_open
        self._excuse(node=name)

    def foreign_pod(self, dice: random.Random) -> None:
        node = self.nodes[name := dice.choice(list(self.nodes))]
        node.foreign = dice.choice([0, 0, 1])
        self._excuse(node=name)

    def hold(self, dice: random.Random) -> None:
        node = self.nodes[name := dice.choice(list(self.nodes))]
        node.hold_s = None if node.hold_s else self.now_s + dice.choice([600, 5000, 50000])
        self._excuse(node=name, held_s=node.hold_s)

    def change_quota(self, dice: random.Random) -> None:
        name = dice.choice(list(NAMESPACES))
        self.quotas[name] = amount(dice.choice([2, 4, 7, 9]), 14, 20, 2)
        for work in [w for w in self.queued.values() if w.namespace == name]:
            self._excuse(owner=work.name)

    def share(self, dice: random.Random) -> None:
        self.is_fair = dice.random() < 0.5

    def _excuse(self, node: str = "", owner: str = "", held_s: int | None = 0) -> None:
        """An event that may move a promise.

        Args:
            held_s: the node is held from then on, or not any more; else what stands on it is lost at once.
        """
        kept = [(one.workload_id, one.room, one.starts_at_s) for one in self.reservations]
        kept += [(one.workload_id, one.room, one.until_s) for one in self.claims]
        for name, room, starts_at_s in kept:
            work = self.queued.get(name)
            is_before = held_s is None or (
                work is not None
                and work.lasts_s is not None
                and starts_at_s + work.lasts_s <= held_s
            )
            is_there = any(one == node for one, _ in room) and not is_before
            if name == owner or is_there:
                self.promises.pop(name, None)
        for name, emptied in self.emptied.items():
            emptied.is_excused |= name == owner or node in emptied.nodes

    # --- a look ---
    def look(self) -> None:
        for _ in range(20):
            before = self.state()
            found = decision.decide(before, QueueRules(fair_share=self.is_fair, most=50))
            self._judge(self, found)
            self._carry_out(found)
            if found.look_at_s != self.now_s:
                return
        raise BrokenRuleError("settles: the looks never end")

    def free(self, name: str) -> Amount:
        node = self.nodes[name]
        found = plus(NODE, amount(node.foreign, node.foreign, node.foreign), -1)
        for work in self.running.values():
            if name in work.nodes:
                found = plus(found, work.nodes[name], -1)
        return found

    def held(self, namespace: str, *, with_low: bool) -> Amount:
        found = amount(0, 0, 0)
        for work in self.running.values():
            if work.namespace == namespace and (with_low or work.priority != LOW):
                found = plus(found, work.total)
        return found

    def ceiling(self, namespace: str) -> Amount:
        return plus(self.quotas[namespace], self.borrowing)

    def state(self) -> QueueState:
        whole = amount(0, 0, 0)
        for _ in self.nodes:
            whole = plus(whole, NODE)
        return QueueState(
            self.now_s,
            as_size(whole),
            tuple(
                NodeState(
                    name,
                    node.pool,
                    as_size(self.free(name)),
                    is_open=node.is_open,
                    hold_from_s=UNKNOWN if node.hold_s is None else node.hold_s,
                )
                for name, node in self.nodes.items()
            ),
            tuple(
                RunningWorkload(
                    work.name,
                    work.namespace,
                    tuple((name, as_size(of)) for name, of in work.nodes.items()),
                    as_size(work.total),
                    work.admitted_s,
                    UNKNOWN if work.ends_by_s is None else work.ends_by_s,
                    work.priority == LOW,
                    work.grace_s,
                    UNKNOWN if work.gone_by_s is None else work.gone_by_s,
                )
                for work in self.running.values()
            ),
            tuple(
                QueuedWorkload(
                    work.name,
                    work.namespace,
                    work.queued_s,
                    tuple(RoleReplicas(count, as_size(each)) for count, each in work.roles),
                    work.pools,
                    work.priority,
                    work.rank,
                    UNKNOWN if work.lasts_s is None else work.lasts_s,
                    work.not_before_s,
                    work.obstacle
                    or ("image" if self.is_guarded(work) else "")
                    or ("" if self.can_ever(work) else "never"),
                    work.stops_from_s,
                    trials=(work.image,) if work.image else (),
                )
                for work in self.queued.values()
            ),
            {
                name: NamespaceState(
                    name,
                    team,
                    hard=as_size(self.quotas[name]),
                    left=as_size(plus(self.quotas[name], self.held(name, with_low=False), -1)),
                    low_left=as_size(plus(self.ceiling(name), self.held(name, with_low=True), -1)),
                    held=as_size(self.held(name, with_low=False)),
                    admitted=tuple(self.admissions[name]),
                )
                for name, team in NAMESPACES.items()
            },
            {"red": TeamState("red"), "blue": TeamState("blue"), "kim": TeamState("kim")},
            self.reservations,
            self.claims,
        )

    def can_ever(self, work: Work) -> bool:
        limit = self.quotas[work.namespace]
        return within(work.total, limit if work.priority != LOW else self.ceiling(work.namespace))

    def _carry_out(self, found: Decided) -> None:
        for start in found.starts:
            work = self.queued.pop(start.workload_id)
            work.nodes = {name: as_amount(size) for name, size in start.nodes}
            work.admitted_s = self.now_s
            work.ends_by_s = None if work.lasts_s is None else self.now_s + work.lasts_s
            # A hash of the name decides how it ends, so that steps can be played again.
            early = (sum(map(ord, work.name)) * 7919) % 10
            work.real_end_s = FOREVER
            if work.ends_by_s is not None:
                work.real_end_s = self.now_s + max(
                    1, (work.lasts_s or 0) * min(10, early + 3) // 10
                )
            self.running[work.name] = work
            self.promises.pop(work.name, None)
            self.emptied.pop(work.name, None)
            share = work.total["gpu"] * 10**9 // 16
            self.admissions[work.namespace].append((self.now_s, share))
            if work.image:
                self.tries_from_s[work.image] = self.now_s + 600
                for other in [w for w in self.queued.values() if w.image == work.image]:
                    self._excuse(owner=other.name)
                work.image = ""
        for one in found.preemptions:
            work = self.running[one.workload_id]
            work.gone_by_s = self.now_s + work.grace_s
        self.reservations, self.claims = tuple(found.reservations), tuple(found.claims)
        self.look_at_s = found.look_at_s if found.look_at_s > self.now_s else UNKNOWN
        for name, count in (
            ("starts", len(found.starts)),
            ("stops", len(found.preemptions)),
            ("claims", len(found.claims)),
            ("reserved", len(found.reservations)),
        ):
            self.counts[name] = self.counts.get(name, 0) + count


STEPS: dict[str, tuple[int, Callable[[World, random.Random], None]]] = {
    "submit": (40, World.submit),
    "wait": (30, World.wait),
    "end": (8, World.end),
    "withdraw": (3, World.withdraw),
    "suspend": (2, World.suspend),
    "resume": (3, World.resume),
    "guard": (2, World.guard),
    "reorder": (2, World.reorder),
    "lose_node": (2, World.lose_node),
    "foreign_pod": (2, World.foreign_pod),
    "hold": (2, World.hold),
    "change_quota": (3, World.change_quota),
    "share": (1, World.share),
    "break_image": (1, World.break_image),
}
