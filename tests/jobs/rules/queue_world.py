"""A small cluster with a queue, and the judge of what is decided for it: it shares no code with `jobs.rules.queue`.

The world holds plain dictionaries, carries each decision out as the engine does, and says in
`BrokenRule` which property a decision broke. Where packing matters its sizes divide each other, so that
counting what fits is exact.
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
    NodeClaim,
    NodeState,
    QueuedWorkload,
    QueueRules,
    QueueState,
    Reservation,
    RoleRequest,
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


class BrokenRule(AssertionError):
    """A property does not hold; the text begins with its name."""


def require(holds: bool, name: str, *facts: object) -> None:
    if not holds:
        raise BrokenRule(f"{name}: {facts}")


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
    return {"gpu": gpu, "cpu": cpu // 1000, "memory": memory >> 30, "pods": pods, "nodeports": ports}


def times_in(room: Amount, each: Amount) -> int:
    """How many more pods of this size a node takes; NodePorts are no node's."""
    return max(0, min(room[n] // each[n] for n in NAMES[:4] if each[n] > 0))


@dataclass
class Work:
    """A workload, wherever it is."""

    name: str
    namespace: str
    priority: int
    roles: list[tuple[int, Amount]]
    pools: tuple[str, ...]
    lasts_s: int | None
    grace_s: int
    queued_s: int
    rank: int = 0
    not_before_s: int = 0
    obstacle: str = ""
    stops_from_s: int = 0
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

    def __init__(self) -> None:
        self.now_s = 1000
        self.nodes = {f"n{i}": Node(POOLS[i // 3]) for i in range(4)}
        self.queued: dict[str, Work] = {}
        self.running: dict[str, Work] = {}
        self.suspended: dict[str, Work] = {}
        self.quotas = {name: amount(7, 14, 20, 2) for name in NAMESPACES}
        self.borrowing = amount(4, 6, 10)
        self.admissions: dict[str, list[tuple[int, int]]] = {name: [] for name in NAMESPACES}
        self.reservations: tuple[Reservation, ...] = ()
        self.claims: tuple[NodeClaim, ...] = ()
        self.promises: dict[str, int] = {}
        self.emptied: dict[str, Emptied] = {}
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
            then_s = min([*ends, self.look_at_s, until_s])
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
        node.hold_s = None if node.hold_s else self.now_s + dice.choice([600, 5000])
        self._excuse(node=name)

    def change_quota(self, dice: random.Random) -> None:
        name = dice.choice(list(NAMESPACES))
        self.quotas[name] = amount(dice.choice([2, 4, 7, 9]), 14, 20, 2)
        for work in [w for w in self.queued.values() if w.namespace == name]:
            self._excuse(owner=work.name)

    def share(self, dice: random.Random) -> None:
        self.is_fair = dice.random() < 0.5

    def _excuse(self, node: str = "", owner: str = "") -> None:
        """An event that may move a promise."""
        for one in self.reservations:
            if one.workload_id == owner or any(name == node for name, _ in one.room):
                self.promises.pop(one.workload_id, None)
        for name, emptied in self.emptied.items():
            emptied.is_excused |= name == owner or node in emptied.nodes

    # --- a look ---
    def look(self) -> None:
        for _ in range(20):
            before = self.state()
            found = decision.decide(before, QueueRules(fair_share=self.is_fair, most=50))
            Judge(self, found).judge()
            self._carry_out(found)
            if found.look_at_s != self.now_s:
                return
        raise BrokenRule("settles: the looks never end")

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
                    tuple(RoleRequest(count, as_size(each)) for count, each in work.roles),
                    work.pools,
                    work.priority,
                    work.rank,
                    UNKNOWN if work.lasts_s is None else work.lasts_s,
                    work.not_before_s,
                    work.obstacle or ("" if self.can_ever(work) else "never"),
                    work.stops_from_s,
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
                work.real_end_s = self.now_s + max(1, (work.lasts_s or 0) * min(10, early + 3) // 10)
            self.running[work.name] = work
            self.promises.pop(work.name, None)
            self.emptied.pop(work.name, None)
            share = work.total["gpu"] * 10**9 // 16
            self.admissions[work.namespace].append((self.now_s, share))
        for one in found.preemptions:
            work = self.running[one.workload_id]
            work.gone_by_s = self.now_s + work.grace_s
        self.reservations, self.claims = tuple(found.reservations), tuple(found.claims)
        self.look_at_s = found.look_at_s if found.look_at_s > self.now_s else UNKNOWN
        for name, count in (("starts", len(found.starts)), ("stops", len(found.preemptions)),
                            ("claims", len(found.claims)), ("reserved", len(found.reservations))):
            self.counts[name] = self.counts.get(name, 0) + count


class Judge:
    """The properties, of one look: the world as it was when the look began, and what was found."""

    def __init__(self, world: World, found: Decided) -> None:
        self._world = world
        self._found = found
        self._now_s = world.now_s
        self._free = {name: world.free(name) for name in world.nodes}
        self._started = {one.workload_id: one for one in found.starts}

    def judge(self) -> None:
        self._claims()  # those of before: what starts in the look of a preemption comes first
        self._stops()
        self._starts()
        self._quotas()
        self._promises()
        self._nobody_is_passed_over()

    # --- what starts is whole, where it may be, and within quota and node ---
    def _starts(self) -> None:
        world = self._world
        for name, start in self._started.items():
            work = world.queued[name]
            require(not work.obstacle and work.not_before_s <= self._now_s, "hindered", name)
            placed = {node: as_amount(size) for node, size in start.nodes}
            pools = {world.nodes[node].pool for node in placed}
            require(len(pools) == 1 and pools <= set(work.pools), "pools", name, placed)
            together = amount(0, 0, 0)
            for node, of in placed.items():
                together = plus(together, of)
                self._free[node] = plus(self._free[node], of, -1)
                require(within({**of, "nodeports": 0}, plus(self._free[node], of)), "nodes", name, node)
                state = world.nodes[node]
                require(state.is_open, "closed nodes", name, node)
                ends_s = None if work.lasts_s is None else self._now_s + work.lasts_s
                is_before = ends_s is not None and state.hold_s is not None and ends_s <= state.hold_s
                require(state.hold_s is None or is_before, "held nodes", name, node)
            require(together == {**work.total, "nodeports": 0}, "whole", name, placed)
            require(_splits(list(placed.values()), work.roles), "whole", name, placed)

    def _quotas(self) -> None:
        world = self._world
        for namespace in NAMESPACES:
            new = [w for w in map(world.queued.get, self._started) if w and w.namespace == namespace]
            normal, everything = world.held(namespace, with_low=False), world.held(namespace, with_low=True)
            wants_normal, wants = amount(0, 0, 0), amount(0, 0, 0)
            for work in new:
                wants = plus(wants, work.total)
                if work.priority != LOW:
                    wants_normal = plus(wants_normal, work.total)
            quota, ceiling = world.quotas[namespace], world.ceiling(namespace)
            require(within(wants_normal, plus(quota, normal, -1)), "quota", namespace, new)
            require(within(wants, plus(ceiling, everything, -1)), "quota with low", namespace, new)

    # --- only `low` is stopped, and for somebody ---
    def _stops(self) -> None:
        world = self._world
        claims = {one.workload_id: one for one in self._found.claims}
        victims: dict[str, set[str]] = {}
        for one in self._found.preemptions:
            work = world.running[one.workload_id]
            require(work.priority == LOW and work.gone_by_s is None, "only low", one)
            if one.beneficiary:
                reserved = {kept.workload_id for kept in self._found.reservations}
                require(one.beneficiary in claims.keys() | reserved, "kept for whom", one)
                require(world.queued[one.beneficiary].priority != LOW, "only low", one)
                victims.setdefault(one.beneficiary, set()).add(work.name)
            else:
                held = [world.nodes[node].hold_s for node in work.nodes]
                require(any(at is not None and at - work.grace_s <= self._now_s for at in held), "for a hold", one)
        known = {one.workload_id for one in world.claims}
        for name, claim in claims.items():
            if name in known:
                continue
            ends = {w.name: w.gone_by_s for w in world.running.values() if w.gone_by_s and w.priority == LOW}
            ends |= {v: self._now_s + world.running[v].grace_s for v in victims.get(name, set())}
            nodes = tuple(node for node, _ in claim.room)
            due = [r.starts_at_s for r in self._found.reservations if r.workload_id == name]
            is_due = bool(due) and {r for r, _ in claim.room} == {
                node for r in self._found.reservations if r.workload_id == name for node, _ in r.room
            } and self._now_s + 600 >= due[0]
            last_s = max([at for at in [*ends.values(), *(due if is_due else [])] if at], default=self._now_s)
            world.emptied[name] = Emptied(nodes, last_s, victims.get(name, set()))

    def _claims(self) -> None:
        """The beneficiary is the next that is admitted to those nodes, within one grace."""
        world = self._world
        for owner, emptied in list(world.emptied.items()):
            if owner not in world.queued:
                del world.emptied[owner]
                continue
            if emptied.is_excused:
                continue
            work = world.queued[owner]
            if work.obstacle or work.not_before_s > self._now_s:
                emptied.is_excused = True
                continue
            for name, start in self._started.items():
                if name == owner:
                    break  # whoever follows may use what it leaves
                on = {node for node, _ in start.nodes} & set(emptied.nodes)
                require(not on, "beneficiary next", owner, name, on)
            if self._now_s >= emptied.gone_s:
                require(owner in self._started, "within one grace", owner, emptied)

    # --- promises ---
    def _promises(self) -> None:
        world = self._world
        now = {one.workload_id: one.starts_at_s for one in self._found.reservations}
        for name, promised_s in list(world.promises.items()):
            if name not in world.queued:
                del world.promises[name]
            elif name not in self._started:
                at_s = now.get(name)
                require(at_s is not None and at_s <= promised_s, "promise", name, promised_s, at_s)
                require(self._now_s <= promised_s, "promise", name, promised_s, self._now_s)
        world.promises |= {name: at_s for name, at_s in now.items() if at_s != UNKNOWN}
        for pool in POOLS:
            owners = {
                one.workload_id
                for one in self._found.reservations
                if any(world.nodes[node].pool == pool for node, _ in one.room)
            }
            require(len(owners) <= 1, "one reservation for each pool", owners)

    # --- what fits is not left waiting ---
    def _nobody_is_passed_over(self) -> None:
        world = self._world
        waiting = [work for work in world.queued.values() if work.name not in self._started]
        claimed = {one.workload_id for one in self._found.claims}
        ready = [
            work
            for work in waiting
            if not work.obstacle
            and work.not_before_s <= self._now_s
            and world.can_ever(work)
            and work.name not in claimed
        ]
        rooms = {work.name: self._quota_room(work) for work in ready}
        lacking: dict[tuple[str, bool], set[str]] = {}
        for work in ready:
            room = rooms[work.name][0 if work.priority != LOW else 1]
            short = {n for n in NAMES if work.total[n] > 0 and work.total[n] > room[n]}
            lacking.setdefault((work.namespace, work.priority == LOW), set()).update(short)
        for work in ready:
            if any(work.total[n] > 0 for n in lacking[work.namespace, work.priority == LOW]):
                continue
            ceiling = rooms[work.name][1]
            fits = self._fits(work, self._free, is_late=True)
            require(not (within(work.total, ceiling) and fits), "first that fits starts", work)
            if work.priority == LOW or work.stops_from_s > self._now_s:
                continue
            stopped = {one.workload_id for one in self._found.preemptions}
            low = [w for w in world.running.values()
                   if w.priority == LOW and w.gone_by_s is None and w.name not in stopped]
            room = dict(self._free)
            for victim in low:
                for node, of in victim.nodes.items():
                    room[node] = plus(room[node], of)
                if victim.namespace == work.namespace:
                    ceiling = plus(ceiling, victim.total)
            fits = self._fits(work, room, is_late=False)
            require(not (within(work.total, ceiling) and fits), "low delays nobody", work)

    def _quota_room(self, work: Work) -> tuple[Amount, Amount]:
        """Of its namespace's quota and ceiling, less what is kept there for others."""
        world = self._world
        left = plus(world.quotas[work.namespace], world.held(work.namespace, with_low=False), -1)
        ceiling = plus(world.ceiling(work.namespace), world.held(work.namespace, with_low=True), -1)
        for name in self._started:
            if (other := world.queued[name]).namespace == work.namespace:
                ceiling = plus(ceiling, other.total, -1)
                left = plus(left, other.total, -1) if other.priority != LOW else left
        owners = {one.workload_id for one in [*self._found.reservations, *self._found.claims]}
        for name in owners - {work.name}:
            if (other := world.queued[name]).namespace == work.namespace:
                left, ceiling = plus(left, other.total, -1), plus(ceiling, other.total, -1)
        return left, ceiling

    def _fits(self, work: Work, room: dict[str, Amount], *, is_late: bool) -> bool:
        """Whether all of it fits in one pool, off what is claimed, held or reserved for others.

        Args:
            is_late: reserved nodes are not counted at all; else those that it leaves well in time are.
        """
        world = self._world
        off = {n for one in self._found.claims if one.workload_id != work.name for n, _ in one.room}
        slack_s = 0 if is_late else 660
        ends_s = None if work.lasts_s is None else self._now_s + work.lasts_s + slack_s
        for one in self._found.reservations:
            is_early = ends_s is not None and one.starts_at_s != UNKNOWN and ends_s <= one.starts_at_s
            if one.workload_id != work.name and (is_late or not is_early):
                off |= {node for node, _ in one.room}
        for pool in work.pools:
            rooms = [
                room[name]
                for name, node in world.nodes.items()
                if node.pool == pool
                and node.is_open
                and name not in off
                and (node.hold_s is None or (ends_s is not None and ends_s <= node.hold_s))
            ]
            if _counts(rooms, work.roles):
                return True
        return False


def _counts(rooms: list[Amount], roles: list[tuple[int, Amount]]) -> bool:
    """Whether all replicas find room; the larger ones first, which is exact where sizes divide each other."""
    rooms = [dict(one) for one in rooms]
    for count, each in sorted(roles, key=lambda role: (-role[1]["gpu"], -role[1]["cpu"])):
        for room in rooms:
            here = min(count, times_in(room, each))
            count -= here
            for name in NAMES[:4]:
                room[name] -= each[name] * here
        if count:
            return False
    return True


def _splits(placed: list[Amount], roles: list[tuple[int, Amount]]) -> bool:
    """Whether what the nodes give can be divided into exactly these replicas."""
    if not roles:
        return all(of[name] == 0 for of in placed for name in NAMES)
    (count, each), rest = roles[0], roles[1:]
    if count == 0:
        return _splits(placed, rest)
    for i, of in enumerate(placed):
        less = {name: of[name] - each[name] * (name != "nodeports") for name in NAMES}
        if all(less[name] >= 0 for name in NAMES):
            if _splits([*placed[:i], less, *placed[i + 1 :]], [(count - 1, each), *rest]):
                return True
    return False


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
}
