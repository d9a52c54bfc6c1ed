"""Which waiting trainings start now: first come, first served within each tenant, all or nothing.

The head of one tenant's queue never holds up another tenant. Pure; the reconciler calls it inside
the transaction that writes the verdicts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from jobs.rules.admission import Amount, Fit, Need, NodeRoom, fit, pack, total_of


@dataclass(frozen=True)
class Waiting:
    """A training in the queue."""

    job_id: str
    tenant_id: str
    name: str
    queued_at: datetime
    needs: tuple[Need, ...]
    not_before: datetime | None = None  # back-off after a withdrawal


@dataclass(frozen=True)
class TenantRoom:
    """A tenant's quota; `closed` is a sentence when nothing of it may start, else empty."""

    hard: Amount | None
    left: Amount | None
    closed: str = ""
    closed_code: str = ""


@dataclass(frozen=True)
class Verdict:
    """What becomes of one waiting training: admitted when `fit.kind` is "now"."""

    job_id: str
    fit: Fit


def decide(
    queue: Sequence[Waiting],
    tenants: Mapping[str, TenantRoom],
    nodes: Sequence[NodeRoom],
    now: datetime,
    *,
    most: int | None = None,
) -> list[Verdict]:
    """One verdict for each waiting training, in the order of submission.

    What was admitted earlier in the list is held against what comes later. A training that can
    never fit as things are, or that sits out its back-off, does not hold up those behind it.

    Args:
        queue: what waits, in any order.
        tenants: of everything that waits.
        nodes: see `admission.fit`.
        now: aware UTC.
        most: when so many are admitted, the verdicts end.
    """
    admitted = 0
    left = {tenant_id: room.left for tenant_id, room in tenants.items()}
    rooms = list(nodes)
    blocked_by: dict[str, str] = {}
    verdicts = []
    for job in sorted(queue, key=lambda waiting: (waiting.queued_at, waiting.job_id)):
        room = tenants[job.tenant_id]
        if room.closed:
            verdict = Fit("later", room.closed_code, room.closed)
        elif job.not_before is not None and now < job.not_before:
            verdict = _backing_off(job, now)
        elif job.tenant_id in blocked_by:
            ahead = blocked_by[job.tenant_id]
            verdict = Fit("later", "queue", f"Waits behind “{ahead}”, which was submitted earlier.")
        else:
            verdict = fit(job.needs, room.hard, left[job.tenant_id], rooms)
            if verdict.kind == "later":
                blocked_by[job.tenant_id] = job.name
        if verdict.kind == "now":
            rooms = pack(job.needs, rooms) or rooms
            held = left[job.tenant_id]
            left[job.tenant_id] = held - total_of(job.needs) if held is not None else None
            admitted += 1
        verdicts.append(Verdict(job.job_id, verdict))
        if admitted == most:
            break
    return verdicts


def _backing_off(job: Waiting, now: datetime) -> Fit:
    assert job.not_before is not None
    # In steps, so that the text does not change (and is not written) every second.
    seconds = (job.not_before - now).total_seconds()
    wait = "less than a minute" if seconds <= 60 else f"about {-(-int(seconds) // 60)} minutes"
    text = (
        "The cluster did not place all replicas in time, so everything was given back. "
        f"The next try is in {wait}."
    )
    return Fit("later", "withdrawn", text)


def backoff_s(withdrawals: int) -> int:
    """Seconds until the next try after so many withdrawals: 30, 60, 120 ... at most 15 minutes."""
    return int(min(30 * 2 ** max(0, withdrawals - 1), 900))
