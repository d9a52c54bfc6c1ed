"""The plain data that is read and written of rows of workloads, see `store`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from jobs.kinds.plan import EventNote, Plan
from jobs.kinds.state import LoadedRow
from jobs.rules.amounts import Amount, ReplicaRequest
from jobs.rules.queue.guards import Guards
from jobs.rules.queue.look import Queued
from jobs.rules.queue.state import Reservation, RoomClaim
from jobs.scheduling.models import Scheduling

# What people want of a workload and of its tenant; compared only, to see whether it changed.
Intent = tuple[str, ...]


@dataclass(frozen=True)
class Loaded:
    """Rows by workload, and of those that cannot be read what is wrong with them."""

    rows: Mapping[UUID, LoadedRow]
    broken: Mapping[UUID, str]


# --- what is written ---
@dataclass(frozen=True)
class EventRow:
    """An event as it is kept; `uid` makes it one row however often it is written."""

    uid: str
    at: datetime | None  # None: now
    source: str
    subject: str
    reason: str
    message: str
    is_warning: bool = False
    count: int = 1


def own_event(note: EventNote, now: datetime) -> EventRow:
    """An event of our own as it is kept."""
    return EventRow(
        note.key, now, "homeport", note.subject, note.reason, note.message, note.is_warning
    )


@dataclass(frozen=True)
class Change:
    """All that one tick writes of one row."""

    workload_id: UUID
    plan: Plan
    now: datetime
    events: Sequence[EventRow] = field(default_factory=tuple)


@dataclass(frozen=True)
class ChangedRow:
    """A row that changed, for telling browsers.

    Attributes:
        kind: the workload's.
        generation: what its events are about now.
    """

    workload_id: UUID
    tenant_id: UUID
    revision: int
    kind: str
    generation: int


# --- the queue ---
@dataclass(frozen=True)
class Admitted:
    """An admitted workload: how many replicas of each role should have a pod now.

    Attributes:
        ends_by: its room is free then at the latest; None: it has no deadline.
        gone_by: while it is being stopped, when its grace is over; else None.
        is_low: it may be stopped for others, and then has `grace_s` seconds to end.
    """

    workload_id: str
    tenant_id: str
    namespace: str
    requests: tuple[ReplicaRequest, ...]
    ended: Mapping[str, int]
    admitted_at: datetime | None = None
    ends_by: datetime | None = None
    gone_by: datetime | None = None
    is_low: bool = False
    grace_s: int = 120


@dataclass(frozen=True)
class TenantQueue:
    """A tenant that has something in the queue, or whose team has.

    Attributes:
        team: its team's id; empty: it has none.
        quota: where the cluster's quota is larger by what `low` may borrow, what the others may hold;
            else None.
        budget: what all members of its team may hold together, with what they borrow; None: no limit.
    """

    tenant_id: str
    namespace: str
    closed: str
    is_active: bool
    by_weight: bool
    team: str = ""
    weight: int = 1
    team_weight: int = 1
    quota: Amount | None = None
    budget: Amount | None = None


@dataclass(frozen=True)
class Kept:
    """Room that is kept, and for whom."""

    reservations: tuple[Reservation, ...] = ()
    claims: tuple[RoomClaim, ...] = ()


@dataclass(frozen=True)
class Queue:
    """What the database knows.

    Attributes:
        kept: reservations and claims of the last look.
        chosen: the switches that admins set.
        recent: by tenant: when something was admitted in the last hours, and what that asked for.
        holds: names of nodes that an admin holds, and from when on, in seconds.
        guards: images that cannot be pulled, and nodes that are avoided.
    """

    queued: tuple[Queued, ...]
    admitted: tuple[Admitted, ...]
    tenants: tuple[TenantQueue, ...]
    kept: Kept = field(default_factory=Kept)
    chosen: Scheduling = field(default_factory=Scheduling)
    recent: Mapping[str, Sequence[tuple[datetime, Amount]]] = field(default_factory=dict)
    holds: Mapping[str, int] = field(default_factory=dict)
    guards: Guards = field(default_factory=Guards)
