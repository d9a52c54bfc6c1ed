"""What is kept for one that waits: the nodes and the time of its reservation, the `low` that must go.

The reservation is EASY backfilling's (Lifka, *The ANL/IBM SP Scheduling System*, 1995,
https://doi.org/10.1007/3-540-60153-8_35), with deadlines for run times and one owner for each pool.
"""

from collections.abc import Callable, Sequence

from jobs.rules.queue.room import Group, Room, Taken, fits, taking
from jobs.rules.queue.state import (
    NOTHING,
    UNKNOWN,
    QueuedWorkload,
    Size,
    add,
    total,
)


# --- when ---
def earliest_s(room: Room, wanted: Taken, owner: str) -> int:
    """When all that stands in the way of this room has ended, `low` apart."""
    latest = room.now_s
    for i, size in wanted.items():
        free, ends = room.changes(i, owner)
        for end_s, given in ends:
            if fits(free, size):
                break
            free = add(free, given)
            latest = max(latest, end_s)
        if not fits(free, size):
            return UNKNOWN
    return latest


def plan(
    room: Room,
    queued: QueuedWorkload,
    groups: Sequence[Group],
    pool: str,
    promise_s: Callable[[Taken, int], int] = lambda _, at_s: at_s,
) -> tuple[int, Taken] | None:
    """Where in this pool it can start soonest, and when; None: not even on empty nodes.

    Args:
        promise_s: of nodes, and of the time when they are free but for `low`: when it starts at the latest.
    """
    by_s = room.now_s
    while (found := _soonest(room, queued, groups, pool, by_s)) is not None:
        free_s, taken = found
        starts_at_s = promise_s(taken, free_s)
        if all(room.may_be_kept(i, queued, starts_at_s) for i in taken):
            return starts_at_s, taken
        by_s = starts_at_s  # later than before: fewer of the held nodes are left each time
    return None


def _soonest(
    room: Room, queued: QueuedWorkload, groups: Sequence[Group], pool: str, by_s: int
) -> tuple[int, Taken] | None:
    """Where and when, `low` apart, on nodes that are held no earlier than it ends if it starts by then.

    Nodes on which it would wait for unlimited work come last, the least of it first.
    """
    taken: Taken = {}
    latest = room.now_s
    for each, count, own_pool in groups:
        found: list[tuple[int, int, int, int]] = []  # when, unlimited GPUs, free GPUs, node
        for i, node in enumerate(room.nodes):
            if node.pool != (own_pool or pool) or not room.may_be_kept(i, queued, by_s):
                continue
            if node.only_gpu and not each[0]:
                continue
            free, ends = room.changes(i, queued.workload_id)
            free = add(free, taken.get(i, NOTHING), -1)
            at_s, unlimited, before = room.now_s, 0, 0
            for end_s, given in [(at_s, NOTHING), *ends]:
                free = add(free, given)
                at_s = max(at_s, end_s)
                unlimited += (given[0] or 1) if end_s == UNKNOWN else 0
                places = min(count, fits(free, each))
                found += [(at_s, unlimited, -room.free[i][0], i)] * (places - before)
                before = max(before, places)
                if before == count:
                    break
        if len(found) < count:
            return None
        chosen = sorted(found)[:count]
        latest = max(latest, chosen[-1][0])
        taken = taking(taken, ((i, 1) for _, _, _, i in chosen), each, count)
    return latest, taken


