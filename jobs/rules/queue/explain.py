"""Which rules of the queue apply to one that waits, in order, each as a sentence in plain words.

No sentence names anybody of another namespace: who may see the one may not see the others.
"""

from collections.abc import Mapping

from jobs.rules.queue.holds import held_before, held_text
from jobs.rules.queue.order import QueueOrder
from jobs.rules.queue.state import (
    HIGH,
    IMAGE_GUARDED,
    LOW,
    UNKNOWN,
    Decided,
    QueuedWorkload,
    QueueRules,
    QueueState,
    Reservation,
    Why,
)
from jobs.rules.queue.times import moment_text

_HELD = "What ends by its deadline before the hold begins still starts there; this one would not."
_OWN_WORDS = frozenset({"quota", "behind", "low_holds", "nodes", "claim", "backing_off"})


def explain(
    state: QueueState, decided: Decided, rules: QueueRules, names: Mapping[tuple[str, str], str]
) -> dict[str, tuple[str, ...]]:
    """By workload, of all that still wait after this look.

    Args:
        names: of workloads, by their namespaces and ids.
    """
    order = QueueOrder(state, rules)
    started = {start.workload_id for start in decided.starts}
    found = {}
    for queued in state.queued:
        if queued.workload_id not in started:
            is_aged = order.ages_at_s(queued) <= state.now_s
            why = decided.why.get(queued.workload_id)
            asked = _asked(queued, rules, is_aged=is_aged)
            found[queued.workload_id] = (
                *asked,
                *(_waits(queued, why, state, decided, names) if why else ()),
            )
    return found


def order_text(rules: QueueRules) -> str:
    """In which order everything that waits is tried, as a page says it of all."""
    first = (
        "Fair share is on: the team that holds least for its weight is tried first, in it the namespace that "
        "holds least."
        if rules.fair_share
        else "What was submitted first, in the whole cluster, is tried first."
    )
    return (
        f"{first} High priority goes before the rest of its team, low priority after all others; what has "
        f"waited for {rules.aging_s // 3600} hours may go before all. Each namespace may move its own to the "
        "front or the back. All replicas start together or none does; a later one may start before another "
        "where that does not delay it."
    )


def _asked(queued: QueuedWorkload, rules: QueueRules, *, is_aged: bool) -> tuple[str, ...]:
    """When it is asked."""
    hours = rules.aging_s // 3600
    told = (
        "Fair share: the team that holds least for its weight is tried first, in it the namespace that "
        "holds least, of equal ones what was submitted first."
        if rules.fair_share
        else "Order: what was submitted first, in the whole cluster, is tried first."
    )
    if queued.priority == HIGH:
        told = "High priority: it is tried before the rest of its team, and before no other team."
    if is_aged:
        told = (
            f"Aging: it has waited for more than {hours} hours in which nothing as large of its "
            "namespace started, so it is tried before all others."
        )
    if queued.priority == LOW:
        told = (
            "Low priority: it is tried after everything of normal and high priority, even what is submitted "
            "later, and may be stopped to make room for that."
        )
    own = "Own order: it was moved among what its namespace has in the queue."
    return (told, own) if queued.rank else (told,)


def _waits(
    queued: QueuedWorkload,
    why: Why,
    state: QueueState,
    decided: Decided,
    names: Mapping[tuple[str, str], str],
) -> tuple[str, ...]:
    """Why it does not start."""
    if why.code == "backing_off":
        at = moment_text(queued.not_before_s)
        return (
            f"Back-off: the cluster could not place it, so it is tried again at {at}. It holds up nobody.",
        )
    if why.code == IMAGE_GUARDED:
        told = (
            "Guard: an image of it could not be pulled three times within ten minutes, so one training tries "
            "it every ten minutes, until a pod with it runs. It holds up nobody."
        )
        return (told,)
    if why.code not in _OWN_WORDS:
        return ("It may not start yet, whatever room there is. It holds up nobody.",)
    if why.code == "quota":
        told = (
            "Quota: its namespace has too little left. Later workloads of the namespace that need the same "
            "wait behind it; other namespaces do not."
        )
        return (told,)
    if why.code == "behind":
        return (
            "Quota: a workload of its namespace that is ahead of it lacks quota that this one needs, too.",
        )
    if why.code == "low_holds":
        return (_held_by_low(queued, state),)
    is_held = why.code == "nodes" and why.resources
    left = "has enough, with what its work of low priority holds" if is_held else "has enough left"
    found = [f"Quota: its namespace {left}."]
    if why.code == "claim":
        found.append(
            "Preemption: work of low priority is being stopped for it, and nothing else starts on those nodes."
        )
        return tuple(found)
    found.append(
        "All or nothing: it starts with all of its replicas at once, and the free nodes that are not kept "
        "for others have no room for that."
    )
    if state.now_s < queued.stops_from_s:
        found.append(
            "Preemption: it was withdrawn after others had been stopped for it, so it stops nobody before "
            f"{moment_text(queued.stops_from_s)}."
        )
    pools = {node.name: node.pool for node in state.nodes}
    holds = {node.name: node.hold_from_s for node in state.nodes if node.pool in queued.pools}
    if held := held_before(holds, min(UNKNOWN, state.now_s + queued.lasts_s)):
        found.append(f"Hold: {held_text(held, holds)}. {_HELD}")
    for kept in decided.reservations:
        if kept.workload_id == queued.workload_id:
            found.append(_own(kept))
        elif any(pools.get(name) in queued.pools for name, _ in kept.room):
            found.append(_others(kept, queued, names))
    return tuple(found)


def _held_by_low(queued: QueuedWorkload, state: QueueState) -> str:
    held = "Quota: work of low priority in its namespace holds what it lacks"
    if state.now_s >= queued.stops_from_s:
        return f"{held}, and is being stopped."
    return (
        f"{held}. It was withdrawn after others had been stopped for it, so it stops nobody before "
        f"{moment_text(queued.stops_from_s)}."
    )


def _nodes(kept: Reservation) -> str:
    return "A node is" if len(kept.room) == 1 else f"{len(kept.room)} nodes are"


def _own(kept: Reservation) -> str:
    by = (
        f"by the deadlines of what runs there it starts by {moment_text(kept.starts_at_s)} at the latest"
        if kept.starts_at_s != UNKNOWN
        else "what runs there has no deadline, so nobody knows when"
    )
    return f"Reservation: {_nodes(kept).lower()} kept for it, as it is the first that lacks only free nodes; {by}."


def _others(kept: Reservation, queued: QueuedWorkload, names: Mapping[tuple[str, str], str]) -> str:
    name = names.get((queued.namespace, kept.workload_id))
    whom = f"“{name}”" if name else "another workload"
    told = f"Reservation: {_nodes(kept).lower()} kept for {whom}, which is ahead of it"
    if kept.starts_at_s == UNKNOWN:
        return f"{told}. Only what lasts an hour at most, or fits beside it, still starts there."
    at = moment_text(kept.starts_at_s)
    own = (
        "this one has no deadline"
        if queued.lasts_s == UNKNOWN
        else "this one ends later if it starts now"
    )
    return (
        f"{told} and starts by {at} at the latest. Until then only what ends before by its deadline, or "
        f"fits beside it, still starts there; {own}."
    )
