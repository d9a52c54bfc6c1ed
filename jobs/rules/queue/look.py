"""One look at the queue in admission's words: amounts in, and for each workload what becomes of it and why.

`decision` answers with codes on whole numbers; here rows and nodes become these, and its answers sentences.
Pure; the reconciler writes what follows and looks at each row again as it does.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache

from jobs.rules import reasons
from jobs.rules.admission import (
    Fit,
    KnownNodes,
    find_too_large,
    needs_text,
    placement,
    pools_of_roles,
    without,
)
from jobs.rules.amounts import Amount, NodeCapacity, ReplicaRequest, total_of
from jobs.rules.queue.decision import decide
from jobs.rules.queue.guards import Guards
from jobs.rules.queue.holds import answer_beside, closed, held_before
from jobs.rules.queue.order import dominant_share
from jobs.rules.queue.state import (
    ANY,
    IMAGE_GUARDED,
    LOW,
    NORMAL,
    NOTHING,
    UNKNOWN,
    Decided,
    NamespaceState,
    NodeState,
    Preemption,
    QueuedWorkload,
    QueueRules,
    QueueState,
    Reservation,
    RoleReplicas,
    RoomClaim,
    RunningWorkload,
    Size,
    Start,
    TeamState,
    Why,
    add,
    total,
)
from jobs.rules.queue.times import moment_text, seconds_of, time_of
from jobs.rules.reasons import Reason
from portal.pools import DEFAULT

_BACKING_OFF = "withdrawn"
_NOT_PLACED = "The cluster did not schedule all replicas in time, so it returned to the queue; its events say why."
_NEXT = " The next attempt is in "


@dataclass(frozen=True)
class Queued:
    """A workload in the queue; `shown` is what its row says of the wait now.

    Attributes:
        lasts_s: from its admission until its room is free at the latest; None: it has no deadline.
        stops_from: until then nothing is stopped for it.
        rank: its place in its namespace's own order; equal ones go by age.
        pools: names of those where it may run, in the order to try; empty: none is there for it now.
        no_pool: why there is none, a sentence.
        placement: any, pack or spread.
        images: of all its roles.
    """

    workload_id: str
    tenant_id: str
    name: str
    queued_at: datetime
    requests: tuple[ReplicaRequest, ...]
    not_before: datetime | None = None  # back-off after a withdrawal
    shown: Reason = reasons.NONE
    lasts_s: int | None = None
    priority: str = NORMAL
    stops_from: datetime | None = None
    rank: int = 0
    pools: tuple[str, ...] = (DEFAULT,)
    no_pool: str = ""
    placement: str = ANY
    images: tuple[str, ...] = ()


@dataclass(frozen=True)
class QuotaHeadroom:
    """A tenant's quota; `closed` is a sentence when nothing of it may start, else empty.

    Attributes:
        by_weight: it is a part of the cluster by weight, which may grow again.
        low_left: what is left for work of low priority, which may borrow; None: it may not.
    """

    hard: Amount | None
    left: Amount | None
    closed: str = ""
    closed_code: str = ""
    by_weight: bool = False
    low_left: Amount | None = None


@dataclass(frozen=True)
class QueueSnapshot:
    """What one look is about.

    Attributes:
        tenants: by id, of everything that waits.
        nodes: with what is free of them when all that is admitted has come.
        running: what is admitted, with what it holds of which node; its namespaces are tenants' ids.
        reservations, claims: those of the last look.
        admitted: by tenant: when something was admitted in the last hours, and what that asked for.
        pods_started: in the last ten seconds.
        namespaces, teams: by tenant, and by name: weights and what they held of late.
        holds: names of nodes that an admin holds, and from when on, in seconds.
        guards: images that cannot be pulled, and nodes that are avoided.
    """

    queue: Sequence[Queued]
    tenants: Mapping[str, QuotaHeadroom]
    nodes: Sequence[NodeCapacity]
    running: Sequence[RunningWorkload] = ()
    reservations: Sequence[Reservation] = ()
    claims: Sequence[RoomClaim] = ()
    admitted: Mapping[str, Sequence[tuple[datetime, Amount]]] = field(default_factory=dict)
    pods_started: int = 0
    namespaces: Mapping[str, NamespaceState] = field(default_factory=dict)
    teams: Mapping[str, TeamState] = field(default_factory=dict)
    holds: Mapping[str, int] = field(default_factory=dict)
    guards: Guards = field(default_factory=Guards)

    def held_by_low(self, tenant_id: str) -> Size:
        """What of a namespace's quota its work of low priority holds."""
        return total(one.total for one in self.running if one.is_low and one.namespace == tenant_id)


