"""Rows of notebooks and TensorBoards: `jobs.models.Service`. Blocking, see `rows`."""

import logging
from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from django.db.models import F, Q, QuerySet

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
from jobs.kinds.interactive import startup
from jobs.kinds.state import LoadedRow, WorkloadRow
from jobs.models import ENDED_STATES, Service, ServiceEvent
from jobs.rules.admission import ReplicaRequest
from jobs.rules.queue import Queued
from jobs.rules.requests import request_of
from jobs.rules.states import JobState
from jobs.services import manifests
from portal import quantity
from portal.cluster.manifests import Object
from tenants.models import Tenant

log = logging.getLogger(__name__)

_INTENT = (
    "pk",
    "desired",
    "start_count",
    "tenant__desired",
    "tenant__state",
    "owner__is_active",
)
# Fields of a `WorkloadRow` that the table calls otherwise.
_NAMES = {
    "observed_generation": "seen_start",
    "started_at": "ready_at",
    "finished_at": "ended_at",
}


# --- reading ---
def _has_work() -> Q:
    """In the cluster, or wanted otherwise than it is."""
    return (
        Q(cleaned_at__isnull=True)
        | Q(desired=Service.Desired.DELETE)
        | ~Q(seen_start=F("start_count"))
    )


def all_open() -> dict[UUID, Intent]:
    """Every service of which something may be in the cluster, and what people want of it."""
    return _intents(Q())


def unsettled(known: Collection[UUID]) -> dict[UUID, Intent]:
    """Those that may have work.

    Args:
        known: ended ones on which the reconciler still works; the others are found by their state.
    """
    is_lively = (
        ~Q(state__in=ENDED_STATES)
        | Q(desired=Service.Desired.DELETE)
        | ~Q(seen_start=F("start_count"))
        | Q(pk__in=list(known))
    )
    return _intents(is_lively)


def _intents(chosen: Q) -> dict[UUID, Intent]:
    services = Service.objects.filter(_has_work(), chosen)
    return {pk: tuple(map(str, rest)) for pk, *rest in services.values_list(*_INTENT)}


def load(ids: Iterable[UUID]) -> Loaded:
    """The rows of services, and what is wrong with those that cannot be read."""
    services = (
        Service.objects.filter(pk__in=list(ids))
        .select_related("tenant", "owner", "stop_requested_by")
        .defer("plan")
    )
    planned = set(
        Service.objects.filter(pk__in=list(ids), plan__isnull=False).values_list("pk", flat=True)
    )
    found: dict[UUID, LoadedRow] = {}
    broken: dict[UUID, Unreadable] = {}
    for service in services:
        try:
            found[service.pk] = LoadedRow(row_of(service, has_plan=service.pk in planned))
        except Exception as error:  # the named fence: one poisoned row must not stop the others
            log.exception("service %s: its row cannot be read", service.pk)
            text = f"its row cannot be read: {type(error).__name__} {error}"
            broken[service.pk] = Unreadable(service.kind, text)
    return Loaded(found, broken)


def row_of(service: Service, *, has_plan: bool) -> WorkloadRow:
    """A row as planning reads it."""
    start = max(1, service.seen_start)
    kube_name = manifests.kube_name(service.name, service.pk, start)
    return WorkloadRow(
        id=str(service.pk),
        kind=service.kind,
        namespace=service.tenant.namespace,
        kube_name=kube_name,
        root_name=kube_name,
        image=service.image,
        memory={service.kind: quantity.memory_text(service.memory_bytes)},
        queued_at=service.requested_at,
        generation=service.start_count,
        observed_generation=service.seen_start,
        desired=service.desired,
        stop_reason=service.stop_reason,
        stopped_by=service.stopped_by,
        tenant_closed=service.tenant.closed,
        is_owner_active=service.owner.is_active,
        state=JobState(service.state),
        reason=reason_in(service),
        not_before=service.not_before,
        admitted_at=service.admitted_at,
        started_at=service.ready_at,
        finished_at=service.ended_at,
        has_plan=has_plan,
        root_uid=service.root_uid,
        cleaned_at=service.cleaned_at,
        notes=notes.load(service.memo),
        steps=startup.load(service.steps),
        node=service.node,
        gpus=service.gpus,
        pod=service.pod,
        node_port=service.node_port,
        restarts=service.restarts,
        event_files=service.event_files,
    )


