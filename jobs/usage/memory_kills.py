"""Processes that the kernel ended for want of memory while the rest of their container went on.

Of a container that ends with them the cluster reports (`OOMKilled`); of these only the pod knows.
"""

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial

from django.db import transaction
from django.db.models import F

from jobs import changes
from jobs.models import Workload, WorkloadEvent
from jobs.rules import reasons
from jobs.rules.reasons import Reason
from jobs.rules.states import WorkloadState
from jobs.usage.minutes import Told, is_of_now
from portal import quantity

CODE = "process_out_of_memory"


@transaction.atomic
def record(workload: Workload, role: str, index: int, attempt: int, told: Told) -> None:
    """One event for each report; a report that comes again makes none.

    Args:
        attempt: of a notebook its start.
    """
    who = role if role == workload.kind else f"{role}-{index}"
    at = _at(told)
    _event, is_new = WorkloadEvent.objects.get_or_create(
        workload=workload,
        uid=f"{_key(role, index)}-{attempt}-{at}",
        defaults={
            "generation": max(1, workload.generation),
            "at": datetime.fromtimestamp(at, UTC),
            "is_warning": True,
            "source": "homeport",
            "subject": who,
            "reason": CODE,
            "message": _reason(workload, role, who).text,
            "count": told.oom_kills,
        },
    )
    if is_new:
        Workload.objects.filter(pk=workload.pk).update(revision=F("revision") + 1)
        workload.refresh_from_db(fields=["revision"])
        transaction.on_commit(partial(changes.tell_browsers, workload))


def _key(role: str, index: int) -> str:
    return f"{CODE}-{role}-{index}"


def _at(told: Told) -> int:
    """The last minute that can be one of now; where the pod's clock is wrong ours, so that not every report makes an event."""
    now_s = int(time.time())
    known = [minute.at for minute in told.minutes if is_of_now(minute, now_s)]
    return max(known, default=now_s - now_s % 60)


def find_latest(
    workload: Workload, events: Iterable[WorkloadEvent]
) -> tuple[Reason, WorkloadEvent] | None:
    """The last one of what runs, or of the attempt by which it failed, with what to do; None: there is none.

    Args:
        events: of the workload, the newest first.
    """
    has_failed = workload.state == WorkloadState.FAILED and workload.reason_code != "out_of_memory"
    if workload.started_at is None or (workload.is_final and not has_failed):
        return None
    for event in events:
        if event.reason != CODE:
            continue
        is_whole = event.subject == workload.kind
        role, _, index = event.subject.rpartition("-")
        role, index = (event.subject, "0") if is_whole else (role, index)
        attempt = workload.generation if is_whole else workload.attempt
        if _is_of(event, f"{_key(role, int(index))}-", attempt, workload.started_at):
            return _reason(workload, role, event.subject), event
    return None


def _is_of(event: WorkloadEvent, key: str, attempt: int, began: datetime) -> bool:
    told_by, _, minute = event.uid.removeprefix(key).rpartition("-")
    if minute and told_by:
        return int(told_by) == attempt
    # Older rows have no attempt. It is reported by the minute in which it began.
    return event.at >= began.replace(second=0, microsecond=0)


def _reason(workload: Workload, role: str, who: str) -> Reason:
    asked = workload.replicas.get(role, {})
    limit = quantity.memory_text(asked.get("memory_bytes", 0))
    return reasons.make(CODE, who=who if who != workload.kind else f"the {who}", limit=limit)