@dataclass(frozen=True)
class Decision:
    """What becomes of one queued workload.

    Attributes:
        fit: its kind is "now" when it is admitted.
        ends_by: of what is admitted, when its room is free at the latest; None: it has no deadline.
        avoided_nodes: of what is admitted, names of the nodes that are kept for others.
        nodes: of what is admitted, what of which node it found room on.
        had_claim: of what is admitted, whether others were stopped for it.
        pools: of what is admitted, role -> the pool where its replicas run; empty: there are no pools.
    """

    queued: Queued
    fit: Fit
    ends_by: datetime | None = None
    avoided_nodes: tuple[str, ...] = ()
    nodes: Mapping[str, Amount] = field(default_factory=dict)
    had_claim: bool = False
    pools: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Looked:
    """What follows from one look.

    Attributes:
        decisions: of everything that was reached, in the order of submission.
        preemptions: who is stopped from now on, and for whom: ids.
        reservations, claims: all that hold from now on.
        look_at: time alone changes something then; None: nothing does.
        state, rules, decided: what the decision was given, and what it gave; None: none was made.
    """

    decisions: Sequence[Decision]
    preemptions: Sequence[Preemption]
    reservations: Sequence[Reservation]
    claims: Sequence[RoomClaim]
    look_at: datetime | None
    state: QueueState | None = None
    decided: Decided | None = None
    rules: QueueRules = QueueRules()  # noqa: RUF009 (frozen)


def size_of(amount: Amount) -> Size:
    """The same numbers in the order of `admission.RESOURCES`."""
    return (amount.gpu, amount.cpu, amount.memory, amount.pods, amount.nodeports)


def amount_of(size: Size) -> Amount:
    """The way back."""
    gpu, cpu, memory, pods, nodeports = size
    return Amount(cpu, memory, gpu, pods, nodeports)


def look(
    waiting: QueueSnapshot,
    now: datetime,
    *,
    rules: QueueRules = QueueRules(),  # noqa: B008 (frozen)
) -> Looked:
    """What becomes of everything that waits. See `decision` for the order.

    Args:
        now: aware UTC.
        rules: when `rules.most` are admitted, the look ends, and what was not reached has no decision.
    """
    queue = sorted(waiting.queue, key=lambda one: (one.queued_at, one.workload_id))
    hindered = _hindered(waiting, queue, now)
    state = _state_of(waiting, queue, hindered, now)
    decided = decide(state, rules)
    answers = _Answers(waiting, queue, decided, state.now_s)
    starts = {start.workload_id: start for start in decided.starts}
    claimed = {claim.workload_id for claim in waiting.claims}
    pool_of = {node.name: node.pool for node in waiting.nodes}
    decisions = []
    for one in queue:
        start = starts.get(one.workload_id)
        if start is not None:
            ends_by = time_of(start.ends_by_s)
            decisions.append(
                Decision(
                    one,
                    Fit("now"),
                    ends_by,
                    tuple(sorted(waiting.guards.avoided.union(start.avoid))),
                    _amounts(start),
                    one.workload_id in claimed,
                    _pools_of(one, start, pool_of),
                )
            )
        elif (why := decided.why.get(one.workload_id)) is not None:
            decisions.append(Decision(one, hindered.get(one.workload_id) or answers.of(one, why)))
    return Looked(
        decisions,
        decided.preemptions,
        decided.reservations,
        decided.claims,
        time_of(min(decided.look_at_s, waiting.guards.look_at_s(now))),
        state,
        decided,
        rules,
    )


