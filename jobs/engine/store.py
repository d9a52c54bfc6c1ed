"""The reconciler's reads and writes of workloads. Blocking: called in the database thread.

Writes are made inside `Lease.commit` only, one transaction per tick, and only what changed.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from itertools import starmap
from typing import Any, Protocol, TypeVar
from uuid import UUID

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F, Model, Q, QuerySet
from django.db.models.fields.json import KT, KeyTransform
from django.db.models.lookups import IsNull

from jobs.engine import manifests, reservations
from jobs.engine.event_rows import save_events
from jobs.engine.rows import (
    Change,
    ChangedRow,
    EventRow,
    Intent,
    Loaded,
    own_event,
)
from jobs.kinds import notes
from jobs.kinds.interactive import startup
from jobs.kinds.manifests import Grant, kube_name
from jobs.kinds.registry import KINDS
from jobs.kinds.state import (
    ArchiveRow,
    AttemptRow,
    LoadedRow,
    ReplicaKey,
    ReplicaRow,
    WorkloadRow,
)
from jobs.models import WITH_WORK, Attempt, Replica, ReplicaArchive, Workload
from jobs.rules.queue.state import LOW, Preemption
from jobs.rules.reasons import Reason
from jobs.rules.requests import at_once, indexes_of
from jobs.rules.states import (
    FINAL_STATES,
    HOLDING_STATES,
    Desired,
    ReplicaState,
    WorkloadState,
)
from jobs.scheduling.models import NodeHold
from portal import quantity
from portal.cluster.manifests import Object

log = logging.getLogger(__name__)

_REPLICAS_AT_ONCE = 100  # SQLite has a limit of variables in a query
_INTENT = (
    *("pk", "desired", "generation", "preempted_at", "ends_by"),
    *("tenant__desired", "tenant__state", "owner__is_active"),
)
# Columns have the names of the fields, and are asked for in their order.
_REPLICA_KEY = ReplicaKey.__struct_fields__
_REPLICA_VALUES = tuple(found.name for found in fields(ReplicaRow))[1:]
_ARCHIVE_VALUES = tuple(found.name for found in fields(ArchiveRow))[1:]
_ATTEMPT = tuple(found.name for found in fields(AttemptRow))
_STATE = _REPLICA_VALUES.index("state")
# What a `WorkloadRow` has just as its row does.
_AS_STORED = (
    *("image", "queued_at", "generation", "observed_generation", "desired", "stop_reason"),
    *("stopped_by", "attempt", "requeued_count", "not_before", "admitted_at"),
    *("preempted_at", "preempted_for", "preempted_why", "stops_from"),
    *(
        "started_at",
        "deciders_ended_at",
        "finished_at",
        "has_plan",
        "root_uid",
        "cleaned_at",
        "node_port",
    ),
    "event_files",
)
# In the queue, where it may stay; that another start was asked for is noticed by planning first.
IS_QUEUED = Q(state=WorkloadState.QUEUED, desired=Desired.RUN, observed_generation=F("generation"))
T = TypeVar("T")


class _OfWorkload(Protocol):
    """Anything that is written of one workload."""

    @property
    def workload_id(self) -> UUID: ...


C = TypeVar("C", bound=_OfWorkload)


# --- which rows ---
def all_open() -> dict[UUID, Intent]:
    """Every workload that is in the cluster, or wanted otherwise than it is, and what people want of it."""
    return _intents(Q())


def unsettled(known: Collection[UUID]) -> dict[UUID, Intent]:
    """Workloads that may have work, and what people want of each.

    Args:
        known: ended ones on which the reconciler still works; the others are found by their state.
    """
    # What was cleaned and is then deleted has no objects, but a row and archived files.
    is_wanted_otherwise = Q(desired=Desired.DELETE) | ~Q(observed_generation=F("generation"))
    return _intents(~Q(state__in=FINAL_STATES) | is_wanted_otherwise | Q(pk__in=list(known)))


def _intents(chosen: Q) -> dict[UUID, Intent]:
    rows = Workload.objects.filter(WITH_WORK, chosen).order_by()
    return {pk: tuple(map(str, rest)) for pk, *rest in rows.values_list(*_INTENT)}


# --- their rows ---
def load(ids: Iterable[UUID]) -> Loaded:
    """Rows without what only rendering needs; those that are gone are absent."""
    wanted = list(ids)
    workloads = list(_for_planning().filter(pk__in=wanted))
    if not workloads:
        return Loaded({}, {})
    replicas = _of_workloads(Replica, wanted, (*_REPLICA_KEY, *_REPLICA_VALUES))
    archives = _of_workloads(ReplicaArchive, wanted, (*_REPLICA_KEY, *_ARCHIVE_VALUES))
    current = Attempt.objects.filter(workload__in=wanted, number=F("workload__attempt")).order_by()
    attempts = {
        pk: AttemptRow(*rest) for pk, *rest in current.values_list("workload_id", *_ATTEMPT)
    }
    found: dict[UUID, LoadedRow] = {}
    broken: dict[UUID, str] = {}
    for one in workloads:
        try:
            found[one.pk] = LoadedRow(
                _row_of(one),
                attempts.get(one.pk),
                {row.key: row for row in starmap(_replica_row, sorted(replicas[one.pk]))},
                {row.key: row for row in starmap(_archive_row, sorted(archives[one.pk]))},
            )
        except Exception as error:  # the named fence: one poisoned row must not stop the others
            log.exception("%s %s: its row cannot be read", one.kind, one.pk)
            broken[one.pk] = f"its row cannot be read: {type(error).__name__} {error}"
    return Loaded(found, broken)


def _for_planning() -> QuerySet[Workload]:
    """Rows without their manifests and specs, but for what planning needs of these."""
    rows = Workload.objects.select_related("tenant", "owner", "stop_requested_by")
    return rows.defer("plan", "spec").annotate(
        topology=KT("spec__topology"),
        run_policy=KeyTransform("run_policy", "spec"),
        secrets=KeyTransform("secrets", "spec"),
        has_plan=IsNull(F("plan"), False),
    )


def _row_of(workload: Any) -> WorkloadRow:
    """Of one of `_for_planning`."""
    array = next((asked for asked in workload.replicas.values() if "at_once" in asked), None)
    topology = workload.topology or ""
    base = kube_name(workload.name, workload.pk, workload.attempt)
    return WorkloadRow(
        id=str(workload.pk),
        kind=workload.kind,
        namespace=workload.tenant.namespace,
        kube_name=base,
        root_name=KINDS[workload.kind].root_name(base, topology, workload.replicas),
        memory={
            role: quantity.memory_text(asked["memory_bytes"])
            for role, asked in workload.replicas.items()
        },
        images={
            role: asked["image"] for role, asked in workload.replicas.items() if "image" in asked
        },
        counts={role: asked["count"] for role, asked in workload.replicas.items()},
        least={
            role: asked["min_count"]
            for role, asked in workload.replicas.items()
            if asked.get("min_count") is not None
        },
        tasks=tuple(indexes_of(array)) if array else (),
        at_once=at_once(array) if array else 0,
        topology=topology,
        run_policy=workload.run_policy or {},
        has_secrets=bool(workload.secrets),
        tenant_closed=workload.tenant.closed,
        is_owner_active=workload.owner.is_active,
        state=WorkloadState(workload.state),
        ends_by=workload.room_ends_by,
        reason=reason_in(workload),
        notes=notes.load(workload.notes),
        steps=startup.load(workload.steps),
        **{name: getattr(workload, name) for name in _AS_STORED},
    )


def reason_in(workload: Workload) -> Reason:
    return Reason(workload.reason_code, workload.reason_text, workload.reason_next_step)


def _of_workloads(
    table: type[Model], workloads: Collection[UUID], columns: Sequence[str]
) -> Mapping[UUID, list[tuple[Any, ...]]]:
    """These columns of all rows of some workloads: plain tuples, as there are many."""
    found: dict[UUID, list[tuple[Any, ...]]] = defaultdict(list)
    rows = table._default_manager.filter(workload__in=workloads)
    for workload_id, *values in rows.order_by().values_list("workload_id", *columns):
        found[workload_id].append(tuple(values))
    return found


def _replica_row(role: str, index: int, attempt: int, *values: Any) -> ReplicaRow:
    """Of the columns of a replica, in the order of `_REPLICA_KEY` and `_REPLICA_VALUES`."""
    found = list(values)
    found[_STATE] = ReplicaState(found[_STATE])
    return ReplicaRow(ReplicaKey(role, index, attempt), *found)


def _archive_row(role: str, index: int, attempt: int, *rest: Any) -> ArchiveRow:
    """Of the columns of an archive, in the order of `_REPLICA_KEY` and `_ARCHIVE_VALUES`."""
    return ArchiveRow(ReplicaKey(role, index, attempt), *rest)


# --- the queue ---
def readable(found: Iterable[Workload], read: Callable[[Workload], T]) -> Iterator[T]:
    """What can be read of each; a broken row holds up nobody (the controller says so on it)."""
    for row in found:
        try:
            yield read(row)
        except Exception:  # the named fence: one poisoned row must not stop admission
            log.exception("%r: the row cannot be read", row)


def load_queued(ids: Collection[UUID]) -> dict[UUID, WorkloadRow]:
    """Of these the rows that are in the queue, and may stay there; what cannot be read is left out."""
    rows = _for_planning().filter(IS_QUEUED, pk__in=ids)
    return {UUID(row.id): row for row in readable(rows, _row_of)}


def stays_longer(ends: Mapping[str, datetime | None]) -> bool:
    """Whether one of these may hold its room for longer than this: a lead has extended its deadline.

    Args:
        ends: by workload; None: it has no end.
    """
    known = {UUID(pk): at for pk, at in ends.items() if at is not None}
    rows = Workload.objects.filter(state__in=HOLDING_STATES, ends_by__isnull=False)
    now = {row.pk: row.room_ends_by for row in rows.only("ends_by", "admitted_at")}
    return any((now.get(pk) or at) > at for pk, at in known.items())


def save_admission(
    change: Change, documents: Sequence[Object] | None, *, is_low: bool = False
) -> ChangedRow | None:
    """Writes what admission says of a row, with its manifests if it has room. See `save`.

    Args:
        is_low: it was given room as one of low priority, which may borrow.

    Returns:
        None: it is not in the queue any more, or its priority was raised, and nothing was written.
    """
    columns = _columns_of(change.plan.columns)
    if documents is not None:
        columns["plan"] = documents
    queued = Workload.objects.filter(IS_QUEUED, pk=change.workload_id)
    if is_low:
        queued = queued.filter(spec__priority=LOW)
    if not queued.update(revision=F("revision") + 1, **columns):
        return None
    [changed] = _changed_rows([change.workload_id])
    _save_attempts([change])
    save_events(changed.workload_id, changed.generation, _events_of(change))
    return changed


def preempt(stop: Preemption, now: datetime) -> ChangedRow | None:
    """What runs is to give up its room; None: it ends already, or somebody wants it otherwise."""
    for_whom, why = _for_whom(stop)
    if not (for_whom or why):
        return None
    running = Workload.objects.filter(
        pk=stop.workload_id,
        spec__priority=LOW,  # as it is now
        state__in=HOLDING_STATES - {WorkloadState.STOPPING},
        desired=Desired.RUN,
        preempted_at=None,
    )
    words = {"preempted_for": for_whom, "preempted_why": why}
    if not running.update(preempted_at=now, revision=F("revision") + 1, **words):
        return None
    return _changed_rows([UUID(stop.workload_id)])[0]


def _for_whom(stop: Preemption) -> tuple[str, str]:
    """Whose it is that waits, or why it is stopped for nobody; neither: not any more."""
    if stop.beneficiary:
        waits = Workload.objects.filter(IS_QUEUED, pk=stop.beneficiary)
        beneficiary = waits.select_related("owner").first()
        return ("" if beneficiary is None else beneficiary.owner.shown_name[:150]), ""
    hold = NodeHold.objects.filter(node=stop.node).first()
    return "", "" if hold is None else hold.why


# --- writing ---
def save(changes: Sequence[Change]) -> list[ChangedRow]:
    """Writes one tick. Call inside `Lease.commit`.

    All rows together, in few queries. When one of them cannot be written (a broken row, a broken
    template), each is written by itself: it stops no other, its part is rolled back, logged, and
    left for a later look.

    Raises:
        OperationalError, InterfaceError: the database itself fails; nothing was written.
    """
    if not changes:
        return []
    closed = reservations.ClosedNodes(changes[0].now)
    try:
        with transaction.atomic():
            return _write(changes, closed)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:  # noqa: BLE001  the named fence: who it was is found below
        log.warning("a tick is written row by row: %r", error)
        return fenced(changes, lambda change: next(iter(_write([change], closed)), None))


def fenced(changes: Sequence[C], write: Callable[[C], ChangedRow | None]) -> list[ChangedRow]:
    """Writes each change in a savepoint of its own.

    Raises:
        OperationalError, InterfaceError: the database itself fails; nothing was written.
    """
    written = []
    for change in changes:
        try:
            with transaction.atomic():
                result = write(change)
        except (OperationalError, InterfaceError):
            raise
        except Exception:  # the named fence: one poisoned row must not stop the others
            log.exception("%s: what was observed cannot be written", change.workload_id)
            continue
        if result is not None:
            written.append(result)
    return written


def _write(changes: Sequence[Change], closed: reservations.ClosedNodes) -> list[ChangedRow]:
    """Writes changes of different rows; those of rows that are gone are left out."""
    deleted = [_delete(change) for change in changes if change.plan.delete_row]
    kept = [change for change in changes if not change.plan.delete_row]
    for change in kept:
        columns = _columns_of(change.plan.columns)
        if change.plan.render:
            grant = Grant(
                deadline_s=change.plan.deadline_s,
                begins_at=change.now,
                avoided_nodes=reservations.avoided_nodes(change.workload_id, closed),
            )
            attempt = columns.get("attempt")
            columns["plan"] = manifests.render_again(change.workload_id, attempt, grant)
        if columns:
            Workload.objects.filter(pk=change.workload_id).update(**columns)
    ids = [change.workload_id for change in kept]
    Workload.objects.filter(pk__in=ids).update(revision=F("revision") + 1)
    found = {row.workload_id: row for row in _changed_rows(ids)}
    written = [change for change in kept if change.workload_id in found]
    save_replicas((change.workload_id, row) for change in written for row in change.plan.replicas)
    _save_attempts(written)
    for change in written:
        for key in change.plan.forgotten:
            Replica.objects.filter(
                workload=change.workload_id, role=key.role, index=key.index, attempt=key.attempt
            ).delete()
        generation = found[change.workload_id].generation
        save_events(change.workload_id, generation, [*_events_of(change), *change.events])
    return [*filter(None, deleted), *(found[change.workload_id] for change in written)]


def _delete(change: Change) -> ChangedRow | None:
    found = _changed_rows([change.workload_id])
    Workload.objects.filter(pk=change.workload_id).delete()
    return next((replace(row, revision=row.revision + 1) for row in found), None)


def _changed_rows(ids: Collection[UUID]) -> list[ChangedRow]:
    """The revisions that rows have now."""
    rows = Workload.objects.filter(pk__in=ids).order_by()
    columns = ("pk", "tenant_id", "revision", "kind", "observed_generation")
    return list(starmap(ChangedRow, rows.values_list(*columns)))


def _columns_of(changed: Mapping[str, Any]) -> dict[str, Any]:
    """The columns for changed fields of a `WorkloadRow`."""
    columns: dict[str, Any] = {}
    for name, value in changed.items():
        match name:
            case "reason":
                columns["reason_code"] = value.code
                columns["reason_text"] = value.text
                columns["reason_next_step"] = value.next_step
            case "notes":
                columns["notes"] = notes.dump(value)
            case "steps":
                columns["steps"] = startup.dump(value)
            case "has_plan":
                if not value:  # what is rendered anew is written with it
                    columns["plan"] = None
            case _:
                columns[name] = value
    return columns


def save_replicas(rows: Iterable[tuple[UUID, ReplicaRow]]) -> None:
    """Writes replica rows, each with its workload's id, new or not: one query for a hundred."""
    made = [
        Replica(
            workload_id=workload_id,
            **{name: getattr(row.key, name) for name in _REPLICA_KEY},
            **{name: getattr(row, name) for name in _REPLICA_VALUES},
        )
        for workload_id, row in rows
    ]
    Replica.objects.bulk_create(
        made,
        batch_size=_REPLICAS_AT_ONCE,
        update_conflicts=True,
        unique_fields=["workload", *_REPLICA_KEY],
        update_fields=_REPLICA_VALUES,
    )


def _save_attempts(changes: Sequence[Change]) -> None:
    """Writes the attempts that plans tell, new or not."""
    made = [
        Attempt(workload_id=change.workload_id, **{name: getattr(row, name) for name in _ATTEMPT})
        for change in changes
        for row in change.plan.attempts
    ]
    if made:
        Attempt.objects.bulk_create(
            made,
            update_conflicts=True,
            unique_fields=["workload", "number"],
            update_fields=_ATTEMPT[1:],
        )


def _events_of(change: Change) -> list[EventRow]:
    return [own_event(note, change.now) for note in change.plan.events]
