"""Which queued workloads start now: first come, first served within each tenant, all or nothing.

The head of one tenant's queue never holds up another tenant. Pure; the reconciler writes the decisions
and looks at each row again as it does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs.rules import reasons
from jobs.rules.admission import Amount, Fit, NodeCapacity, ReplicaRequest, fit, pack, total_of
from jobs.rules.reasons import Reason


@dataclass(frozen=True)
class Queued:
    """A workload in the queue; `shown` is what its row says of the wait now."""

    workload_id: str
    tenant_id: str
    name: str
    queued_at: datetime
    requests: tuple[ReplicaRequest, ...]
    not_before: datetime | None = None  # back-off after a withdrawal
    shown: Reason = reasons.NONE


@dataclass(frozen=True)
class QuotaHeadroom:
    """A tenant's quota; `closed` is a sentence when nothing of it may start, else empty."""

    hard: Amount | None
    left: Amount | None
    closed: str = ""
    closed_code: str = ""


@dataclass(frozen=True)
class Decision:
    """What becomes of one queued workload: admitted when `fit.kind` is "now"."""

    queued: Queued
    fit: Fit


def decide(
    queue: Sequence[Queued],
    tenants: Mapping[str, QuotaHeadroom],
    nodes: Sequence[NodeCapacity],
    now: datetime,
    *,
    most: int | None = None,
) -> list[Decision]:
    """One decision for each queued workload, in the order of submission.

    What was admitted earlier in the list is held against what comes later. A workload that can
    never fit as things are, or that sits out its back-off, does not hold up those behind it.

    Args:
        queue: what waits, in any order.
        tenants: of everything that waits.
        nodes: see `admission.fit`.
        now: aware UTC.
        most: when so many are admitted, the decisions end.
    """
    admitted = 0
    left = {tenant_id: headroom.left for tenant_id, headroom in tenants.items()}
    free = list(nodes)
    blocked_by: dict[str, str] = {}
    decisions = []
    for queued in sorted(queue, key=lambda one: (one.queued_at, one.workload_id)):
        headroom = tenants[queued.tenant_id]
        if headroom.closed:
            answer = Fit("later", headroom.closed_code, headroom.closed)
        elif queued.not_before is not None and now < queued.not_before:
            answer = _backing_off(queued, now)
        elif queued.tenant_id in blocked_by:
            ahead = blocked_by[queued.tenant_id]
            answer = Fit("later", "queue", f"Queued behind “{ahead}”")
        else:
            answer = fit(queued.requests, headroom.hard, left[queued.tenant_id], free)
            if answer.kind == "later":
                blocked_by[queued.tenant_id] = queued.name
        if answer.kind == "now":
            free = pack(queued.requests, free) or free
            held = left[queued.tenant_id]
            left[queued.tenant_id] = held - total_of(queued.requests) if held is not None else None
            admitted += 1
        decisions.append(Decision(queued, answer))
        if admitted == most:
            break
    return decisions


def _backing_off(queued: Queued, now: datetime) -> Fit:
    assert queued.not_before is not None
    # In steps, so that the text does not change (and is not written) every second.
    seconds = (queued.not_before - now).total_seconds()
    wait = "less than a minute" if seconds <= 60 else f"about {-(-int(seconds) // 60)} minutes"
    text = (
        "The cluster did not schedule all replicas in time, so it returned to the queue. The "
        f"next attempt is in {wait}"
    )
    return Fit("later", "withdrawn", text)


def backoff_s(withdrawals: int) -> int:
    """Seconds until the next try after so many withdrawals: 30, 60, 120 ... at most 15 minutes."""
    return int(min(30 * 2 ** max(0, withdrawals - 1), 900))
