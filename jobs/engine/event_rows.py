"""The rows of events. Blocking; written inside `Lease.commit` only, with the rows that they are about."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from jobs.engine.rows import EventRow
from jobs.models import WorkloadEvent

EVENTS_MAX = 500  # per workload


def save_events(workload_id: UUID, generation: int, events: Sequence[EventRow]) -> None:
    """Adds or updates events; the oldest of the cluster's give way beyond `EVENTS_MAX`.

    Args:
        generation: the one that was observed, 0 before the first look.
    """
    if not events:
        return
    kept = WorkloadEvent.objects.filter(workload=workload_id)
    for event in events:
        values = {
            "at": event.at or timezone.now(),
            "is_warning": event.is_warning,
            "source": event.source[:63],
            "subject": event.subject[:253],
            "reason": event.reason[:64],
            "message": event.message[:4000],
            "count": event.count,
        }
        uid = event.uid[:80]
        if not kept.filter(uid=uid).update(**values):
            about = {"workload_id": workload_id, "generation": max(1, generation)}
            WorkloadEvent.objects.create(**about, uid=uid, **values)
    _drop_oldest(kept)


def _drop_oldest(kept: QuerySet[Any]) -> None:
    surplus = kept.count() - EVENTS_MAX
    for chosen in (kept.exclude(source="homeport"), kept):
        if surplus > 0:
            oldest = list(chosen.order_by("at", "id").values_list("pk", flat=True)[:surplus])
            kept.filter(pk__in=oldest).delete()
            surplus -= len(oldest)
