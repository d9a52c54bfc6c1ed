"""When what waits will start, as far as that is known: the same `decide`, on a virtual clock.

What runs leaves at its deadline, else after its usual duration, else never; what starts meanwhile does the
same. Nothing that people may still do is in it: no submit, no stop, no lost node.
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from jobs.rules.queue.decision import decide
from jobs.rules.queue.keeping import plan
from jobs.rules.queue.order import QueueOrder, dominant_share
from jobs.rules.queue.room import Room, groups_of
from jobs.rules.queue.state import (
    LOW,
    UNKNOWN,
    Decided,
    NamespaceState,
    QueuedWorkload,
    QueueRules,
    QueueState,
    RoleReplicas,
    RunningWorkload,
    Start,
    Why,
    add,
)

MOST_ENDS = 200
MOST_QUEUED = 50
_MOST_LOOKS = 3 * MOST_ENDS  # some follow no end but a time that was announced
_HOUR_S = 3600
_FEWEST_RUNS = 3
_NUMBERED = re.compile(r"(.*?)\d+\D*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Estimate:
    """When one starts that waits.

    Attributes:
        at_s: `UNKNOWN` when it cannot be told.
        basis: what it follows from. Of a known time: now, deadline, usual (duration), stopping (it makes
            room), backoff, turn (no end, but its place in line). Of an unknown one: unlimited or overdue
            (what has to end has no limit, or has passed it), hold (an admin holds nodes that it would
            need), obstacle, far (not worked out), nothing (no end that is known would do).
        workload_id: the one that ends then, or whose end is not known; empty: none.
    """

    at_s: int
    basis: str
    workload_id: str = ""


def line_of(state: QueueState, rules: QueueRules) -> list[str]:
    """Everything that waits, as it is asked."""
    return [one.workload_id for one in QueueOrder(state, rules)]


def estimate(
    state: QueueState,
    rules: QueueRules,
    usual: Mapping[str, int],
    has_time: Callable[[], bool] = lambda: True,
) -> dict[str, Estimate]:
    """By workload, of all that wait.

    Args:
        usual: seconds that a workload without a deadline usually holds its room, where that is known.
        has_time: asked before each step; then what has not started by then is `far`.
    """
    keeps = {one.workload_id for one in state.reservations}
    keeps |= {one.workload_id for one in state.claims}
    line = [one for one in QueueOrder(state, rules) if not one.obstacle]
    first = [one for i, one in enumerate(line) if i < MOST_QUEUED or one.workload_id in keeps]
    # That many pods have just started delays by seconds, which no estimate tells.
    begins = replace(state, queued=tuple(first), pods_started=0)
    found = _Course(begins, rules, usual).run(has_time)
    for one in state.queued:
        basis = "obstacle" if one.obstacle else "far"
        found.setdefault(one.workload_id, Estimate(UNKNOWN, basis))
    return found


def series_of(name: str) -> str:
    """A name up to its last number: what runs of the same thing have in common."""
    found = _NUMBERED.fullmatch(name)
    return found[1] if found else name


def usual_s(durations: Sequence[int]) -> int | None:
    """The median in seconds of at least three earlier runs; None: these are too few."""
    return round(median(durations)) if len(durations) >= _FEWEST_RUNS else None


def rounded_s(at_s: int, now_s: int) -> int:
    """To 5 min when that is within 2 h, to 30 min within a day, else to an hour; not before now."""
    wait_s = at_s - now_s
    step_s = 300 if wait_s < 2 * _HOUR_S else 1800 if wait_s < 24 * _HOUR_S else _HOUR_S
    near_s = (at_s + step_s // 2) // step_s * step_s
    return near_s if near_s >= now_s else near_s + step_s


_OF_QUOTA = frozenset({"quota", "behind", "low_holds"})


class _Course:
    """What comes, from one state on."""

    def __init__(self, state: QueueState, rules: QueueRules, usual: Mapping[str, int]) -> None:
        self._state = state
        self._rules = rules
        self._usual = usual
        self._asked = {one.workload_id: one for one in state.queued}
        self._running = {one.workload_id: one for one in state.running}
        self._ends = {name: self._end_of(one) for name, one in self._running.items()}
        self._heap = [(end.at_s, name) for name, end in self._ends.items()]
        heapq.heapify(self._heap)
        self._preempted: set[str] = set()
        self._left: list[RunningWorkload] = []  # at the moment that is looked at
        self._decided = Decided()
        self._found: dict[str, Estimate] = {}

    def run(self, has_time: Callable[[], bool]) -> dict[str, Estimate]:
        began_s, ended, looks = self._state.now_s, 0, 0
        while looks < _MOST_LOOKS and has_time():
            self._look(began_s)
            looks += 1
            if self._found.keys() >= self._asked.keys():
                break
            if self._decided.look_at_s == self._state.now_s:
                continue
            then_s = min(self._next_end_s(), self._decided.look_at_s)
            if then_s == UNKNOWN:
                self._name_what_is_unknown()
                break
            if ended >= MOST_ENDS:
                break
            self._state = replace(self._state, now_s=then_s)
            self._left = []
            while self._next_end_s() <= then_s:
                self._leave(self._running.pop(heapq.heappop(self._heap)[1]))
            ended += len(self._left)
        return self._found

    # --- ends ---
    def _end_of(self, running: RunningWorkload) -> Estimate:
        """When and why its room is free; `workload_id` is its own."""
        name, now_s = running.workload_id, self._state.now_s
        at_s, basis = running.ends_at_s(now_s), "deadline"
        if running.gone_by_s < running.ends_by_s:
            basis = "stopping"
        elif running.ends_by_s == UNKNOWN:
            if name not in self._usual:
                return Estimate(UNKNOWN, "unlimited", name)
            basis = "usual"
            usual_s = running.admitted_at_s + self._usual[name]
            at_s = usual_s if usual_s > now_s else UNKNOWN
        return Estimate(at_s, basis if at_s != UNKNOWN else "overdue", name)

    def _note_end(self, running: RunningWorkload) -> None:
        name = running.workload_id
        self._running[name] = running
        self._ends[name] = self._end_of(running)
        heapq.heappush(self._heap, (self._ends[name].at_s, name))

    def _next_end_s(self) -> int:
        """What was pushed before its end was moved is dropped."""
        while self._heap:
            at_s, name = self._heap[0]
            if name in self._running and self._ends[name].at_s == at_s:
                return at_s
            heapq.heappop(self._heap)
        return UNKNOWN

    def _leave(self, running: RunningWorkload) -> None:
        self._left.append(running)
        self._hold(running, -1)
        if running.workload_id in self._preempted:  # it waits again
            self._preempted.remove(running.workload_id)
            again = self._asked.get(running.workload_id) or QueuedWorkload(
                running.workload_id,
                running.namespace,
                running.admitted_at_s,
                tuple(RoleReplicas(1, size) for _, size in running.nodes),
                priority=LOW,
                lasts_s=min(UNKNOWN, running.ends_by_s - running.admitted_at_s),
            )
            self._state = replace(self._state, queued=(*self._state.queued, again))

    def _hold(self, running: RunningWorkload, times: int) -> None:
        """Its room is taken, or given back."""
        on = dict(running.nodes)
        state = self._state
        nodes = tuple(
            replace(node, free=add(node.free, on[node.name], -times)) if node.name in on else node
            for node in state.nodes
        )
        namespaces, teams = state.namespaces, state.teams
        if (of := namespaces.get(running.namespace)) is not None:
            of = replace(of, low_left=add(of.low_left, running.total, -times))
            if not running.is_low:
                left, held = add(of.left, running.total, -times), add(of.held, running.total, times)
                of = replace(of, left=left, held=held)
            namespaces = namespaces | {of.name: self._admitted(of, running, times)}
            if (team := teams.get(of.team)) is not None:
                low_left = add(team.low_left, running.total, -times)
                teams = teams | {team.name: replace(team, low_left=low_left)}
        self._state = replace(state, nodes=nodes, namespaces=namespaces, teams=teams)

    def _admitted(self, of: NamespaceState, running: RunningWorkload, times: int) -> NamespaceState:
        if times < 0:
            return of
        share = dominant_share(running.total, self._state.capacity)
        return replace(of, admitted=(*of.admitted, (running.admitted_at_s, share)))

    # --- looks ---
    def _look(self, began_s: int) -> None:
        state = replace(self._state, running=tuple(self._running.values()))
        before = self._decided.why
        self._decided = found = decide(state, self._rules)
        self._state = replace(
            self._state, reservations=tuple(found.reservations), claims=tuple(found.claims)
        )
        for start in found.starts:
            name = start.workload_id
            if name in self._asked and name not in self._found:
                self._found[name] = self._cause(start, before.get(name), began_s)
            self._start(start)
        for one in found.preemptions:
            running = self._running[one.workload_id]
            gone_by_s = state.now_s + running.grace_s
            if gone_by_s < self._ends[one.workload_id].at_s:
                self._preempted.add(one.workload_id)
                self._note_end(replace(running, gone_by_s=gone_by_s))

    def _start(self, start: Start) -> None:
        queued = next(o for o in self._state.queued if o.workload_id == start.workload_id)
        others = tuple(one for one in self._state.queued if one is not queued)
        self._state = replace(self._state, queued=others)
        running = RunningWorkload(
            queued.workload_id,
            queued.namespace,
            start.nodes,
            queued.total,
            self._state.now_s,
            start.ends_by_s,
            is_low=queued.priority == LOW,
        )
        self._hold(running, 1)
        self._note_end(running)

    def _cause(self, start: Start, before: Why | None, began_s: int) -> Estimate:
        """What ended at this moment and gave it its room, or its quota."""
        now_s, queued = self._state.now_s, self._asked[start.workload_id]
        if not self._left:
            is_late = began_s < queued.not_before_s == now_s
            return Estimate(now_s, "now" if now_s == began_s else "backoff" if is_late else "turn")
        nodes = {name for name, _ in start.nodes}
        lacked_quota = before is not None and before.code in _OF_QUOTA

        def gave(one: RunningWorkload) -> tuple[bool, int, str]:
            is_kin = one.namespace == queued.namespace
            has_given = is_kin if lacked_quota else any(name in nodes for name, _ in one.nodes)
            return has_given, one.total[0], one.workload_id

        best = max(self._left, key=gave)
        return Estimate(now_s, self._ends[best.workload_id].basis, best.workload_id)

    # --- what is not known ---
    def _name_what_is_unknown(self) -> None:
        """Nothing that is known changes any more: of what still waits, whose end would."""
        waiting = {o.workload_id: o for o in self._state.queued if o.workload_id in self._asked}
        room = Room(replace(self._state, running=tuple(self._running.values())))
        owners = [one.workload_id for one in self._state.reservations]
        for queued in sorted(waiting.values(), key=lambda one: one.workload_id not in owners):
            self._found.setdefault(
                queued.workload_id, Estimate(UNKNOWN, *self._unknown(queued, room))
            )

    def _unknown(self, queued: QueuedWorkload, room: Room) -> tuple[str, str]:
        why = self._decided.why.get(queued.workload_id, Why("nodes"))
        if why.code == "behind" and why.behind in self._asked:
            return self._unknown(self._asked[why.behind], room)
        held: dict[str, int] = defaultdict(int)
        is_kept, lacks_quota = False, why.code in _OF_QUOTA
        if lacks_quota:
            for name, one in self._running.items():
                if one.namespace == queued.namespace:
                    held[name] = sum(one.total[r] for r in why.resources)
        else:
            for pool in queued.pools:
                at_s, taken = plan(room, queued, groups_of(queued), pool) or (UNKNOWN, {})
                is_kept |= at_s == room.now_s
                for i in taken:
                    for place, size in room.pieces[i]:
                        held[room.running[place].workload_id] += size[0] * 10**6 + size[1]
        if is_kept or not any(held.values()):  # there is room or quota, and it is another one's
            for kept in self._state.reservations:
                known = self._found.get(kept.workload_id)
                is_kin = self._asked[kept.workload_id].namespace == queued.namespace
                if known is not None and (is_kin or not lacks_quota):
                    return known.basis, known.workload_id
        basis, name = self._longest(held)
        is_held = any(o.hold_from_s != UNKNOWN and o.pool in queued.pools for o in room.nodes)
        return ("hold", "") if basis == "nothing" and is_held else (basis, name)

    def _longest(self, held: Mapping[str, int]) -> tuple[str, str]:
        """The basis and the name of the one that holds most."""
        name = max(held, key=lambda name: (held[name], name), default="")
        return (self._ends[name].basis, name) if name and held[name] else ("nothing", "")
