"""Rows of trainings: `jobs.models.Job` with its replicas and archives. Blocking, see `rows`."""

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import starmap
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F, Model, Q, QuerySet

from jobs import manifests
from jobs.archive import job_prefix
from jobs.engine.rows import (
    Admitted,
    Change,
    ChangedRow,
    EventRow,
    Intent,
    Loaded,
    Unreadable,
    columns_of,
    fenced,
    keep_events,
    own_event,
    readable,
    reason_in,
)
from jobs.kinds import notes
from jobs.kinds.registry import KINDS
from jobs.kinds.state import ArchiveRow, LoadedRow, ReplicaKey, ReplicaRow, WorkloadRow
from jobs.models import Job, JobEvent, Replica, ReplicaArchive
from jobs.rules.queue import Queued
from jobs.rules.requests import requests_of
from jobs.rules.states import FINAL_REPLICA_STATES, FINAL_STATES, Desired, JobState, ReplicaState
from jobs.rules.topologies import get_topology
from portal import quantity
from portal.cluster import names
from portal.cluster.manifests import Object
from tenants.models import Tenant

log = logging.getLogger(__name__)

_REPLICAS_AT_ONCE = 100  # SQLite has a limit of variables in a query
KEY = "job"  # of the kind
_HEAVY = ("plan", "command", "env", "source", "cluster_flags")


_REPLICA_KEY = ReplicaKey.__struct_fields__
_REPLICA_VALUES = tuple(found.name for found in fields(ReplicaRow))[1:]
_ARCHIVE_VALUES = tuple(found.name for found in fields(ArchiveRow))[1:]
_STATE = _REPLICA_VALUES.index("state")


# --- reading ---
_INTENT = ("pk", "desired", "tenant__desired", "tenant__state")


def unsettled(known: Collection[UUID]) -> dict[UUID, Intent]:
    """Jobs that may have work, and what people want of each.

    Args:
        known: ended jobs on which the reconciler still works; the others are found by their state.
    """
    open_jobs = Job.objects.filter(cleaned_at__isnull=True)
    lively = ~Q(state__in=FINAL_STATES) | Q(desired=Desired.DELETE) | Q(pk__in=list(known))
    # What was cleaned and is then deleted has no objects, but a row and archived files.
    cleaned = Job.objects.filter(cleaned_at__isnull=False, desired=Desired.DELETE)
    return _intents(open_jobs.filter(lively)) | _intents(cleaned)


def all_open() -> dict[UUID, Intent]:
    """Every job that is not cleaned up: what a reconciler looks at when it starts."""
    return _intents(Job.objects.filter(Q(cleaned_at__isnull=True) | Q(desired=Desired.DELETE)))


def _intents(jobs: Any) -> dict[UUID, Intent]:
    return {pk: (desired, *tenant) for pk, desired, *tenant in jobs.values_list(*_INTENT)}


def load(ids: Iterable[UUID]) -> Loaded:
    """The rows of jobs, without what only rendering needs; jobs that are gone are absent."""
    wanted = list(ids)
    related = Job.objects.select_related("tenant", "stop_requested_by")
    jobs = list(related.filter(pk__in=wanted).defer(*_HEAVY))
    if not jobs:
        return Loaded({}, {})
    rendered = Job.objects.filter(pk__in=wanted, plan__isnull=False)
    planned = set(rendered.values_list("pk", flat=True))
    replicas = _of_jobs(Replica, wanted, (*_REPLICA_KEY, *_REPLICA_VALUES))
    archives = _of_jobs(ReplicaArchive, wanted, (*_REPLICA_KEY, *_ARCHIVE_VALUES))
    found: dict[UUID, LoadedRow] = {}
    broken: dict[UUID, Unreadable] = {}
    for job in jobs:
        try:
            found[job.pk] = LoadedRow(
                _job_row(job, job.pk in planned),
                {row.key: row for row in starmap(_replica_row, sorted(replicas[job.pk]))},
                {row.key: row for row in starmap(_archive_row, sorted(archives[job.pk]))},
            )
        except Exception as error:  # the named fence: one poisoned row must not stop the others
            log.exception("job %s: its row cannot be read", job.pk)
            text = f"its row cannot be read: {type(error).__name__} {error}"
            broken[job.pk] = Unreadable(KEY, text)
    return Loaded(found, broken)