def _hindered(waiting: QueueSnapshot, queue: Sequence[Queued], now: datetime) -> dict[str, Fit]:
    """Those that may not start whatever room there is, and why."""

    nodes = KnownNodes(waiting.nodes)

    @cache
    def too_large(
        requests: tuple[ReplicaRequest, ...],
        hard: Amount | None,
        by_weight: bool,
        pools: tuple[str, ...],
    ) -> Fit | None:
        return find_too_large(requests, hard, nodes, by_weight=by_weight, pools=pools)

    found = {}
    for one in queue:
        headroom = waiting.tenants[one.tenant_id]
        if headroom.closed:
            found[one.workload_id] = Fit("later", headroom.closed_code, headroom.closed)
        elif waits := backing_off(one, now):
            found[one.workload_id] = waits
        elif not one.pools:
            found[one.workload_id] = Fit("later", "no_pool", one.no_pool)
        elif answer := too_large(one.requests, _most(one, headroom), headroom.by_weight, one.pools):
            found[one.workload_id] = answer
        elif guarded := waiting.guards.wait_of(one.images, one.tenant_id, now):
            found[one.workload_id] = guarded
        elif headroom.hard is None or headroom.left is None:
            text = "Waiting for the cluster to count its quota"
            found[one.workload_id] = Fit("later", "quota_unknown", text)
    return found


def _most(one: Queued, headroom: QuotaHeadroom) -> Amount | None:
    """What it may ask for at the most; None: nobody has said, or it is no matter of quota."""
    is_borrowing = one.priority == LOW and headroom.low_left is not None
    return None if is_borrowing else headroom.hard


def backing_off(one: Queued, now: datetime) -> Fit | None:
    """What its withdrawal said, which its row still shows, with when it is tried again; None: it does not back off."""
    if one.not_before is None or int(now.timestamp()) >= seconds_of(one.not_before):
        return None
    why = one.shown.text.partition(_NEXT)[0] if one.shown.code == _BACKING_OFF else _NOT_PLACED
    why = why if why.endswith((".", "…")) else f"{why}."  # the cluster's words may end it
    # In steps, so that the text does not change (and is not written) every second.
    seconds = (one.not_before - now).total_seconds()
    wait = "less than a minute" if seconds <= 60 else f"about {-(-int(seconds) // 60)} minutes"
    return Fit("later", _BACKING_OFF, f"{why}{_NEXT}{wait}")


def _state_of(
    waiting: QueueSnapshot, queue: Sequence[Queued], hindered: Mapping[str, Fit], now: datetime
) -> QueueState:
    now_s = int(now.timestamp())
    capacity = total(size_of(node.allocatable) for node in waiting.nodes)
    known = {node.pool for node in waiting.nodes}
    queued = tuple(
        QueuedWorkload(
            workload_id=one.workload_id,
            namespace=one.tenant_id,
            queued_at_s=int(one.queued_at.timestamp()),
            roles=_roles(one, known),
            pools=one.pools or (DEFAULT,),
            placement=one.placement,
            number=number,
            priority=one.priority,
            rank=one.rank,
            stops_from_s=0 if one.stops_from is None else seconds_of(one.stops_from),
            lasts_s=UNKNOWN if one.lasts_s is None else one.lasts_s,
            not_before_s=0 if one.not_before is None else seconds_of(one.not_before),
            obstacle=_obstacle(hindered.get(one.workload_id)),
            trials=waiting.guards.trials_of(one.images, one.tenant_id),
        )
        for number, one in enumerate(queue)
    )
    namespaces = {
        tenant_id: _namespace(
            waiting.namespaces.get(tenant_id, NamespaceState(tenant_id, tenant_id)),
            headroom,
            waiting.held_by_low(tenant_id),
            waiting.admitted.get(tenant_id, ()),
            capacity,
        )
        for tenant_id, headroom in waiting.tenants.items()
    }
    nodes = tuple(
        NodeState(
            node.name,
            node.pool,
            size_of(node.free),
            domain=node.domain,
            is_open=node.is_open,
            only_gpu=node.only_gpu,
            hold_from_s=waiting.holds.get(node.name, UNKNOWN),
        )
        for node in waiting.nodes
    )
    return QueueState(
        now_s=now_s,
        capacity=capacity,
        nodes=nodes,
        running=tuple(waiting.running),
        queued=queued,
        namespaces=namespaces,
        teams=dict(waiting.teams),
        reservations=tuple(waiting.reservations),
        claims=tuple(waiting.claims),
        pods_started=waiting.pods_started,
    )


