"""What is read and written of rows of workloads, whichever their table. Blocking.

Writes are made inside `Lease.commit` only, one transaction per tick, and only what changed.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeVar
from uuid import UUID

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Model, QuerySet
from django.utils import timezone

from jobs.kinds import notes
from jobs.kinds.interactive import startup
from jobs.kinds.state import EventNote, LoadedRow, Plan
from jobs.rules.admission import ReplicaRequest
from jobs.rules.queue import Queued
from jobs.rules.reasons import Reason

log = logging.getLogger(__name__)

# What people want of a workload and of its tenant; compared only, to see whether it changed.
Intent = tuple[str, ...]
EVENTS_MAX = 500  # per row
R = TypeVar("R", bound=Model)
T = TypeVar("T")


@dataclass(frozen=True)
class ChangedRow:
    """A row that changed, for telling browsers."""

    workload_id: UUID
    tenant_id: UUID
    revision: int
    kind: str = "job"  # as browsers hear it


@dataclass(frozen=True)
class EventRow:
    """An event as it is kept; `uid` makes it one row however often it is written."""

    uid: str
    at: Any
    source: str
    subject: str
    reason: str
    message: str
    is_warning: bool = False
    count: int = 1


@dataclass(frozen=True)
class Change:
    """All that one tick writes of one row."""

    workload_id: UUID
    kind: str
    plan: Plan
    now: Any
    events: Sequence[EventRow] = field(default_factory=tuple)


# Columns have the names of the fields, and are asked for in their order.


@dataclass(frozen=True)
class Unreadable:
    """A row that is there and cannot be read, with what is wrong with it."""

    kind: str
    text: str


@dataclass(frozen=True)
class Loaded:
    """Rows by workload, and those that cannot be read."""

    rows: Mapping[UUID, LoadedRow]
    broken: Mapping[UUID, Unreadable]


# --- the queue ---
@dataclass(frozen=True)
class Admitted:
    """An admitted workload: how many replicas of each role should have a pod now."""

    workload_id: str
    namespace: str
    requests: tuple[ReplicaRequest, ...]
    ended: Mapping[str, int]


@dataclass(frozen=True)
class TenantQueue:
    """A tenant that has something in the queue."""

    tenant_id: str
    namespace: str
    closed: str
    is_active: bool


@dataclass(frozen=True)
class Queue:
    """What the database knows."""

    queued: tuple[Queued, ...]
    admitted: tuple[Admitted, ...]
    tenants: tuple[TenantQueue, ...]


def readable(found: Iterable[R], read: Callable[[R], T]) -> Iterator[T]:
    """What can be read of each; a broken row holds up nobody (the controller says so on it)."""
    for row in found:
        try:
            yield read(row)
        except Exception:  # the named fence: one poisoned row must not stop admission
            log.exception("%r: the row cannot be read", row)


def reason_in(row: Any) -> Reason:
    """The reason in the columns of a row."""
    return Reason(row.reason_code, row.reason_text, row.reason_next_step)


# --- columns ---
def columns_of(
    changed: Mapping[str, Any], names: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Columns of a table for changed fields of a `WorkloadRow`.

    Args:
        names: field -> column, where the table calls it otherwise.
    """
    columns: dict[str, Any] = {}
    for name, value in changed.items():
        match name:
            case "reason":
                columns |= words(value)
            case "notes":
                columns["memo"] = notes.dump(value)
            case "steps":
                columns["steps"] = startup.dump(value)
            case "has_plan":
                if not value:  # what is rendered anew is written with it
                    columns["plan"] = None
            case _:
                columns[names.get(name, name)] = value
    return columns


def words(reason: Reason) -> dict[str, str]:
    """The columns of a reason."""
    return {
        "reason_code": reason.code,
        "reason_text": reason.text,
        "reason_next_step": reason.next_step,
    }


# --- writing ---
class OfWorkload(Protocol):
    """Anything that is written of one job."""

    @property
    def workload_id(self) -> UUID: ...


C = TypeVar("C", bound=OfWorkload)


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
        except Exception:  # the named fence: one poisoned job must not stop the others
            log.exception("job %s: what was observed cannot be written", change.workload_id)
            continue
        if result is not None:
            written.append(result)
    return written


def own_event(note: EventNote, now: Any) -> EventRow:
    """An event of our own as it is kept."""
    return EventRow(
        note.key, now, "homeport", note.subject, note.reason, note.message, note.is_warning
    )


def keep_events(
    table: type[Model],
    about: Mapping[str, UUID],
    events: Sequence[EventRow],
    more: Mapping[str, Any],
) -> None:
    """Adds or updates events; the oldest of the cluster's give way beyond `EVENTS_MAX`.

    Args:
        table: the model of the events.
        about: the column that says whose they are, with its value.
        events: what is kept.
        more: columns of those that are new.
    """
    if not events:
        return
    kept = table._default_manager.filter(**about)
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
            table._default_manager.create(**about, **more, uid=uid, **values)
    _drop_oldest(kept)


def _drop_oldest(kept: QuerySet[Any]) -> None:
    surplus = kept.count() - EVENTS_MAX
    for chosen in (kept.exclude(source="homeport"), kept):
        if surplus > 0:
            oldest = list(chosen.order_by("at", "id").values_list("pk", flat=True)[:surplus])
            kept.filter(pk__in=oldest).delete()
            surplus -= len(oldest)