def _job_row(job: Job, has_plan: bool) -> WorkloadRow:
    kube_name = names.job_name(job.name, job.pk, job.attempt)
    role = get_topology(job.topology).deciding.name
    return WorkloadRow(
        id=str(job.pk),
        kind=KEY,
        namespace=job.tenant.namespace,
        kube_name=kube_name,
        root_name=names.role_name(kube_name, role),
        topology=job.topology,
        image=job.image,
        counts={name: asked["count"] for name, asked in job.replicas.items()},
        memory={
            name: quantity.memory_text(asked["memory_bytes"])
            for name, asked in job.replicas.items()
        },
        queued_at=job.queued_at,
        success_policy=job.success_policy,
        retries=job.retries,
        deadline_s=job.deadline_s,
        starting_deadline_s=job.starting_deadline_s,
        clean_policy=job.clean_policy,
        ttl_s=job.ttl_s,
        desired=job.desired,
        stop_reason=job.stop_reason,
        stopped_by=job.stopped_by,
        tenant_closed=job.tenant.closed,
        state=JobState(job.state),
        reason=reason_in(job),
        attempt=job.attempt,
        requeued_count=job.requeued_count,
        not_before=job.not_before,
        admitted_at=job.admitted_at,
        started_at=job.started_at,
        deciders_ended_at=job.deciders_ended_at,
        finished_at=job.finished_at,
        has_plan=has_plan,
        root_uid=job.root_uid,
        cleaned_at=job.cleaned_at,
        notes=notes.load(job.memo),
    )


def _of_jobs(
    table: type[Model], jobs: Collection[UUID], columns: Sequence[str]
) -> Mapping[UUID, list[tuple[Any, ...]]]:
    """These columns of all rows of some jobs: plain tuples, as there are many."""
    found: dict[UUID, list[tuple[Any, ...]]] = defaultdict(list)
    rows = table._default_manager.filter(job__in=jobs).values_list("job_id", *columns)
    for job_id, *values in rows.order_by():
        found[job_id].append(tuple(values))
    return found


def _replica_row(role: str, index: int, attempt: int, *values: Any) -> ReplicaRow:
    """Of the columns of a replica, in the order of `_REPLICA_KEY` and `_REPLICA_VALUES`."""
    found = list(values)
    found[_STATE] = ReplicaState(found[_STATE])
    return ReplicaRow(ReplicaKey(role, index, attempt), *found)


def _archive_row(role: str, index: int, attempt: int, *rest: Any) -> ArchiveRow:
    """Of the columns of an archive, in the order of `_REPLICA_KEY` and `_ARCHIVE_VALUES`."""
    return ArchiveRow(ReplicaKey(role, index, attempt), *rest)


def load_documents(job_id: UUID) -> Sequence[Object]:
    """The rendered plan of a job, its Secret with what is not kept there.

    Raises:
        Job.DoesNotExist: the row is gone.
    """
    job = Job.objects.select_related("tenant").get(pk=job_id)
    training = manifests.training_of(job)
    return [manifests.with_private(document, training) for document in job.plan or ()]


def load_prefix(job_id: UUID) -> str:
    """See `store.load_prefix`."""
    return job_prefix(Job.objects.only("tenant").get(pk=job_id))


# --- the queue ---
def _queued() -> QuerySet[Job]:
    return Job.objects.filter(state=JobState.QUEUED, desired=Desired.RUN)


def read_queue() -> tuple[list[Queued], dict[UUID, Tenant]]:
    """Trainings in the queue, and whose they are."""
    jobs = _queued().select_related("tenant")
    fields = ("name", "replicas", "queued_at", "not_before", "tenant", "memo")
    words = ("reason_code", "reason_text", "reason_next_step")
    whose = ("tenant__namespace", "tenant__state", "tenant__desired")
    found = list(jobs.only("pk", *fields, *words, *whose))
    return list(readable(found, _in_queue)), {job.tenant_id: job.tenant for job in found}


def _in_queue(job: Job) -> Queued:
    return Queued(
        workload_id=str(job.pk),
        tenant_id=str(job.tenant_id),
        name=job.name,
        queued_at=job.queued_at,
        requests=requests_of(job.replicas),
        not_before=job.not_before,
        shown=reason_in(job),
    )


def read_admitted() -> list[Admitted]:
    """Trainings that hold room, or are about to."""
    states = (JobState.STARTING, JobState.RUNNING)
    jobs = Job.objects.filter(state__in=states).select_related("tenant")
    found = list(jobs.only("pk", "replicas", "attempt", "memo", "tenant__namespace"))
    attempts = {job.pk: job.attempt for job in found}
    ended: dict[UUID, Counter[str]] = {}
    over = Replica.objects.filter(job__in=attempts, state__in=FINAL_REPLICA_STATES)
    for pk, role, attempt in over.values_list("job_id", "role", "attempt"):
        if attempts[pk] == attempt:
            ended.setdefault(pk, Counter())[role] += 1

    def held(job: Job) -> Admitted:
        # What is being taken down for the queue or for good needs no room any more.
        is_leaving = notes.load(job.memo).leaving in {"queue", "stop"}
        requests = () if is_leaving else requests_of(job.replicas)
        return Admitted(str(job.pk), job.tenant.namespace, requests, ended.get(job.pk, {}))

    return list(readable(found, held))


