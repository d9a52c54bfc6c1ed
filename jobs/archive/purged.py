"""Forgets what a purged namespace kept in the object store: the rows that name objects which are gone."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from jobs.models import Artifact, Bundle, LogSegment, ReplicaArchive

_BATCH = 1000  # rows of a table in one transaction, which others wait for


def forget_of_tenant(tenant_id: UUID) -> bool:
    """Removes uploads, logs and files of a namespace, some at a time; whether there may be more.

    The trainings stay as history: which there were, and how they ended.
    """
    of_logs = ReplicaArchive.objects.filter(workload__tenant_id=tenant_id)
    counts = (
        _remove_some(LogSegment.objects.filter(archive__workload__tenant_id=tenant_id)),
        _remove_some(of_logs.filter(segments__isnull=True)),
        _remove_some(Artifact.objects.filter(workload__tenant_id=tenant_id)),
        _remove_some(Bundle.objects.filter(tenant_id=tenant_id)),
    )
    return any(count == _BATCH for count in counts)


def _remove_some(rows: QuerySet[Any]) -> int:
    """How many it was."""
    pks = list(rows.order_by().values_list("pk", flat=True)[:_BATCH])
    rows.model._default_manager.filter(pk__in=pks).delete()
    return len(pks)
