"""The plain data that planning works on: a job's rows, what the cluster shows, and the plan.

Frozen, without Django and without I/O, so that every situation can be written down in a test.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import msgspec

from jobs.reconciler.memo import Memo
from jobs.rules.endings import Disruption, End
from jobs.rules.reasons import Reason
from jobs.rules.states import JobState, ReplicaState

# A watch may be so much behind what we have just made; after that a fresh read decides.
VIEW_LAG_S = 2


class ReplicaKey(msgspec.Struct, frozen=True, order=True):
    """Names one replica in one attempt. A struct, as each look compares and hashes very many."""

    role: str
    index: int
    attempt: int

    @property
    def who(self) -> str:
        """As people know it: `worker-0`."""
        return f"{self.role}-{self.index}"

    @property
    def text(self) -> str:
        """Key in the notes: `worker-0/1`."""
        return f"{self.role}-{self.index}/{self.attempt}"


NO_REPLICA = ReplicaKey("", 0, 0)


# --- what the database holds ---
@dataclass(frozen=True)
class ReplicaRow:
    """A row of `jobs.models.Replica`."""

    key: ReplicaKey
    incarnation: int = 1
    pod: str = ""
    pod_uid: str = ""
    node: str = ""
    gpus: str = ""
    state: ReplicaState = ReplicaState.PENDING
    exit_code: int | None = None
    reason_code: str = ""
    reason_text: str = ""
    restarts: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True)
class ArchiveRow:
    """A row of `jobs.models.ReplicaArchive`; `pod_uid` is empty when it was not told."""

    key: ReplicaKey
    is_complete: bool = False
    pod_uid: str = ""
    exit_code: int | None = None
    completed_at: datetime | None = None


@dataclass(frozen=True)
class JobRow:
    """A job's row, with what planning needs of its tenant; columns as in `jobs.models.Job`.

    Attributes:
        kube_name: NAME of the current attempt.
        root_name: name of its root, the Job of the deciding replicas.
        image: the user's image, for sentences.
        counts: role -> replicas.
        memory: role -> memory limit as text, for sentences.
        stopped_by: name of the person who asked for the stop, empty when it was the owner.
        tenant_closed: "", "suspended" or "deleting".
        has_plan: whether the manifests of the current attempt have been rendered.
    """

    id: str
    namespace: str
    kube_name: str
    root_name: str
    topology: str
    image: str
    counts: Mapping[str, int]
    memory: Mapping[str, str]
    success_policy: str | None = None
    retries: int = 0
    deadline_s: int | None = None
    starting_deadline_s: int = 300
    clean_policy: str = "running"
    ttl_s: int = 86400
    desired: str = "run"
    stop_reason: str = ""
    stopped_by: str = ""
    tenant_closed: str = ""
    state: JobState = JobState.QUEUED
    reason: Reason = field(default_factory=Reason)
    attempt: int = 1
    requeued_count: int = 0
    not_before: datetime | None = None
    admitted_at: datetime | None = None
    started_at: datetime | None = None
    deciders_ended_at: datetime | None = None
    finished_at: datetime | None = None
    has_plan: bool = False
    root_uid: str = ""
    cleaned_at: datetime | None = None
    memo: Memo = field(default_factory=Memo)


# --- what the cluster shows ---
@dataclass(frozen=True)
class Thing:
    """Any object of the job: enough to delete exactly it."""

    kind: str
    name: str
    uid: str
    is_terminating: bool = False


@dataclass(frozen=True)
class Root(Thing):
    """The Job of the deciding replicas.

    Attributes:
        verdict: "complete", "failed", or empty while it goes on. A verdict counts as soon as the
            controller announces it (SuccessCriteriaMet, FailureTarget), before all pods are gone.
        fail_reason: such as BackoffLimitExceeded or DeadlineExceeded.
        completed: indexes that have succeeded.
        failed_count: pods that have failed and counted.
    """

    is_suspended: bool = False
    verdict: Literal["", "complete", "failed"] = ""
    fail_reason: str = ""
    fail_message: str = ""
    completed: frozenset[int] = frozenset()
    failed_count: int = 0


@dataclass(frozen=True)
class Server(Thing):
    """A Deployment of one server replica; `refused` is why its pod cannot be made, else empty."""

    refused: str = ""


@dataclass(frozen=True)
class PodFacts(Thing):
    """A replica's pod, or (role `rescue`) a rescue pod.

    Attributes:
        key: which replica; of a rescue pod, the replica that is rescued.
        end: how the container that decides ended: the program, or fetch when that failed.
        last_end: how its previous run ended, of a container that was started again.
        is_running: the program runs.
        waiting_reason, waiting_message: of the container that holds things up.
        waits_in_fetch: that container is ours, not the program's.
        disruption: the cluster took it away; None when not.
        mount_problem: latest event about its volumes.
        started_at, finished_at: of the program, by the node's clock.
    """

    key: ReplicaKey = NO_REPLICA
    phase: str = "Pending"
    created_at: datetime | None = None
    node: str = ""
    gpus: str = ""
    unplaced_why: str = ""
    fetch_runs: bool = False
    is_running: bool = False
    waiting_reason: str = ""
    waiting_message: str = ""
    waits_in_fetch: bool = False
    end: End | None = None
    last_end: End | None = None
    restarts: int = 0
    disruption: Disruption | None = None
    mount_problem: str = ""
    pod_reason: str = ""
    pod_message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        """Nothing of it will run again."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def number(self) -> int:
        """Of a rescue pod: which try."""
        tail = self.name.rpartition("-")[2]
        return int(tail) if tail.isascii() and tail.isdigit() else 0


