"""Processes that the kernel ended for want of memory while the rest of their container went on.

Of a container that ends with them the cluster reports (`OOMKilled`); of these only the pod knows.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial

from django.db import transaction
from django.db.models import F

from jobs import changes
from jobs.models import Workload, WorkloadEvent
from jobs.rules import reasons
from jobs.rules.reasons import Reason
from jobs.usage.minutes import Told
from portal import quantity

CODE = "process_out_of_memory"


@transaction.atomic
def record(workload: Workload, role: str, index: int, told: Told) -> None:
    """One event for each report; a report that comes again makes none."""
    who = role if role == workload.kind else f"{role}-{index}"
    at = max(minute.at for minute in told.minutes)
    _event, is_new = WorkloadEvent.objects.get_or_create(
        workload=workload,
        uid=f"{CODE}-{role}-{index}-{at}",
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


def find_latest(
    workload: Workload, events: Iterable[WorkloadEvent]
) -> tuple[Reason, WorkloadEvent] | None:
    """The last one while it runs, with what to do; None: there is none.

    Args:
        events: of the workload, the newest first.
    """
    began = workload.started_at
    if workload.is_final or began is None:
        return None
    for event in events:
        # It is reported by the minute in which it began.
        if event.reason == CODE and event.at >= began.replace(second=0, microsecond=0):
            is_whole = event.subject in workload.replicas
            role = event.subject if is_whole else event.subject.rpartition("-")[0]
            return _reason(workload, role, event.subject), event
    return None


def _reason(workload: Workload, role: str, who: str) -> Reason:
    asked = workload.replicas.get(role, {})
    limit = quantity.memory_text(asked.get("memory_bytes", 0))
    return reasons.make(CODE, who=who if who != workload.kind else f"the {who}", limit=limit)