def _roles(one: Queued, known: Collection[str]) -> tuple[RoleReplicas, ...]:
    """Each with the pool of its own, if it has one whichever the workload comes to."""
    own = pools_of_roles(one.requests, "", known) if one.pools != (DEFAULT,) else {}
    return tuple(
        RoleReplicas(asked.count, size_of(asked.each), own.get(asked.role, asked.pool))
        for asked in one.requests
    )


def _pools_of(one: Queued, start: Start, pool_of: Mapping[str, str]) -> dict[str, str]:
    """The one choice of a pool with which its replicas add up to what it takes of each pool."""
    if one.pools == (DEFAULT,) and not any(asked.pool for asked in one.requests):
        return {}
    taken: dict[str, Size] = defaultdict(lambda: NOTHING)
    for name, size in start.nodes:
        taken[pool_of[name]] = add(taken[pool_of[name]], size)
    chosen: dict[str, str] = {}
    for pool in one.pools:
        chosen = pools_of_roles(one.requests, pool, set(pool_of.values()))
        wanted: dict[str, Size] = defaultdict(lambda: NOTHING)
        for asked in one.requests:
            size = size_of(asked.each.on_node)
            wanted[chosen[asked.role]] = add(wanted[chosen[asked.role]], size, asked.count)
        if wanted == taken:
            break
    return chosen


def _obstacle(answer: Fit | None) -> str:
    """What is backing off says so by its time."""
    return "" if answer is None or answer.code == _BACKING_OFF else answer.code


def _namespace(
    found: NamespaceState,
    headroom: QuotaHeadroom,
    held_by_low: Size,
    admitted: Sequence[tuple[datetime, Amount]],
    capacity: Size,
) -> NamespaceState:
    hard, left = headroom.hard, headroom.left
    if hard is not None and left is not None:
        without_low = add(size_of(left), held_by_low)
        found = replace(
            found,
            hard=size_of(hard),
            left=without_low,
            low_left=size_of(left if headroom.low_left is None else headroom.low_left),
            held=add(size_of(hard), without_low, -1),
        )
    return replace(
        found,
        admitted=tuple(
            (int(at.timestamp()), dominant_share(size_of(amount), capacity))
            for at, amount in admitted
        ),
    )


