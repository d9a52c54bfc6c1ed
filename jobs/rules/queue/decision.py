"""One look at the queue: who starts, who is stopped for whom, what is reserved.

    for each in the order (`order`):
        over its quota, or behind one of its namespace that lacks what it wants -> waits
        fits on nodes that are not withheld from it, backfill included          -> starts
        normal or high, and would fit without `low`                             -> stops them, claims nodes
        the first that lacks only nodes                                         -> its pool's reservation

The owners of claims and reservations start before all others, on their own nodes only: so nobody who is
asked earlier loses anything by it.
"""

from collections import defaultdict
from dataclasses import replace
from functools import cached_property, partial

from jobs.rules.queue.keeping import Preempting, earliest_s, plan
from jobs.rules.queue.order import QueueOrder
from jobs.rules.queue.room import Group, Room, Taken, fits, groups_of
from jobs.rules.queue.state import (
    GONE_S,
    GRACE_MOST_S,
    IMAGE_GUARDED,
    LOW,
    NOTHING,
    UNKNOWN,
    Decided,
    Preemption,
    QueuedWorkload,
    QueueRules,
    QueueState,
    Reservation,
    RoomClaim,
    RunningWorkload,
    Size,
    Start,
    Why,
    add,
    lacking,
)


def decide(state: QueueState, rules: QueueRules = QueueRules()) -> Decided:  # noqa: B008 (frozen)
    """What follows from one state of the queue and the cluster; the same for the same state."""
    return _Look(state, rules).run()


