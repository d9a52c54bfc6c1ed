"""How long trainings were suspended since they began to run: time that no duration of them has."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any
from uuid import UUID

from django.db.models import Q

from jobs.models import Attempt
from jobs.rules.restarts import Cause
from jobs.rules.states import WorkloadState

# Why an attempt ended that a person suspended (jobs/rules/reasons.py).
_SUSPENDED = ("suspended", "suspended_by")


def suspended_seconds(trainings: Iterable[Any]) -> dict[UUID, int]:
    """Whole seconds by the ids of all of them; of a suspension that still lasts none. One query at most.

    Args:
        trainings: each has `pk`, `attempt`, `state`, `started_at` and `finished_at`.
    """
    listed = list(trainings)
    found = {row.pk: 0 for row in listed}
    # What was suspended goes on as another attempt, or was stopped.
    rows = {
        row.pk: row
        for row in listed
        if row.started_at and (row.attempt > 1 or row.state == WorkloadState.STOPPED)
    }
    if not rows:
        return found
    told = Attempt.objects.filter(Q(cause=Cause.RESUMED) | Q(reason_code__in=_SUSPENDED))
    were = told.filter(workload__in=rows).order_by().values("workload")
    attempts: dict[UUID, list[Attempt]] = defaultdict(list)
    for attempt in Attempt.objects.filter(workload__in=were).order_by("workload", "number"):
        attempts[attempt.workload_id].append(attempt)
    for pk, own in attempts.items():
        gaps = [
            (before.ended_at, after.started_at or after.admitted_at)
            for before, after in pairwise(own)
            if after.cause == Cause.RESUMED
        ]
        if own[-1].reason_code in _SUSPENDED:
            gaps.append((own[-1].ended_at, rows[pk].finished_at))
        since = rows[pk].started_at
        lengths = [
            (end - max(begin, since)).total_seconds()
            for begin, end in gaps
            if begin and end and since
        ]
        found[pk] = int(sum(length for length in lengths if length > 0))
    return found