def load_queued(ids: Collection[UUID]) -> dict[UUID, WorkloadRow]:
    """See `store.load_queued`."""
    jobs = _queued().filter(pk__in=ids).select_related("tenant", "stop_requested_by").defer(*_HEAVY)
    rows = readable(jobs, lambda job: _job_row(job, has_plan=False))
    return {UUID(row.id): row for row in rows}


def save_admission(change: Change, documents: Sequence[Object] | None) -> ChangedRow | None:
    """See `store.save_admission`."""
    columns = columns_of(change.plan.columns)
    if documents is not None:
        columns["plan"] = documents
    if not _queued().filter(pk=change.workload_id).update(revision=F("revision") + 1, **columns):
        return None
    save_events(change.workload_id, [own_event(note, change.now) for note in change.plan.events])
    return changed_row(change.workload_id)


# --- writing ---
def save(changes: Sequence[Change]) -> list[ChangedRow]:
    """Writes one tick. Call inside `Lease.commit`.

    All jobs together, in few queries. When one of them cannot be written (a broken row, a broken
    template), each is written by itself: it stops no other, its part is rolled back, logged, and
    left for a later look.

    Raises:
        OperationalError, InterfaceError: the database itself fails; nothing was written.
    """
    if not changes:
        return []
    try:
        with transaction.atomic():
            return _write(changes)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:  # noqa: BLE001  the named fence: who it was is found below
        log.warning("a tick is written job by job: %r", error)
        return fenced(changes, lambda change: next(iter(_write([change])), None))


def _write(changes: Sequence[Change]) -> list[ChangedRow]:
    """Writes changes of different jobs; those of rows that are gone are left out."""
    deleted = [_delete(change) for change in changes if change.plan.delete_row]
    kept = [change for change in changes if not change.plan.delete_row]
    jobs = Job.objects.filter(pk__in=[change.workload_id for change in kept])
    changed = [change for change in kept if change.plan.columns or change.plan.render]
    for change in changed:
        columns = columns_of(change.plan.columns)
        if change.plan.render:
            attempt, deadline_s = columns.get("attempt"), change.plan.deadline_s
            columns["plan"] = KINDS[KEY].render(change.workload_id, attempt, deadline_s)
        Job.objects.filter(pk=change.workload_id).update(**columns)
    jobs.update(revision=F("revision") + 1)
    now = jobs.order_by().values_list("pk", "tenant_id", "revision")
    found = {pk: ChangedRow(pk, tenant_id, revision) for pk, tenant_id, revision in now}
    written = [change for change in kept if change.workload_id in found]
    save_replicas((change.workload_id, row) for change in written for row in change.plan.replicas)
    for change in written:
        for key in change.plan.forgotten:
            Replica.objects.filter(
                job_id=change.workload_id, role=key.role, index=key.index, attempt=key.attempt
            ).delete()
        own = [own_event(note, change.now) for note in change.plan.events]
        save_events(change.workload_id, [*own, *change.events])
    return [*filter(None, deleted), *(found[change.workload_id] for change in written)]


def _delete(change: Change) -> ChangedRow | None:
    job = Job.objects.filter(pk=change.workload_id)
    row = job.values_list("tenant_id", "revision").first()
    job.delete()
    return ChangedRow(change.workload_id, row[0], row[1] + 1) if row is not None else None


def changed_row(job_id: UUID) -> ChangedRow:
    """The revision that a row has now."""
    tenant_id, revision = Job.objects.values_list("tenant_id", "revision").get(pk=job_id)
    return ChangedRow(job_id, tenant_id, revision)


def save_replicas(rows: Iterable[tuple[UUID, ReplicaRow]]) -> None:
    """Writes replica rows, each with its job's id, new or not: one query for a hundred."""
    made = [
        Replica(
            job_id=job_id,
            **{name: getattr(row.key, name) for name in _REPLICA_KEY},
            **{name: getattr(row, name) for name in _REPLICA_VALUES},
        )
        for job_id, row in rows
    ]
    Replica.objects.bulk_create(
        made,
        batch_size=_REPLICAS_AT_ONCE,
        update_conflicts=True,
        unique_fields=["job", *_REPLICA_KEY],
        update_fields=_REPLICA_VALUES,
    )


def save_events(job_id: UUID, events: Sequence[EventRow]) -> None:
    """Adds or updates events of a job."""
    keep_events(JobEvent, {"job_id": job_id}, events, {})
