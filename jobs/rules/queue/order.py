"""Who is asked first: aged ones, then by shares of teams and namespaces, then by age; `low` last.

Shares are dominant shares (the largest part of the cluster's GPUs, CPU or memory), as in Ghodsi et al.,
*Dominant Resource Fairness*, NSDI 2011, https://www.usenix.org/legacy/event/nsdi11/tech/full_papers/Ghodsi.pdf
"""

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from jobs.rules.queue.state import (
    HIGH,
    LOW,
    NOTHING,
    QueuedWorkload,
    QueueRules,
    QueueState,
    Size,
    TeamState,
    add,
)

WHOLE = 10**9  # the share of one who holds the whole cluster with weight 1
HALF_LIFE_S = 24 * 3600
_SCALE = 10**6  # so that a share divided by a weight keeps its digits


def dominant_share(held: Size, capacity: Size) -> int:
    """The largest part of GPUs, CPU or memory, in parts of `WHOLE`."""
    gpus = held[0] * WHOLE // capacity[0] if capacity[0] else 0
    cpu = held[1] * WHOLE // capacity[1] if capacity[1] else 0
    memory = held[2] * WHOLE // capacity[2] if capacity[2] else 0
    return max(gpus, cpu, memory)


def usage_after(usage: int, held: int, elapsed_s: int) -> int:
    """The moving average after so long at `held`, both in parts of `WHOLE`; its half-life is a day."""
    part: float = 2.0 ** (-elapsed_s / HALF_LIFE_S)
    return held + round((usage - held) * part)


class QueueOrder:
    """The order, which moves as admissions are told to it.

    A team's workloads stand at the places that their own ages give the team, whatever their order
    inside it: `high` goes before the rest of its team and never before another's.
    """

    def __init__(self, state: QueueState, rules: QueueRules) -> None:
        self._state = state
        self._is_fair = rules.fair_share
        self._aging_s = rules.aging_s
        self._latest: dict[str, tuple[list[int], list[int]]] = {}
        self._held = {name: one.held for name, one in state.namespaces.items()}
        self._team_held: dict[str, Size] = defaultdict(lambda: NOTHING)
        for one in state.namespaces.values():
            self._team_held[one.team] = add(self._team_held[one.team], one.held)

    def note_start(self, queued: QueuedWorkload) -> None:
        """It holds its room from now on; what `low` holds is not counted."""
        if queued.priority != LOW:
            name, amount = queued.namespace, queued.total
            team = self._state.namespaces[name].team
            self._held[name] = add(self._held[name], amount)
            self._team_held[team] = add(self._team_held[team], amount)

    def ages_at_s(self, queued: QueuedWorkload) -> int:
        """From when on it is aged: so long after it was queued, or after its namespace's last
        admission that asked for at least as much, whichever is later."""
        since_s = queued.queued_at_s
        if since_s + self._aging_s <= self._state.now_s:
            shares, latest = self._latest_of(queued.namespace)
            share = dominant_share(queued.total, self._state.capacity)
            since_s = max(since_s, latest[bisect_left(shares, share)])
        return since_s + self._aging_s

    def _latest_of(self, namespace: str) -> tuple[list[int], list[int]]:
        """Shares admitted, ascending, and when at least so much was admitted last."""
        if namespace not in self._latest:
            admitted = sorted(
                (share, at) for at, share in self._state.namespaces[namespace].admitted
            )
            latest = [0]
            for _, at in reversed(admitted):
                latest.append(max(latest[-1], at))
            self._latest[namespace] = ([share for share, _ in admitted], latest[::-1])
        return self._latest[namespace]

    def __iter__(self) -> Iterator[QueuedWorkload]:
        """All that wait. What `note_start` is told of one counts for those after it."""
        is_low = [one for one in self._state.queued if one.priority == LOW]
        others = [one for one in self._state.queued if one.priority != LOW]
        for group in (others, is_low):
            ages = {one.workload_id: self.ages_at_s(one) for one in group}
            now_s = self._state.now_s
            aged = [one for one in group if ages[one.workload_id] <= now_s]
            yield from sorted(aged, key=lambda one: (ages[one.workload_id], *_age(one)[1:]))
            rest = [one for one in group if ages[one.workload_id] > now_s]
            yield from self._by_teams(rest)

    def _by_teams(self, queued: Sequence[QueuedWorkload]) -> Iterator[QueuedWorkload]:
        teams: dict[str, list[QueuedWorkload]] = defaultdict(list)
        for one in queued:
            teams[self._state.namespaces[one.namespace].team].append(one)
        inside = {team: self._in_team(members) for team, members in teams.items()}
        yield from _merged(teams, self._team_share, inside)

    def _in_team(self, queued: Sequence[QueuedWorkload]) -> Iterator[QueuedWorkload]:
        for is_high in (True, False):
            members: dict[str, list[QueuedWorkload]] = defaultdict(list)
            for one in queued:
                if (one.priority == HIGH) == is_high:
                    members[one.namespace].append(one)
            inside = {name: iter(sorted(of, key=_own_order)) for name, of in members.items()}
            yield from _merged(members, self._namespace_share, inside)

    def _team_share(self, team: str) -> int:
        known = self._state.teams.get(team) or self._state.namespaces.get(team) or TeamState(team)
        return self._share(self._team_held[team], known.usage, known.weight)

    def _namespace_share(self, namespace: str) -> int:
        known = self._state.namespaces[namespace]
        return self._share(self._held[namespace], known.usage, known.weight)

    def _share(self, held: Size, usage: int, weight: int) -> int:
        if not self._is_fair:
            return 0
        return (usage + dominant_share(held, self._state.capacity)) * _SCALE // weight


def _age(queued: QueuedWorkload) -> tuple[int, int, str]:
    return queued.queued_at_s, queued.number, queued.workload_id


def _own_order(queued: QueuedWorkload) -> tuple[int, int, int, str]:
    return queued.rank, *_age(queued)


def _merged(
    members: Mapping[str, Sequence[QueuedWorkload]],
    share_of: Callable[[str], int],
    inside: Mapping[str, Iterator[QueuedWorkload]],
) -> Iterator[QueuedWorkload]:
    """The least share first, equal ones by the ages of their members, each group in its own order."""
    places = {name: iter(sorted(map(_age, group))) for name, group in members.items()}
    heap = [(share_of(name), next(ages), name) for name, ages in places.items()]
    heapq.heapify(heap)
    while heap:
        _, _, name = heapq.heappop(heap)
        yield next(inside[name])
        if (age := next(places[name], None)) is not None:
            heapq.heappush(heap, (share_of(name), age, name))  # its share may have grown by now