# --- who must go ---
class Preempting:
    """What stopping `low` workloads would give to one that waits.

    Args:
        lacks: of the cluster's quota for its namespace: what its own `low` workloads must give back.
    """

    def __init__(self, room: Room, queued: QueuedWorkload, lacks: Size) -> None:
        self._room = room
        self._queued = queued
        self._lacks = lacks

    def find(self, groups: tuple[Group, ...], ends_s: int) -> tuple[Taken, list[int]] | None:
        """Room for all replicas and who must go for it; None: stopping all of them would not do."""
        own = self._own()
        if own is None:
            return None
        room = self._room
        view = room.view(self._queued, groups, ends_s, with_low=True)
        if room.has_failed(view, groups):
            return None
        for pool in self._queued.pools:
            taken = self._pack(groups, pool, ends_s, own)
            if taken is not None:
                return taken, self.victims(taken, room.now_s, own)
        room.note_failure(view, groups)
        return None

    def victims(self, wanted: Taken, at_s: int, own: Sequence[int] | None = None) -> list[int]:
        """Who must go so that this room is free when all else that ends by then has."""
        chosen = list(self._own() or () if own is None else own)
        base = {i: self._free(i, at_s) for i in wanted}
        on: dict[int, dict[int, Size]] = {i: self._room.low_of(i) for i in wanted}
        for place in self._room.low:
            short = [i for i in wanted if not self._is_free(i, wanted[i], base, on, chosen)]
            if not short:
                break
            if place not in chosen and any(place in on[i] for i in short):
                chosen.append(place)
        for place in list(chosen):
            fewer = [one for one in chosen if one != place]
            if self._gives_back(fewer) and all(
                self._is_free(i, wanted[i], base, on, fewer) for i in wanted
            ):
                chosen = fewer
        return chosen

    def _free(self, i: int, at_s: int) -> Size:
        free = self._room.free_at(i, self._queued.workload_id, at_s)
        return add(free, self._room.low_on.get(i, NOTHING), -1)

    @staticmethod
    def _is_free(
        i: int, wanted: Size, base: Taken, on: dict[int, dict[int, Size]], chosen: Sequence[int]
    ) -> bool:
        given = total(on[i][place] for place in chosen if place in on[i])
        return bool(fits(add(base[i], given), wanted))

    def _own(self) -> list[int] | None:
        """Of its own namespace, so that the quota has room; None: they do not hold so much."""
        chosen: list[int] = []
        for place in self._room.low:
            if self._gives_back(chosen):
                break
            if self._room.running[place].namespace == self._queued.namespace:
                chosen.append(place)
        return chosen if self._gives_back(chosen) else None

    def _gives_back(self, chosen: Sequence[int]) -> bool:
        given = total(
            self._room.running[place].total
            for place in chosen
            if self._room.running[place].namespace == self._queued.namespace
        )
        return all(given[r] >= self._lacks[r] for r in range(5))

    def _pack(
        self, groups: Sequence[Group], pool: str, ends_s: int, own: Sequence[int]
    ) -> Taken | None:
        """Room first where nobody must go, then where the fewest must, those in their youth last."""
        room = self._room
        taken: Taken = {}
        for each, count, own_pool in groups:
            now: list[tuple[int, int]] = []
            later: list[tuple[bool, int, int, int]] = []
            for i in room.candidates(own_pool or pool, NOTHING):
                low = room.low_on.get(i, NOTHING)
                # Asked of every node again and again, so it is written out.
                has = room.free[i]
                if has[1] + low[1] < each[1] or has[2] + low[2] < each[2]:
                    continue
                if has[0] + low[0] < each[0] if each[0] else room.nodes[i].only_gpu:
                    continue
                kept = room.reserved.get(i)
                if (
                    kept
                    and kept.workload_id != self._queued.workload_id
                    and ends_s > kept.starts_at_s
                ):
                    continue  # a claim holds the whole node
                whole = room.open_to(i, self._queued, ends_s, add(room.free[i], low))
                if whole is None:
                    continue
                used = taken.get(i, NOTHING)
                places = fits(add(whole, used, -1), each)
                if not places:
                    continue
                gone = self._room.low_of(i) if low != NOTHING else {}
                given = total(size for place, size in gone.items() if place in own)
                free = room.open_to(i, self._queued, ends_s, add(room.free[i], given))
                at_once = fits(add(free or NOTHING, used, -1), each)
                if at_once:
                    now.append((i, at_once))
                if places > at_once:
                    young = all(
                        self._room.stop_order(place)[0] for place in gone if place not in own
                    )
                    later.append((young, len(gone), i, places))
            lacks = count - sum(places for _, places in now)
            taken = taking(taken, now, each, count)
            if lacks > 0:
                later.sort()
                already = dict(now)
                more = [(i, places - already.get(i, 0)) for _, _, i, places in later]
                if sum(places for _, places in more) < lacks:
                    return None
                taken = taking(taken, more, each, lacks)
        return taken