def load_documents(service_id: UUID) -> Sequence[Object]:
    """The rendered plan of a service.

    Raises:
        Service.DoesNotExist: the row is gone.
    """
    plan: Sequence[Object] = Service.objects.values_list("plan", flat=True).get(pk=service_id) or ()
    return plan


# --- the queue ---
def _queued() -> QuerySet[Service]:
    return Service.objects.filter(
        state=JobState.QUEUED, desired=Service.Desired.RUN, seen_start=F("start_count")
    )


def read_queue() -> tuple[list[Queued], dict[UUID, Tenant]]:
    """Services in the queue, and whose they are."""
    found = list(_queued().select_related("tenant").defer("plan", "steps"))
    return list(readable(found, _in_queue)), {one.tenant_id: one.tenant for one in found}


def _in_queue(service: Service) -> Queued:
    return Queued(
        workload_id=str(service.pk),
        tenant_id=str(service.tenant_id),
        name=service.name,
        queued_at=service.requested_at,
        requests=(_request_of(service),),
        not_before=service.not_before,
        shown=reason_in(service),
    )


def _request_of(service: Service) -> ReplicaRequest:
    size = (service.cpu_millicores, service.memory_bytes, service.gpu_count)
    return request_of(service.kind, *size)


def read_admitted() -> list[Admitted]:
    """Services that hold room, or are about to."""
    states = (JobState.STARTING, JobState.RUNNING)
    found = Service.objects.filter(state__in=states).select_related("tenant")

    def held(service: Service) -> Admitted:
        # What goes back to the queue needs no room any more.
        requests = () if service.memo.get("leaving") else (_request_of(service),)
        return Admitted(str(service.pk), service.tenant.namespace, requests, {})

    return list(readable(found.defer("plan", "steps"), held))


def load_queued(ids: Collection[UUID]) -> dict[UUID, WorkloadRow]:
    """See `store.load_queued`."""
    services = (
        _queued()
        .filter(pk__in=ids)
        .select_related("tenant", "owner", "stop_requested_by")
        .defer("plan")
    )
    rows = readable(services, lambda service: row_of(service, has_plan=False))
    return {UUID(row.id): row for row in rows}


def save_admission(change: Change, documents: Sequence[Object] | None) -> ChangedRow | None:
    """See `store.save_admission`."""
    columns = columns_of(change.plan.columns, _NAMES)
    if documents is not None:
        columns["plan"] = documents
    if not _queued().filter(pk=change.workload_id).update(revision=F("revision") + 1, **columns):
        return None
    save_events(change.workload_id, [own_event(note, change.now) for note in change.plan.events])
    return changed_row(change.workload_id)


# --- writing ---
def save(changes: Sequence[Change]) -> list[ChangedRow]:
    """Writes one tick. Call inside `Lease.commit`."""
    return fenced(changes, _save_one)


def _save_one(change: Change) -> ChangedRow | None:
    plan = change.plan
    service = Service.objects.filter(pk=change.workload_id)
    if plan.delete_row:
        row = service.values_list("tenant_id", "revision").first()
        service.delete()
        return (
            ChangedRow(change.workload_id, row[0], row[1] + 1, "service")
            if row is not None
            else None
        )
    columns = columns_of(plan.columns, _NAMES)
    if not service.update(revision=F("revision") + 1, **columns):
        return None
    own = [own_event(note, change.now) for note in plan.events]
    save_events(change.workload_id, [*own, *change.events])
    return changed_row(change.workload_id)


def changed_row(service_id: UUID) -> ChangedRow:
    """The revision that a row has now."""
    row = Service.objects.values_list("tenant_id", "revision").get(pk=service_id)
    return ChangedRow(service_id, row[0], row[1], "service")


def save_events(service_id: UUID, events: Sequence[EventRow]) -> None:
    """Adds or updates events of the start that is seen."""
    if not events:
        return
    start = Service.objects.values_list("seen_start", flat=True).get(pk=service_id)
    keep_events(ServiceEvent, {"service_id": service_id}, events, {"start_count": max(1, start)})
