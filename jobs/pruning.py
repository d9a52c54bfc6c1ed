"""Deletes finished trainings by age, many at once: what they hold is counted before anything goes.

People ask for it (`jobs/workloads/actions.py`), and RETENTION_DAYS does (`jobs/retention.py`). As after a
single delete they are gone from view at once, and the reconciler removes rows, logs and files. Their
folders on the log volume stay: the portal cannot look into volumes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Sum
from django.utils.translation import gettext as _

from jobs.kinds.training.spec import KEY
from jobs.models import Artifact, LogSegment, Workload, WorkloadQuerySet
from jobs.rules.states import FINAL_STATES, Desired
from tenants.audit.record import AuditTarget, record
from tenants.models import User

MOST = 500  # deleted by one call; each is some rows and objects for the reconciler to remove


@dataclass(frozen=True)
class Held:
    """What trainings of one state hold in the database and in the object store."""

    state: str
    count: int
    logs_bytes: int
    artifacts_bytes: int


@dataclass(frozen=True)
class Holdings:
    """The same by state, with the sums; states of which there is nothing are left out."""

    states: Sequence[Held]

    @property
    def count(self) -> int:
        return sum(one.count for one in self.states)

    @property
    def logs_bytes(self) -> int:
        return sum(one.logs_bytes for one in self.states)

    @property
    def artifacts_bytes(self) -> int:
        return sum(one.artifacts_bytes for one in self.states)

    @property
    def size_bytes(self) -> int:
        return self.logs_bytes + self.artifacts_bytes


def folders_note() -> str:
    """What is not deleted, for answers and pages."""
    return _(
        "Their folders on the log volume stay, and Homeport cannot tell how large they are: delete "
        "them from a notebook, under /log."
    )


def finished(before: datetime, states: Collection[str] = FINAL_STATES) -> WorkloadQuerySet:
    """Trainings that ended before this time in one of these states, and are not being deleted."""
    rows: WorkloadQuerySet = Workload.objects.filter(kind=KEY, finished_at__lt=before)
    return rows.filter(state__in=FINAL_STATES & set(states)).exclude(desired=Desired.DELETE)


def holdings(rows: WorkloadQuerySet) -> Holdings:
    """What these hold; three queries."""
    chosen = rows.order_by().values("pk")
    logs = LogSegment.objects.filter(archive__workload__in=chosen).order_by()
    kept = Artifact.objects.filter(workload__in=chosen, uploaded_at__isnull=False).order_by()
    counts = dict(rows.order_by().values_list("state").annotate(Count("pk")))
    log_sums = dict(logs.values_list("archive__workload__state").annotate(Sum("size_bytes")))
    kept_sums = dict(kept.values_list("workload__state").annotate(Sum("size_bytes")))
    return Holdings(
        tuple(
            Held(state, counts[state], log_sums.get(state, 0), kept_sums.get(state, 0))
            for state in sorted(counts)
        )
    )


@transaction.atomic
def delete(
    rows: WorkloadQuerySet, *, by: User | None, detail: Mapping[str, Any]
) -> tuple[list[Workload], Holdings]:
    """Deletes up to `MOST` of them, those that ended first; one entry of the audit trail for all.

    Args:
        by: None: Homeport.
        detail: for the audit trail, beside count and bytes.

    Returns:
        Those that were deleted, with their new revision, and what they held.
    """
    # Two at once, as the nightly one and a person's, do not wait for each other: rows of one are
    # skipped by the other. SQLite has one writer at a time, and ignores it.
    locked = rows.select_for_update(of=("self",), skip_locked=True).order_by("finished_at", "pk")
    columns = ("kind", "revision", "tenant", "tenant__namespace")
    chosen = list(locked.select_related("tenant").only(*columns)[:MOST])
    same: WorkloadQuerySet = Workload.objects.filter(pk__in=[row.pk for row in chosen])
    held = holdings(same)
    if not chosen:
        return [], held
    same.update(desired=Desired.DELETE, revision=F("revision") + 1)
    for row in chosen:
        row.revision += 1
    namespaces = sorted({row.tenant.namespace for row in chosen}) if by is not None else ()
    told = {"kind": "finished", **detail, "count": held.count, "bytes": held.size_bytes}
    target = AuditTarget("job", ", ".join(namespaces))
    record(by=by, verb="prune", target=target, detail=told)
    return chosen, held