@dataclass(frozen=True)
class Observed:
    """All that is known of one job's objects at one moment.

    Attributes:
        is_current: the watches work; absence and age mean something.
        namespace: "active", "terminating" or "gone".
        root: the Job of the current attempt.
        is_root_absent: a fresh read said that the current root does not exist.
        made_root: uid of the root that our last steps made together with all its children.
        is_swept, is_erased: our last steps removed what no watch shows, what was stored.
        blocked: why its objects can never be created, from the last try; none when they can.
        trouble: why its objects cannot be created now.
        others: objects of ours that belong to no current replica: Jobs of other attempts,
            Services, ConfigMaps.
        departed: pods that went since the last look, with their last status.
        refusal: the latest event about a pod that could not be made.
    """

    is_current: bool = True
    namespace: Literal["active", "terminating", "gone"] = "active"
    root: Root | None = None
    is_root_absent: bool = False
    made_root: str = ""
    is_swept: bool = False
    is_erased: bool = False
    blocked: Reason = field(default_factory=Reason)
    trouble: Reason = field(default_factory=Reason)
    servers: tuple[Server, ...] = ()
    services: tuple[Thing, ...] = ()
    others: tuple[Thing, ...] = ()
    pods: tuple[PodFacts, ...] = ()
    rescues: tuple[PodFacts, ...] = ()
    departed: tuple[PodFacts, ...] = ()
    replicas: Mapping[ReplicaKey, ReplicaRow] = field(default_factory=dict)
    archives: Mapping[ReplicaKey, ArchiveRow] = field(default_factory=dict)
    refusal: str = ""


# --- what is to be done ---
@dataclass(frozen=True)
class CreateAll:
    """Create (or adopt) the root, then everything that it owns, from the stored plan."""


@dataclass(frozen=True)
class SetSuspended:
    """Suspend or unsuspend the root of this uid."""

    name: str
    uid: str
    value: bool


@dataclass(frozen=True)
class Scale:
    """Set how many pods the root of this uid has; its root is a Deployment."""

    name: str
    uid: str
    replicas: int


@dataclass(frozen=True)
class Delete:
    """Delete exactly this object, and in the background what it owns."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class Verify:
    """Read the root afresh: a view that does not show it may only be behind."""

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
    """Remove the job's part of the object store."""


Step = CreateAll | SetSuspended | Scale | Delete | Verify | Rescue | Sweep | Erase


@dataclass(frozen=True)
class EventNote:
    """An event of our own; `key` is unique within the job."""

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
        columns: changed columns of the job's row.
        replicas: changed or new replica rows, whole.
        forgotten: replica rows to remove (of attempts that never ran).
        render: render the manifests of the (new) attempt into the row, in the same transaction.
        deadline_s: for `render`: what is left of the deadline in seconds; None without one.
        next_due: when to look again though nothing happens; None: never.
        is_settled: nothing more is to be done but wait for `next_due` or a person.
    """

    steps: tuple[Step, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
    replicas: tuple[ReplicaRow, ...] = ()
    forgotten: tuple[ReplicaKey, ...] = ()
    events: tuple[EventNote, ...] = ()
    render: bool = False
    deadline_s: int | None = None
    next_due: datetime | None = None
    is_settled: bool = False
    delete_row: bool = False

    @property
    def writes(self) -> bool:
        """Whether any row changes."""
        return bool(
            self.columns or self.replicas or self.forgotten or self.events or self.delete_row
        )
