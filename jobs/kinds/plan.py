"""What follows for a workload from one look: calls to the cluster, and changed rows.

Frozen, without Django and without I/O, as what it follows from (`jobs/kinds/state.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobs.kinds.state import AttemptRow, ReplicaKey, ReplicaRow


@dataclass(frozen=True)
class CreateAll:
    """Create (or adopt) the root, then everything that it owns, from the stored plan."""


@dataclass(frozen=True)
class PatchRoot:
    """Change these fields in the spec of the root of this uid: it runs, or stands still, by them."""

    name: str
    uid: str
    spec: Mapping[str, bool | int]


@dataclass(frozen=True)
class Delete:
    """Delete exactly this object, and in the background what it owns."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class LoosenGroup:
    """Its pods have been placed together; from now on each that is made anew is placed by itself."""

    name: str
    uid: str


@dataclass(frozen=True)
class Verify:
    """Read the root afresh: a cache that does not show it may only be behind."""

    name: str


@dataclass(frozen=True)
class Rescue:
    """Create (or adopt) a rescue pod and what it mounts; `number` is the try."""

    key: ReplicaKey
    pod_uid: str
    number: int


@dataclass(frozen=True)
class Sweep:
    """Remove what no watch shows (Secrets) and what was made without an owner, by name."""


@dataclass(frozen=True)
class Erase:
    """Remove the workload's part of the object store."""


Step = CreateAll | PatchRoot | Delete | LoosenGroup | Verify | Rescue | Sweep | Erase


@dataclass(frozen=True)
class EventNote:
    """An event of our own; `key` is unique within the workload."""

    key: str
    subject: str
    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True)
class Plan:
    """What follows from one look.

    Attributes:
        steps: calls to the cluster, in order; made after the rows have been committed.
        columns: changed fields of the row.
        replicas: changed or new replica rows, whole.
        forgotten: replica rows to remove (of attempts that never ran, of generations that are over).
        attempts: changed or new attempts, whole.
        render: render the manifests of the (new) attempt into the row, in the same transaction.
        deadline_s: for `render`: what is left of the deadline in seconds; None without one.
        next_due: when to look again though nothing happens; None: never.
        is_settled: nothing more is to be done but wait for `next_due` or a person.
    """

    steps: tuple[Step, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
    replicas: tuple[ReplicaRow, ...] = ()
    forgotten: tuple[ReplicaKey, ...] = ()
    attempts: tuple[AttemptRow, ...] = ()
    events: tuple[EventNote, ...] = ()
    render: bool = False
    deadline_s: int | None = None
    next_due: datetime | None = None
    is_settled: bool = False
    delete_row: bool = False

    @property
    def writes(self) -> bool:
        """Whether any row changes."""
        rows = self.replicas or self.forgotten or self.attempts or self.events
        return bool(self.columns or rows or self.delete_row)
