"""Writes the verdicts of admission: a workload is admitted with its manifests, or says why it waits.

Blocking; called inside `Lease.commit`. Each write claims its row: it changes nothing when the workload
was stopped, deleted, started anew or admitted meanwhile.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from jobs.engine import store
from jobs.engine.admit import reason_of
from jobs.engine.rows import Change, QueuedJob, Saved, fenced
from jobs.kinds.registry import KINDS
from jobs.kinds.state import Observed, WorkloadRow
from jobs.rules import reasons
from jobs.rules.admission import Fit
from jobs.rules.queue import Verdict
from portal.errors import ConfigurationError

log = logging.getLogger(__name__)

_AT_ONCE = 500  # rows in one query


@dataclass(frozen=True)
class Claim:
    """One verdict, which differs from what its row says."""

    job_id: UUID
    fit: Fit


def news(found: Sequence[tuple[QueuedJob, Verdict]]) -> list[Claim]:
    """The verdicts that have to be written."""
    return [
        Claim(UUID(job.waiting.job_id), verdict.fit)
        for job, verdict in found
        if verdict.fit.kind == "now" or reason_of(verdict.fit) != job.shown
    ]


def write(claims: Sequence[Claim], now: datetime) -> list[Saved]:
    """Writes each claim; a workload that cannot be rendered fails and stops no other."""
    queued: dict[UUID, WorkloadRow] = {}
    for first in range(0, len(claims), _AT_ONCE):
        queued |= store.load_queued([one.job_id for one in claims[first : first + _AT_ONCE]])
    return fenced(claims, partial(_write_one, queued, now))


def _write_one(queued: Mapping[UUID, WorkloadRow], now: datetime, claim: Claim) -> Saved | None:
    row = queued.get(claim.job_id)
    if row is None:
        return None
    lifecycle = KINDS[row.kind].lifecycle
    documents = None
    if claim.fit.kind != "now":
        made = lifecycle(row, Observed(), now).keep_waiting(reason_of(claim.fit))
    else:
        made = lifecycle(row, Observed(), now).admit()
        try:
            documents = store.rendered(row, made.deadline_s)
        except (ConfigurationError, ValueError) as error:
            log.exception("%s %s cannot be rendered", row.kind, row.id)
            reason = reasons.make("refused", detail=str(error))
            made = lifecycle(row, Observed(), now).refuse(reason)
    return store.claim(Change(claim.job_id, row.kind, made, now), documents)