class _Look:
    def __init__(self, state: QueueState, rules: QueueRules) -> None:
        self._state = state
        self._rules = rules
        self._now_s = state.now_s
        self._room = Room(state)
        self._order = QueueOrder(state, rules)
        self._queued = {one.workload_id: one for one in state.queued}
        self._totals = {one.workload_id: one.total for one in state.queued}
        self._groups: dict[str, tuple[Group, ...]] = {}
        self._left = {name: one.left for name, one in state.namespaces.items()}
        self._low_left = {name: one.low_left for name, one in state.namespaces.items()}
        self._team_left = {name: one.low_left for name, one in state.teams.items()}
        self._reservations: dict[str, Reservation] = {}
        self._claims: dict[str, RoomClaim] = {}
        # By namespace: whose quota is kept, and work that ends before when may use it meanwhile.
        self._kept: dict[str, dict[str, int]] = defaultdict(dict)
        self._trials: dict[str, str] = {}  # who tries what could not be pulled
        self._started: set[str] = set()
        self._pods = state.pods_started
        self._is_full = False
        self._considered: set[str] = set()  # pools whose first in line has been found
        self._found = Decided()

    @cached_property
    def _of(self) -> dict[str, list[int]]:
        """What runs, by namespace."""
        found: dict[str, list[int]] = defaultdict(list)
        for place, running in enumerate(self._state.running):
            found[running.namespace].append(place)
        return found

    def run(self) -> Decided:
        self._take_up_claims()
        self._take_up_reservations()
        for owner in [*self._claims, *self._reservations]:
            self._start_on_own(self._queued[owner])
        while not self._is_full and self._pass():
            pass  # a reservation ended: there may be room for one that was asked before
        self._stop_in_time()
        self._empty_held_nodes()
        found = self._found
        found.starts = [self._with_avoided(start) for start in found.starts]
        found.reservations = list(self._reservations.values())
        found.claims = list(self._claims.values())
        self._set_next_look()
        return found

    def _with_avoided(self, start: Start) -> Start:
        """It keeps off what is kept at the end of this look, also for one that came after it, and off holds."""
        kept = {self._state.nodes[i].name for i in (*self._room.claimed, *self._room.reserved)}
        kept |= {n.name for n in self._state.nodes if n.hold_from_s < start.ends_by_s}
        return replace(start, avoid=tuple(sorted(kept - {name for name, _ in start.nodes})))

    # --- what holds from before ---
    def _take_up_claims(self) -> None:
        for claim in self._state.claims:
            owner = self._queued.get(claim.workload_id)
            if owner is None or self._now_s > claim.until_s or not self._stands(claim.room, owner):
                continue
            # It could not take what it keeps from others, or is to stop nobody any more.
            if self._hinders(owner) or owner.priority == LOW:
                continue
            self._keep_claim(claim, owner)

    def _stands(self, room: tuple[tuple[str, Size], ...], owner: QueuedWorkload) -> bool:
        """Whether all nodes are still there for it."""
        ends_s = self._ends_s(owner)
        for name, _ in room:
            i = self._room.index.get(name)
            if i is None or not self._state.nodes[i].is_open:
                return False
            if self._state.nodes[i].hold_from_s < ends_s:
                return False
        return True

    def _keep_claim(self, claim: RoomClaim, owner: QueuedWorkload) -> None:
        self._room.claim(claim, min(UNKNOWN, claim.until_s + owner.lasts_s))
        self._claims[owner.workload_id] = claim
        self._try(owner)
        self._kept[owner.namespace][owner.workload_id] = -1

    def _take_up_reservations(self) -> None:
        for one in self._state.reservations:
            owner = self._queued.get(one.workload_id)
            if owner is None:
                continue
            if self._hinders(owner) or owner.priority == LOW:
                self._found.ended.append((owner.workload_id, "obstacle"))
            elif any(
                (i := self._room.index.get(name)) is None
                or not self._room.may_be_kept(i, owner, self._now_s)
                for name, _ in one.room
            ):
                self._found.ended.append((owner.workload_id, "node"))
            elif self._quota_s(owner) > self._horizon_s(one.starts_at_s):
                self._found.ended.append((owner.workload_id, "quota"))
            else:
                self._take_up(self._renewed(one, owner), owner)

    def _take_up(self, renewed: Reservation, owner: QueuedWorkload) -> None:
        wanted = self._room.by_index(renewed.room)
        if all(self._room.may_be_kept(i, owner, renewed.starts_at_s) for i in wanted):
            self._keep_reservation(renewed, owner)
        else:
            self._found.ended.append((owner.workload_id, "node"))

    def _renewed(self, one: Reservation, owner: QueuedWorkload) -> Reservation:
        """The same with today's time; while that is unknown, another choice that has one."""
        wanted = self._room.by_index(one.room)
        rooms = [wanted]
        if claim := self._claims.get(owner.workload_id):
            rooms.append(self._room.by_index(claim.room))
        starts_at_s = min(self._renewed_s(one.starts_at_s, owner, room) for room in rooms)
        if starts_at_s == UNKNOWN:
            others = [kept.room for kept in self._state.reservations if kept != one]
            names = [name for room in others for name, _ in room if name in self._room.index]
            pools = {self._state.nodes[self._room.index[name]].pool for name in names}
            other = self._best_plan(owner, pools)
            if other is not None and other[0] != UNKNOWN:
                starts_at_s, wanted = other
        if starts_at_s > one.starts_at_s:
            self._found.moved.append(owner.workload_id)
        return Reservation(owner.workload_id, self._room.names(wanted), starts_at_s)

    def _renewed_s(self, promised_s: int, owner: QueuedWorkload, wanted: Taken) -> int:
        """To wait as announced may be sooner than to stop `low` with a long grace at once."""
        at_s = earliest_s(self._room, wanted, owner.workload_id)
        found_s = self._promise_s(owner, wanted, at_s)
        if at_s < promised_s != UNKNOWN:
            found_s = min(found_s, self._promise_s(owner, wanted, promised_s))
        return found_s

    def _keep_reservation(self, reservation: Reservation, owner: QueuedWorkload) -> None:
        self._room.reserve(reservation, owner.stops_from_s)
        self._reservations[owner.workload_id] = reservation
        if owner.workload_id not in self._claims:
            until_s = reservation.starts_at_s
            self._kept[owner.namespace][owner.workload_id] = until_s

    def _quota_s(self, owner: QueuedWorkload) -> int:
        """When its quota has room for it by what ends there; `UNKNOWN`: never."""
        free, wanted, at_s = (
            self._left[owner.namespace],
            self._totals[owner.workload_id],
            self._now_s,
        )
        normal = [
            place for place in self._of[owner.namespace] if not self._state.running[place].is_low
        ]
        for place in sorted(normal, key=self._room.ends.__getitem__):
            if not lacking(free, wanted) or self._room.ends[place] == UNKNOWN:
                break
            at_s = self._room.ends[place]
            free = add(free, self._state.running[place].total)
        return UNKNOWN if lacking(free, wanted) else at_s

    def _horizon_s(self, at_s: int) -> int:
        return at_s if at_s != UNKNOWN else self._now_s + 3600

    # --- starting ---
    def _ends_s(self, queued: QueuedWorkload) -> int:
        return min(UNKNOWN, self._now_s + queued.lasts_s)

    def _groups_of(self, queued: QueuedWorkload) -> tuple[Group, ...]:
        if queued.workload_id not in self._groups:
            self._groups[queued.workload_id] = groups_of(queued)
        return self._groups[queued.workload_id]

    def _hinders(self, queued: QueuedWorkload) -> str:
        if queued.obstacle:
            return queued.obstacle
        name = queued.workload_id
        if any(self._trials.get(one, name) != name for one in queued.trials):
            return IMAGE_GUARDED
        return "backing_off" if self._now_s < queued.not_before_s else ""

    def _try(self, queued: QueuedWorkload) -> None:
        self._trials |= dict.fromkeys(queued.trials, queued.workload_id)

    def _start_on_own(self, owner: QueuedWorkload) -> None:
        """The owner of a claim or reservation starts when its own nodes have room for all of it."""
        name = owner.workload_id
        if self._end_before(owner):
            self._is_full = True
        if name in self._started or self._is_full or self._hinders(owner):
            return
        if self._quota_lacks(owner) or lacking(self._ceiling(owner), self._totals[name]):
            return
        for kept in (self._claims.get(name), self._reservations.get(name)):
            if kept is None:
                continue
            wanted = self._room.by_index(kept.room)
            if all(
                fits(self._room.free[i], size) and self._room.claimed.get(i, name) == name
                for i, size in wanted.items()
            ):
                self._start(owner, wanted)
                return

    def _start(self, queued: QueuedWorkload, taken: Taken) -> bool:
        """Whether it gave up room that it had kept."""
        ends_s = self._ends_s(queued)
        name = queued.workload_id
        amount = self._totals[name]
        self._room.take(queued, taken, ends_s)
        if queued.priority != LOW:
            self._left[queued.namespace] = add(self._left[queued.namespace], amount, -1)
        self._low_left[queued.namespace] = add(self._low_left[queued.namespace], amount, -1)
        team = self._state.namespaces[queued.namespace].team
        if team in self._team_left:
            self._team_left[team] = add(self._team_left[team], amount, -1)
        had_kept = self._give_up(queued)
        self._order.note_start(queued)
        self._started.add(name)
        self._try(queued)
        self._found.why.pop(name, None)
        self._pods += amount[3]
        self._found.starts.append(Start(name, self._room.names(taken), ends_s))
        return had_kept

    def _give_up(self, owner: QueuedWorkload) -> bool:
        name = owner.workload_id
        had = self._claims.pop(name, None) is not None
        had |= self._reservations.pop(name, None) is not None
        self._kept[owner.namespace].pop(name, None)
        if had:
            self._room.release(name)
        return had

    # --- quota ---
    def _kept_from(self, queued: QueuedWorkload, *, for_good: bool = False) -> Size:
        """What of its namespace's quota is kept for others, for owners what was kept before theirs.

        Args:
            for_good: also from what would give it back in time.
        """
        found = NOTHING
        ends_s = self._ends_s(queued)
        kept = self._kept[queued.namespace]
        for owner in kept if queued.workload_id not in kept else self._before(queued):
            until_s = kept.get(owner, UNKNOWN)
            is_early = ends_s <= self._horizon_s(until_s)
            if queued.priority == LOW and until_s != UNKNOWN:
                from_s = max(self._now_s, self._queued[owner].stops_from_s)
                is_early |= from_s + GRACE_MOST_S < until_s
            if owner in kept and (for_good or not is_early):
                found = add(found, self._totals[owner])
        return found

    def _before(self, owner: QueuedWorkload) -> list[str]:
        """The reservations that are older than its own."""
        names = list(self._reservations)
        return names[: names.index(owner.workload_id)] if owner.workload_id in names else []

    def _ceiling(self, queued: QueuedWorkload) -> Size:
        """What the cluster's quota object lets it take, `low` of its namespace included."""
        return add(self._low_left[queued.namespace], self._kept_from(queued), -1)

    def _quota_lacks(self, queued: QueuedWorkload) -> tuple[int, ...]:
        amount = self._totals[queued.workload_id]
        if queued.priority != LOW:
            return lacking(add(self._left[queued.namespace], self._kept_from(queued), -1), amount)
        lacks = lacking(self._ceiling(queued), amount)
        team = self._state.namespaces[queued.namespace].team
        return lacks or (lacking(self._team_left[team], amount) if team in self._team_left else ())

    # --- the order ---
    def _end_before(self, queued: QueuedWorkload) -> bool:
        """True when this look has done enough; a training larger than the limit starts alone."""
        if len(self._found.starts) + len(self._found.preemptions) >= self._rules.most:
            self._look_by(self._now_s)
            return True
        pods = self._pods + self._totals[queued.workload_id][3]
        if self._pods and pods > self._rules.most_pods:
            self._look_by(self._now_s + 1)
            return True
        return False

    def _pass(self) -> bool:
        """Asks everyone once; whether another pass may find more."""
        is_released = False
        blocked: dict[tuple[str, bool], list[tuple[str, tuple[int, ...]]]] = defaultdict(list)
        self._considered = self._reserved_pools()
        for queued in self._order:
            name = queued.workload_id
            if name in self._started:
                continue
            if hindrance := self._hinders(queued):
                self._found.why[name] = Why(hindrance)
                continue
            if name in self._claims:
                self._found.why[name] = Why("claim")
                continue
            amount = self._totals[name]
            kin = blocked[queued.namespace, queued.priority == LOW]
            ahead = next((who for who, lacks in kin if any(amount[r] > 0 for r in lacks)), "")
            if ahead:
                self._found.why[name] = Why("behind", behind=ahead)
                continue
            if lacks := self._quota_lacks(queued):
                kin.append((name, lacks))
                self._found.why[name] = Why("quota", lacks)
                continue
            if self._end_before(queued):
                self._is_full = True
                return False
            held_by_low = lacking(self._ceiling(queued), amount)
            taken = self._room.pack(queued, self._groups_of(queued), self._ends_s(queued))
            if taken is not None and not held_by_low:
                is_released |= self._start(queued, taken)
                continue
            if queued.priority != LOW and self._preempt(queued):
                self._found.why[name] = Why("claim")
                continue
            is_nodes = taken is None or not self._will_low_give(queued)
            self._found.why[name] = Why("nodes" if is_nodes else "low_holds", held_by_low)
            if not held_by_low and queued.priority != LOW and self._rules.reserves:
                self._reserve(queued)
        return is_released

    def _reserve(self, queued: QueuedWorkload) -> None:
        if queued.workload_id in self._reservations or self._pools_of(queued) <= self._considered:
            return
        kept = self._kept_from(queued, for_good=True)
        if lacking(add(self._left[queued.namespace], kept, -1), self._totals[queued.workload_id]):
            return
        best = self._best_plan(queued, self._considered)
        if best is None:  # not even empty nodes would do
            return
        starts_at_s, taken = best
        self._considered |= self._pools_of(queued)
        if starts_at_s == UNKNOWN and not self._order.ages_at_s(queued) <= self._now_s:
            return
        found = Reservation(queued.workload_id, self._room.names(taken), starts_at_s)
        self._keep_reservation(found, queued)

    def _pools_of(self, queued: QueuedWorkload) -> set[str]:
        own = {role.pool for role in queued.roles} - {""}
        return own | (set(queued.pools) if any(not role.pool for role in queued.roles) else set())

    def _reserved_pools(self) -> set[str]:
        return {self._state.nodes[i].pool for i in self._room.reserved}

    def _best_plan(
        self, queued: QueuedWorkload, taken_pools: set[str] | None = None
    ) -> tuple[int, Taken] | None:
        """The pool where it can start soonest."""
        plans = []
        for pool in queued.pools:
            promise_s = partial(self._promise_s, queued)
            found = plan(self._room, queued, self._groups_of(queued), pool, promise_s)
            if found is None:
                continue
            pools = {self._state.nodes[i].pool for i in found[1]}
            if not pools & (taken_pools or set()):
                plans.append(found)
        return min(plans, key=lambda one: one[0], default=None)

    # --- stopping `low` ---
    def _preempting(self, queued: QueuedWorkload, at_s: int) -> Preempting:
        """What ends by then in its own namespace gives its quota back by itself."""
        ceiling = self._ceiling(queued)
        for place in self._of[queued.namespace]:
            running = self._state.running[place]
            if self._is_ending(running) or self._room.ends[place] <= at_s:
                ceiling = add(ceiling, running.total)
        wanted = self._totals[queued.workload_id]
        lacks = tuple(max(0, wanted[r] - ceiling[r]) if wanted[r] > 0 else 0 for r in range(5))
        return Preempting(self._room, queued, (lacks[0], lacks[1], lacks[2], lacks[3], lacks[4]))

    def _will_low_give(self, queued: QueuedWorkload) -> bool:
        """Whether the quota that `low` of its namespace holds is on its way back, or may be asked for later."""
        if self._now_s < queued.stops_from_s:
            return True
        ceiling = self._ceiling(queued)
        for place in self._of[queued.namespace]:
            running = self._state.running[place]
            if self._is_ending(running):
                ceiling = add(ceiling, running.total)
        return not lacking(ceiling, self._totals[queued.workload_id])

    def _preempt(self, queued: QueuedWorkload) -> bool:
        if not self._room.low or self._now_s < queued.stops_from_s:
            return False
        ends_s = min(UNKNOWN, self._ends_s(queued) + GRACE_MOST_S + GONE_S)
        found = self._preempting(queued, self._now_s).find(self._groups_of(queued), ends_s)
        if found is None:
            return False
        self._stop_for(queued, *found)
        return True

    def _stop_for(
        self, queued: QueuedWorkload, wanted: Taken, victims: list[int], at_s: int = 0
    ) -> None:
        """The nodes are a claim until a minute after the last grace, of those that end already too."""
        ends = [
            self._room.ends[i] for i, one in enumerate(self._state.running) if self._is_ending(one)
        ]
        for place in victims:
            self._stop(place, queued.workload_id)
            ends.append(self._room.ends[place])
        known = [end_s for end_s in ends if end_s != UNKNOWN]
        until_s = max([self._now_s, at_s, *known]) + GONE_S
        self._keep_claim(RoomClaim(queued.workload_id, self._room.names(wanted), until_s), queued)

    @staticmethod
    def _is_ending(running: RunningWorkload) -> bool:
        return running.is_low and running.is_being_stopped

    def _stop(self, place: int, beneficiary: str, node: str = "") -> None:
        self._room.stop(place)
        name = self._state.running[place].workload_id
        self._found.preemptions.append(Preemption(name, beneficiary, node))

    def _promise_s(self, owner: QueuedWorkload, wanted: Taken, starts_at_s: int) -> int:
        """With its quota, and the longest grace where `low` must go: which of it may still change."""
        starts_at_s = max(starts_at_s, self._quota_s(owner))
        if starts_at_s == UNKNOWN or not self._room.low:
            return starts_at_s
        if not self._preempting(owner, starts_at_s).victims(wanted, starts_at_s):
            return starts_at_s
        return max(starts_at_s, max(self._now_s, owner.stops_from_s) + GRACE_MOST_S)

    def _stop_in_time(self) -> None:
        """What `low` holds of reserved room is stopped the longest grace before its time."""
        if not self._room.low:
            return
        for name, one in list(self._reservations.items()):
            if name in self._claims or one.starts_at_s == UNKNOWN:
                continue
            owner = self._queued[name]
            wanted = self._room.by_index(one.room)
            victims = self._preempting(owner, one.starts_at_s).victims(wanted, one.starts_at_s)
            if not victims or one.starts_at_s - GRACE_MOST_S > self._now_s:
                continue
            if any(self._room.claimed.get(i, name) != name for i in wanted):
                for place in victims:
                    self._stop(place, name)
            else:
                self._stop_for(owner, wanted, victims, one.starts_at_s)

    def _empty_held_nodes(self) -> None:
        """`low` leaves nodes that an admin holds, one grace before."""
        for place in list(self._room.low):
            running = self._state.running[place]
            at = [self._room.index[name] for name, _ in running.nodes if name in self._room.index]
            holds = ((self._state.nodes[i].hold_from_s, self._state.nodes[i].name) for i in at)
            hold_s, node = min(holds, default=(UNKNOWN, ""))
            if running.ends_by_s <= hold_s:
                continue
            if hold_s - running.grace_s <= self._now_s:
                self._stop(place, "", node)
            else:
                self._look_by(hold_s - running.grace_s)

    # --- when to look again ---
    def _look_by(self, at_s: int) -> None:
        self._found.look_at_s = min(self._found.look_at_s, at_s)

    def _set_next_look(self) -> None:
        for queued in self._state.queued:
            if queued.workload_id in self._started:
                continue
            for at_s in (queued.not_before_s, queued.stops_from_s, self._order.ages_at_s(queued)):
                if at_s > self._now_s:
                    self._look_by(at_s)
        for one in self._found.reservations:  # `low` that starts beside it now must go in time
            if self._now_s < one.starts_at_s - GRACE_MOST_S < UNKNOWN - GRACE_MOST_S:
                self._look_by(one.starts_at_s - GRACE_MOST_S)
        for claim in self._found.claims:
            self._look_by(claim.until_s + 1)
