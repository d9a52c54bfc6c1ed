"""Writes the verdicts of admission: a job or service is admitted with its manifests, or says why it
waits.

Blocking; called inside `Lease.commit`. Each write claims its row: it changes nothing when the job
was stopped, deleted or admitted meanwhile.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import F

from jobs.engine import job_rows, service_claim
from jobs.engine.admit import QueuedJob, reason_of
from jobs.engine.rows import EventRow, Saved, fenced, words
from jobs.kinds import notes
from jobs.models import Job
from jobs.rules import reasons
from jobs.rules.admission import Fit
from jobs.rules.queue import Verdict
from jobs.rules.states import Desired, JobState
from portal.errors import ConfigurationError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Claim:
    """One verdict, which differs from what its row says."""

    job_id: UUID
    fit: Fit
    is_service: bool = False


def news(found: Sequence[tuple[QueuedJob, Verdict]]) -> list[Claim]:
    """The verdicts that have to be written."""
    return [
        Claim(UUID(job.waiting.job_id), verdict.fit, job.is_service)
        for job, verdict in found
        if verdict.fit.kind == "now" or reason_of(verdict.fit) != job.shown
    ]


def write(claims: Sequence[Claim], now: datetime) -> list[Saved]:
    """Writes each claim; a job that cannot be rendered fails and stops no other."""
    return fenced(claims, partial(_write_one, now))


def _write_one(now: datetime, claim: Claim) -> Saved | None:
    if claim.is_service:
        return service_claim.write(claim.job_id, claim.fit, reason_of(claim.fit), now)
    queued = Job.objects.filter(pk=claim.job_id, state=JobState.QUEUED, desired=Desired.RUN)
    if claim.fit.kind == "now":
        job = queued.only("pk", "attempt", "memo", "deadline_s").first()
        return _admit(job, now) if job is not None else None
    columns = words(reason_of(claim.fit))
    return job_rows.saved(claim.job_id) if _update(claim.job_id, columns) else None


def _admit(job: Job, now: datetime) -> Saved | None:
    known = notes.load(job.memo)
    left_s = None if job.deadline_s is None else max(1, job.deadline_s - known.spent_s)
    number = known.said + 1
    columns: dict[str, Any] = {"memo": {**job.memo, "said": number}}
    try:
        columns |= {
            "plan": job_rows.rendered(job.pk, None, left_s),
            "state": JobState.STARTING,
            "admitted_at": now,
            "not_before": None,
            **words(reasons.make("creating")),
        }
        event = EventRow(f"homeport-{number}", now, "homeport", "", "admitted", "It has room now.")
    except (ConfigurationError, ValueError) as error:
        log.exception("job %s cannot be rendered", job.pk)
        reason = reasons.make("refused", detail=str(error))
        columns |= {
            "state": JobState.FAILED,
            "finished_at": now,
            "cleaned_at": now,
            **words(reason),
        }
        event = EventRow(
            f"homeport-{number}", now, "homeport", "", "state", reason.text, is_warning=True
        )
    if not _update(job.pk, columns):
        return None
    job_rows.save_events(job.pk, [event])
    return job_rows.saved(job.pk)


def _update(job_id: UUID, columns: dict[str, Any]) -> bool:
    queued = Job.objects.filter(pk=job_id, state=JobState.QUEUED, desired=Desired.RUN)
    return bool(queued.update(revision=F("revision") + 1, **columns))