class _Answers:
    """Sentences for those that wait for room; what they say of it is so after this look's admissions."""

    def __init__(
        self, waiting: QueueSnapshot, queue: Sequence[Queued], decided: Decided, now_s: int
    ) -> None:
        self._now_s = now_s
        self._by_id = {one.workload_id: one for one in queue}
        self._waiting = waiting
        self._tenants = waiting.tenants
        self._reservations = {one.workload_id: one for one in decided.reservations}
        self._kept: tuple[Reservation | RoomClaim, ...] = (*decided.reservations, *decided.claims)
        self._taken: dict[str, Amount] = defaultdict(Amount)
        of_nodes: dict[str, Amount] = defaultdict(Amount)
        for start in decided.starts:
            one = self._by_id[start.workload_id]
            self._taken[one.tenant_id] += total_of(one.requests)
            for name, amount in _amounts(start).items():
                of_nodes[name] += amount
        nodes = without(waiting.nodes, of_nodes)
        self._pool_of = {node.name: node.pool for node in nodes}
        known = cache(lambda held: KnownNodes(closed(nodes, held)))
        self._placement = cache(lambda asked, pools, held: placement(asked, known(held), pools))

    def of(self, one: Queued, why: Why) -> Fit:
        match why.code:
            case "behind":
                ahead = self._by_id[why.behind].name
                return Fit(
                    "later", "queue", f"Waiting for quota behind “{ahead}”, which needs the same"
                )
            case "quota":
                return self._of_quota(one)
            case "low_holds":
                return self._of_low(one)
            case code if code == IMAGE_GUARDED:
                return self._waiting.guards.tried(one.images, one.tenant_id, self._now_s)
            case "claim":
                text = "Waiting for free nodes: work of low priority is being stopped for it, and has time to save"
                return Fit("later", "nodes", text)
        return self._of_nodes(one, self._reservations.get(one.workload_id))

    def _of_nodes(self, one: Queued, kept: Reservation | None) -> Fit:
        ends_s = UNKNOWN if one.lasts_s is None else self._now_s + one.lasts_s
        held = held_before(self._waiting.holds, ends_s)
        answer = self._placement(one.requests, one.pools, held)
        if answer.kind == "now":
            # The sentence is made by a packing of its own, which may find room where the decision did not.
            rooms = (
                o for o in self._kept if any(self._pool_of.get(n) in one.pools for n, _ in o.room)
            )
            whom = "" if kept else self._whom(one, rooms)
            others = f": what is free is kept for {whom} ahead of it" if whom else ""
            answer = Fit("later", "nodes", f"Waiting for free nodes{others}")
        here = frozenset(name for name in held if self._pool_of.get(name) in one.pools)
        answer = answer_beside(answer, here, self._waiting.holds)
        return replace(answer, text=f"{answer.text}; {_promise(kept)}") if kept else answer

    def _of_quota(self, one: Queued) -> Fit:
        headroom = self._tenants[one.tenant_id]
        if one.priority == LOW and headroom.low_left is not None:
            text = "Waiting for quota: its team has as much as low priority may borrow"
            return Fit("later", "quota", text)
        assert headroom.hard is not None
        assert headroom.left is not None
        left, wanted = headroom.left - self._taken[one.tenant_id], total_of(one.requests)
        if one.priority != LOW:  # what low holds never counts against it
            left += amount_of(self._waiting.held_by_low(one.tenant_id))
        lacking = left.lacking(wanted)
        if not lacking:
            own = (o for o in self._kept if self._by_id[o.workload_id].tenant_id == one.tenant_id)
            whom = self._whom(one, own) or "a workload"
            text = f"Waiting for quota: what is free of it is kept for {whom} ahead of it"
            return Fit("later", "quota", text)
        words = (needs_text(r, wanted.get(r), left.get(r), headroom.hard.get(r)) for r in lacking)
        return Fit("later", "quota", f"Waiting for quota: {'; '.join(words)}")

    def _of_low(self, one: Queued) -> Fit:
        """Its quota is enough, but work of low priority of its namespace holds what it lacks."""
        headroom = self._tenants[one.tenant_id]
        assert headroom.hard is not None
        assert headroom.left is not None
        left, wanted = headroom.left - self._taken[one.tenant_id], total_of(one.requests)
        # What low borrows is beyond the quota, of which nothing is free then.
        left = left.largest(Amount())
        words = [
            needs_text(r, wanted.get(r), left.get(r), headroom.hard.get(r))
            for r in left.lacking(wanted)
        ]
        until = "is being stopped"
        if one.stops_from is not None and self._now_s < seconds_of(one.stops_from):
            until = f"may be stopped from {moment_text(seconds_of(one.stops_from))} on"
        held = f"work of low priority in its namespace holds what it lacks, and {until}"
        return Fit("later", "quota", f"Waiting for quota: {'; '.join([*words, held])}")

    def _whom(self, one: Queued, kept: Iterable[Reservation | RoomClaim]) -> str:
        """Whose this is: by name in its own namespace, as who may see the one may not see the others; "": nobody's."""
        owners = {o.workload_id: self._by_id[o.workload_id] for o in kept}
        owners.pop(one.workload_id, None)
        found = sorted(o.name for o in owners.values() if o.tenant_id == one.tenant_id)
        if not owners:
            return ""
        first = f"“{found[0]}”" if found else "a workload of another namespace"
        return f"{first}, which is" if len(owners) == 1 else f"{first} and others, which are"


def _promise(kept: Reservation) -> str:
    """What the owner of a reservation is told."""
    where = "a node is" if len(kept.room) == 1 else f"{len(kept.room)} nodes are"
    if kept.starts_at_s == UNKNOWN:
        return f"{where} kept for it, but what runs there has no deadline"
    return f"{where} kept so that it starts by {moment_text(kept.starts_at_s)} at the latest"


def _amounts(start: Start) -> dict[str, Amount]:
    return {
        name: Amount(cpu, memory, gpu, pods) for name, (gpu, cpu, memory, pods, _) in start.nodes
    }


def backoff_s(withdrawals: int) -> int:
    """Seconds until the next try after so many withdrawals: 30, 60, 120 ... at most 15 minutes."""
    return int(min(30 * 2 ** max(0, withdrawals - 1), 900))
