"""The room of the nodes in one look: pools as groups of nodes, what is withheld of them, and packing.

Packing is a guess about the scheduler, which also knows affinity and images. Within a look room only
shrinks (where it grows, `forget_failures`), so what failed once fails again, and so does all that asks
for as much or more.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice

from jobs.rules.queue.state import (
    ANY,
    GRACE_MOST_S,
    LOW,
    NOTHING,
    SPREAD,
    UNKNOWN,
    QueuedWorkload,
    QueueState,
    Reservation,
    RoomClaim,
    Size,
    add,
    total,
)

YOUNG_S = 600
SHORT_S = 3600  # what lasts no longer may start on nodes that are reserved for a time not known yet

_CLOSED: Size = (-UNKNOWN,) * 5

# Replicas of equal size: how many, each, and the pool of their role or "".
Group = tuple[Size, int, str]
# By the index of a node.
Taken = dict[int, Size]


def fits(free: Size, each: Size) -> int:
    """How many find room; NodePorts are the quota's."""
    found = UNKNOWN
    for have, wanted in zip(free[:4], each[:4], strict=True):
        if wanted > 0:
            if have < wanted:
                return 0
            found = min(found, have // wanted)
    return found


def groups_of(queued: QueuedWorkload) -> tuple[Group, ...]:
    """Its replicas by size and pool, the largest first."""
    counts: dict[tuple[Size, str], int] = defaultdict(int)
    for role in queued.roles:
        counts[(*role.each[:4], 0), role.pool] += role.count
    return tuple((each, counts[each, pool], pool) for each, pool in sorted(counts, reverse=True))


class Room:
    """What is free, by the index of a node; names go in and out."""

    def __init__(self, state: QueueState) -> None:
        self.now_s = state.now_s
        self.nodes = state.nodes
        self.running = state.running
        self.index = {node.name: i for i, node in enumerate(state.nodes)}
        self.free = [node.free for node in state.nodes]
        # `low` that nobody has told to end, in the order in which it is chosen.
        self.low = sorted(
            (i for i, one in enumerate(state.running) if one.is_low and not one.is_being_stopped),
            key=self.stop_order,
        )
        self._is_low = set(self.low)
        self.low_on: Taken = {}  # what these hold
        for place in self.low:
            for name, size in state.running[place].nodes:
                if (i := self.index.get(name)) is not None:
                    self.low_on[i] = add(self.low_on.get(i, NOTHING), size)
        self.claimed: dict[int, str] = {}
        self.coming: dict[
            int, tuple[int, int, Size]
        ] = {}  # of a claim: its end, its owner's, and size
        self.reserved: dict[int, Reservation] = {}
        self._stops_from: dict[str, int] = {}  # of their owners: they stop nobody before
        self._late: Taken = {}  # room that is left beside a reservation's owner when it has started
        self._plain: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        self._special: dict[str, list[int]] = defaultdict(list)
        for i, node in enumerate(state.nodes):
            if node.is_open and node.hold_from_s == UNKNOWN:
                self._plain[node.pool].append((*node.free[:2], i))
            elif node.is_open:
                self._special[node.pool].append(i)
        for order in self._plain.values():
            order.sort()
        self._times = sorted({node.hold_from_s for node in state.nodes} - {UNKNOWN})
        self._owners: set[str] = set()  # of claims and reservations
        self._failed: dict[object, list[tuple[Size, int]]] = defaultdict(list)
        self._failed_sets: set[object] = set()

    @cached_property
    def pieces(self) -> list[list[tuple[int, Size]]]:
        """By node: which of `running` holds what of it."""
        found: list[list[tuple[int, Size]]] = [[] for _ in self.nodes]
        for place, running in enumerate(self.running):
            for name, size in running.nodes:
                if name in self.index:
                    found[self.index[name]].append((place, size))
        return found

    @cached_property
    def ends(self) -> list[int]:
        """When each of `running` has left its room at the latest, or `UNKNOWN`."""
        return [running.ends_at_s(self.now_s) for running in self.running]

    def stop_order(self, place: int) -> tuple[bool, int, str]:
        """Those in their first ten minutes last, then the youngest first: the least work is lost."""
        one = self.running[place]
        return self.now_s - one.admitted_at_s < YOUNG_S, -one.admitted_at_s, one.workload_id

    def low_of(self, i: int) -> dict[int, Size]:
        """The `low` workloads of a node that may be stopped, and what they hold of it."""
        return {place: size for place, size in self.pieces[i] if place in self._is_low}

    def stop(self, place: int) -> None:
        """It is told to end."""
        running = self.running[place]
        self.low.remove(place)
        self._is_low.remove(place)
        self.ends[place] = self.now_s + running.grace_s
        for name, size in running.nodes:
            if (i := self.index.get(name)) is not None:
                self.low_on[i] = add(self.low_on[i], size, -1)

    def names(self, taken: Taken) -> tuple[tuple[str, Size], ...]:
        return tuple((self.nodes[i].name, size) for i, size in taken.items())

    def by_index(self, room: Iterable[tuple[str, Size]]) -> Taken:
        return {self.index[name]: size for name, size in room}

    # --- what is withheld ---
    def claim(self, claim: RoomClaim, ends_s: int) -> None:
        """Nobody but its owner starts there, who is gone by `ends_s`."""
        self._owners.add(claim.workload_id)
        for i, size in self.by_index(claim.room).items():
            self.claimed[i] = claim.workload_id
            self.coming[i] = (claim.until_s, ends_s, size)
            self._refile(i)

    def reserve(self, reservation: Reservation, stops_from_s: int) -> None:
        """From now on the others get what is left beside it, or what they give back in time."""
        self._stops_from[reservation.workload_id] = stops_from_s
        until_s = reservation.starts_at_s
        for i, wanted in self.by_index(reservation.room).items():
            self.reserved[i] = reservation
            if until_s != UNKNOWN:
                late = add(self.free_at(i, reservation.workload_id, until_s), wanted, -1)
                if max(self.now_s, stops_from_s) + GRACE_MOST_S > until_s:  # what stays until then
                    late = add(late, self.low_on.get(i, NOTHING), -1)
                self._late[i] = late
            self._refile(i)
        insort(self._times, until_s if until_s != UNKNOWN else self.now_s + SHORT_S)
        self._owners.add(reservation.workload_id)
        self.forget_failures()

    def release(self, owner: str) -> None:
        """Its claim and its reservation end."""
        self._owners.discard(owner)
        for i in [i for i, one in self.claimed.items() if one == owner]:
            del self.claimed[i], self.coming[i]
            self._refile(i)
        for i in [i for i, one in self.reserved.items() if one.workload_id == owner]:
            del self.reserved[i]
            self._late.pop(i, None)
            self._refile(i)
        self.forget_failures()

    def forget_failures(self) -> None:
        self._failed.clear()
        self._failed_sets.clear()

    def _refile(self, i: int) -> None:
        node = self.nodes[i]
        if not node.is_open:
            return
        plain, special = self._plain[node.pool], self._special[node.pool]
        key = (*self.free[i][:2], i)
        place = bisect_left(plain, key)
        is_plain = place < len(plain) and plain[place] == key
        wants_plain = not (i in self.claimed or i in self.reserved or node.hold_from_s != UNKNOWN)
        if is_plain and not wants_plain:
            del plain[place]
            special.append(i)
        elif wants_plain and not is_plain:
            special.remove(i)
            insort(plain, key)

    def changes(self, i: int, owner: str) -> tuple[Size, list[tuple[int, Size]]]:
        """What is free of a node without `low`, and what comes free when, soonest first."""
        found = add(self.free[i], self.low_on.get(i, NOTHING))
        ends = []
        for place, size in self.pieces[i]:
            if place not in self._is_low:
                ends.append((self.ends[place], size))
        if self.claimed.get(i, owner) != owner:
            until_s, ends_s, size = self.coming[i]
            found = add(found, size, -1)
            ends.append((ends_s, size))
            # Beside its owner there is room when the claim has ended, and none before.
            ends.append((until_s + 1, add(found, _CLOSED, -1)))
            found = _CLOSED
        return found, sorted(ends)

    def free_at(self, i: int, owner: str, at_s: int) -> Size:
        """What is free of a node when all that ends by then has, and all `low` is gone."""
        found, ends = self.changes(i, owner)
        return add(found, total(size for end_s, size in ends if end_s <= at_s))

    def may_be_kept(self, i: int, owner: QueuedWorkload, starts_at_s: int) -> bool:
        """Whether a reservation may stand on this node: held later than its owner ends that starts by then."""
        node = self.nodes[i]
        if not node.is_open or min(UNKNOWN, starts_at_s + owner.lasts_s) > node.hold_from_s:
            return False
        return i not in self.reserved or self.reserved[i].workload_id == owner.workload_id

    def open_to(self, i: int, queued: QueuedWorkload, ends_s: int, free: Size) -> Size | None:
        """What of a node's `free` it may take when it ends by then; None: nothing.

        Args:
            free: of the node, or what would be without `low`.
        """
        if self.claimed.get(i, queued.workload_id) != queued.workload_id:
            return None
        if ends_s > self.nodes[i].hold_from_s:
            return None
        reservation = self.reserved.get(i)
        if reservation is None or reservation.workload_id == queued.workload_id:
            return free
        until_s = reservation.starts_at_s
        if queued.priority == LOW:
            from_s = max(self.now_s, self._stops_from[reservation.workload_id])
            return free if from_s + GRACE_MOST_S < until_s else None
        if until_s == UNKNOWN:
            return free if ends_s <= self.now_s + SHORT_S else None
        if ends_s <= until_s:
            return free
        late = self._late[i]
        return (
            min(free[0], late[0]),
            min(free[1], late[1]),
            min(free[2], late[2]),
            min(free[3], late[3]),
            0,
        )

    # --- packing ---
    def candidates(self, pool: str, each: Size) -> Iterator[int]:
        """The open nodes of a pool that may have room, the fullest first; withheld ones last."""
        plain = self._plain[pool]
        least = each[0] or -UNKNOWN
        yield from (i for _, _, i in islice(plain, bisect_left(plain, (least, -UNKNOWN, 0)), None))
        yield from self._special[pool]

    def pack(self, queued: QueuedWorkload, groups: tuple[Group, ...], ends_s: int) -> Taken | None:
        """Room for all replicas in the first pool that has it, or None."""
        view = self.view(queued, groups, ends_s, with_low=False)
        if self.has_failed(view, groups):
            return None
        for pool in queued.pools:
            if (found := self._pack_in(pool, queued, groups, ends_s)) is not None:
                return found
        self.note_failure(view, groups)
        return None

    def _pack_in(
        self, pool: str, queued: QueuedWorkload, groups: tuple[Group, ...], ends_s: int
    ) -> Taken | None:
        taken: Taken = {}
        is_any = queued.placement == ANY
        for each, count, own_pool in groups:
            found: list[tuple[int, int]] = []
            lacks = count
            gpu, cpu, memory, _, _ = each
            for i in self.candidates(own_pool or pool, each):
                free = self.free[i]
                if (gpu and free[0] < gpu) or free[1] < cpu or free[2] < memory:
                    continue
                if not gpu and self.nodes[i].only_gpu:
                    continue
                if i in self.claimed or i in self.reserved or self.nodes[i].hold_from_s != UNKNOWN:
                    visible = self.open_to(i, queued, ends_s, free)
                    if visible is None:
                        continue
                    free = visible
                if i in taken:
                    free = add(free, taken[i], -1)
                if places := fits(free, each):
                    found.append((i, places))
                    lacks -= places
                    if is_any and lacks <= 0:
                        break
            if lacks > 0:
                return None
            if not is_any:
                found = self._placed(found, count, queued.placement)
            taken = taking(taken, found, each, count)
        return taken

    def _placed(
        self, found: list[tuple[int, int]], count: int, placement: str
    ) -> list[tuple[int, int]]:
        """The same nodes in the order in which replicas of this placement take them."""
        domains: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for i, places in found:
            domains[self.nodes[i].domain or self.nodes[i].name].append((i, places))
        if placement == SPREAD:
            singles = [
                [i for i, places in of for _ in range(min(places, count))]
                for of in domains.values()
            ]
            rounds = (of[turn] for turn in range(count) for of in singles if turn < len(of))
            return [(i, 1) for i in rounds]
        room = {name: sum(places for _, places in of) for name, of in domains.items()}
        # The smallest domain that takes all, else the largest ones.
        whole = [name for name in room if room[name] >= count]
        first = min(whole, key=lambda name: (room[name], name)) if whole else ""
        names = sorted(room, key=lambda name: (name != first, -room[name], name))
        return [one for name in names for one in sorted(domains[name], key=lambda o: (-o[1], o[0]))]

    def take(self, queued: QueuedWorkload, taken: Taken, ends_s: int) -> None:
        """It starts there."""
        for i, size in taken.items():
            self._set_free(i, add(self.free[i], size, -1))
            reservation = self.reserved.get(i)
            if reservation is None or i not in self._late or queued.priority == LOW:
                continue
            if reservation.workload_id != queued.workload_id and ends_s > reservation.starts_at_s:
                self._late[i] = add(self._late[i], size, -1)

    def _set_free(self, i: int, free: Size) -> None:
        plain = self._plain[self.nodes[i].pool]
        key = (*self.free[i][:2], i)
        place = bisect_left(plain, key)
        self.free[i] = free
        if place < len(plain) and plain[place] == key:
            del plain[place]
            insort(plain, (*free[:2], i))

    # --- what has failed ---
    def view(
        self, queued: QueuedWorkload, groups: tuple[Group, ...], ends_s: int, *, with_low: bool
    ) -> object:
        """Equal for all that see the same nodes; None: it has nodes of its own.

        Args:
            with_low: it looks at what stopping `low` would give as well.
        """
        if queued.workload_id in self._owners:
            return None
        pools = frozenset(pool for _, _, pool in groups)
        seen = bisect_left(self._times, ends_s)
        return queued.pools, pools, queued.priority == LOW, seen, with_low

    def has_failed(self, view: object, groups: tuple[Group, ...]) -> bool:
        """Whether these, or fewer or smaller ones, found no room in this look."""
        if (view, groups) in self._failed_sets:
            return True
        return any(
            each[0] >= least[0]
            and bool(each[0]) == bool(least[0])  # some nodes take only what asks for a GPU
            and each[1] >= least[1]
            and each[2] >= least[2]
            and each[3] >= least[3]
            and count >= few
            for least, few in self._failed[view]
            for each, count, _ in groups
        )

    def note_failure(self, view: object, groups: tuple[Group, ...]) -> None:
        """They find no room; nothing is noted of those with nodes of their own."""
        if view is None:
            return
        self._failed_sets.add((view, groups))
        if len(groups) == 1:
            self._failed[view].append(groups[0][:2])


def taking(taken: Taken, found: Iterable[tuple[int, int]], each: Size, count: int) -> Taken:
    """`taken` and `count` replicas more, on nodes in this order, with so many places each."""
    more = dict(taken)
    for i, places in found:
        if count <= 0:
            break
        here = min(places, count)
        more[i] = add(more.get(i, NOTHING), each, here)
        count -= here
    return more
