"""The judge of the queue's decisions; it shares no code with `jobs.rules.queue`.

`BrokenRuleError` says which property a decision broke.
"""

from jobs.rules.queue.state import LOW, UNKNOWN, Decided
from tests.jobs.rules.queue_world import (
    NAMES,
    NAMESPACES,
    POOLS,
    Amount,
    Emptied,
    Work,
    World,
    amount,
    as_amount,
    plus,
    require,
    times_in,
    within,
)


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
        self._leaves()
        self._starts()
        self._quotas()
        self._promises()
        self._nobody_is_passed_over()

    # --- what starts is whole, where it may be, and within quota and node ---
    def _starts(self) -> None:
        world = self._world
        for name, start in self._started.items():
            work = world.queued[name]
            require(not self._is_hindered(work), "hindered", name)
            others = [o for o in self._triers(work.image) if o != name]
            require(not others, "one tries", name, others)
            placed = {node: as_amount(size) for node, size in start.nodes}
            pools = {world.nodes[node].pool for node in placed}
            require(len(pools) == 1 and pools <= set(work.pools), "pools", name, placed)
            together = amount(0, 0, 0)
            ends_s = None if work.lasts_s is None else self._now_s + work.lasts_s
            for node, state in world.nodes.items():
                is_outstayed = state.hold_s is not None and (
                    ends_s is None or ends_s > state.hold_s
                )
                require(node in start.avoid or not is_outstayed, "held nodes", name, node)
            for node, of in placed.items():
                together = plus(together, of)
                self._free[node] = plus(self._free[node], of, -1)
                require(
                    within({**of, "nodeports": 0}, plus(self._free[node], of)), "nodes", name, node
                )
                state = world.nodes[node]
                require(state.is_open, "closed nodes", name, node)
                require(node not in start.avoid, "held nodes", name, node)
            require(together == {**work.total, "nodeports": 0}, "whole", name, placed)
            require(_splits(list(placed.values()), work.roles), "whole", name, placed)

    def _is_hindered(self, work: Work) -> bool:
        is_guarded = bool(work.obstacle) or self._world.is_guarded(work)
        return is_guarded or work.not_before_s > self._now_s

    def _triers(self, image: str) -> set[str]:
        """Who has started with this image, or has nodes emptied for it."""
        names = {*self._started, *(one.workload_id for one in self._found.claims)}
        return {name for name in names if image and self._world.queued[name].image == image}

    def _quotas(self) -> None:
        world = self._world
        for namespace in NAMESPACES:
            new = [
                w for w in map(world.queued.get, self._started) if w and w.namespace == namespace
            ]
            normal, everything = (
                world.held(namespace, with_low=False),
                world.held(namespace, with_low=True),
            )
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
                require(
                    any(at is not None and at - work.grace_s <= self._now_s for at in held),
                    "for a hold",
                    one,
                )
        known = {one.workload_id for one in world.claims}
        for name, claim in claims.items():
            if name in known:
                continue
            ends = {
                w.name: w.gone_by_s
                for w in world.running.values()
                if w.gone_by_s and w.priority == LOW
            }
            ends |= {v: self._now_s + world.running[v].grace_s for v in victims.get(name, set())}
            nodes = tuple(node for node, _ in claim.room)
            last_s = max([at for at in ends.values() if at], default=self._now_s)
            for one in self._found.reservations:  # stopped in time for it: its owner starts then
                if one.workload_id == name and one.room == claim.room:
                    last_s = max(
                        last_s, one.starts_at_s if one.starts_at_s <= self._now_s + 600 else 0
                    )
            world.emptied[name] = Emptied(nodes, last_s, victims.get(name, set()))

    def _leaves(self) -> None:
        """What is low is off a held node in time, its grace included."""
        told = {one.workload_id for one in self._found.preemptions}
        for name, work in self._world.running.items():
            holds = [self._world.nodes[node].hold_s for node in work.nodes]
            hold_s = min((at for at in holds if at is not None), default=None)
            if work.priority != LOW or work.gone_by_s is not None or hold_s is None:
                continue
            if work.ends_by_s is None or work.ends_by_s > hold_s:
                leaves_s = hold_s - work.grace_s
                is_known = self._now_s < leaves_s and self._found.look_at_s <= leaves_s
                require(is_known or name in told, "off held nodes", name)

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
            if self._is_hindered(work):
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
            if not self._is_hindered(work)
            and not self._triers(work.image)
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
            low = [
                w
                for w in world.running.values()
                if w.priority == LOW and w.gone_by_s is None and w.name not in stopped
            ]
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
            is_early = (
                ends_s is not None and one.starts_at_s != UNKNOWN and ends_s <= one.starts_at_s
            )
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
        others = [*placed[:i], less, *placed[i + 1 :]]
        if min(less.values()) >= 0 and _splits(others, [(count - 1, each), *rest]):
            return True
    return False


def judge(world: World, found: Decided) -> None:
    """Raises what it finds, before the decision is carried out.

    Raises:
        BrokenRuleError: a property does not hold.
    """
    Judge(world, found).judge()
