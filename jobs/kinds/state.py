"""The plain data that planning works on: a workload's row, and what the cluster shows.

Frozen, without Django and without I/O, so that every situation can be written down in a test.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import msgspec

from jobs.kinds.notes import Notes
from jobs.rules.endings import ContainerExit, Disruption
from jobs.rules.reasons import Reason
from jobs.rules.states import ReplicaState, WorkloadState


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
    address: str = ""
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
    restarts: int = 0


@dataclass(frozen=True)
class AttemptRow:
    """A row of `jobs.models.Attempt`, which says what they mean."""

    number: int
    cause: str
    admitted_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    reason_code: str = ""
    reason_text: str = ""
    exit_code: int | None = None


@dataclass(frozen=True)
class StartupStep:
    """One step of a start-up; `state` is done, now, wait or failed; `at` is when it was done (or failed)."""

    key: str
    state: str = "wait"
    at: datetime | None = None
    detail: str = ""


@dataclass(frozen=True)
class WorkloadRow:
    """A workload's row, with what planning needs of its tenant, its owner and its request.

    Attributes:
        kind: its key in `jobs/kinds/registry.py`, as it is stored.
        kube_name: NAME of the objects of the attempt.
        root_name: name of its root, on which all other objects hang.
        image: the user's image, for sentences; images: those of roles that have their own.
        memory: role -> memory limit as text, for sentences.
        counts: role -> replicas.
        least: role -> fewest replicas, of those that may go on with fewer than all.
        tasks: of an array, the indexes that run, in order; at_once: how many of them at a time.
        topology, run_policy: of the request of a training; the latter as the fields of its
            `RunPolicy`.
        queued_at: when a person asked for this generation.
        generation: counts what people asked for; `observed_generation`: what all that is observed is
            about, 0 before the first look.
        attempt: part of the names of its objects; the first one of a generation has its number.
        stopped_by: name of the person who asked for the stop, empty when it was the owner.
        tenant_closed: "", "suspended" or "deleting".
        is_owner_active: whether the owner may still sign in.
        ends_by: its room is free then at the latest; None: it has no deadline.
        preempted_at, preempted_for: while it is being stopped for another one, since when and for whose.
        preempted_why: why, where that is for nobody.
        stops_from: until then nothing is stopped for it.
        started_at: when all of it ran, or answered, for the first time.
        has_secrets: whether its program knows any, whose values its last words may have.
        has_plan: whether the manifests of the current attempt have been rendered.
        deciders_ended_at: when the replicas that decide over a training had ended.
        steps up to event_files: of what is served behind a gate.
    """

    id: str
    kind: str
    namespace: str
    kube_name: str
    root_name: str
    image: str
    memory: Mapping[str, str]
    images: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    tasks: tuple[int, ...] = ()
    at_once: int = 0
    topology: str = ""
    run_policy: Mapping[str, Any] = field(default_factory=dict)
    queued_at: datetime | None = None
    generation: int = 1
    observed_generation: int = 1
    desired: str = "run"
    stop_reason: str = ""
    stopped_by: str = ""
    tenant_closed: str = ""
    is_owner_active: bool = True
    state: WorkloadState = WorkloadState.QUEUED
    reason: Reason = field(default_factory=Reason)
    attempt: int = 1
    requeued_count: int = 0
    not_before: datetime | None = None
    admitted_at: datetime | None = None
    ends_by: datetime | None = None
    preempted_at: datetime | None = None
    preempted_for: str = ""
    preempted_why: str = ""
    stops_from: datetime | None = None
    started_at: datetime | None = None
    deciders_ended_at: datetime | None = None
    finished_at: datetime | None = None
    has_secrets: bool = False
    has_plan: bool = False
    root_uid: str = ""
    cleaned_at: datetime | None = None
    notes: Notes = field(default_factory=Notes)

    steps: tuple[StartupStep, ...] = ()
    node_port: int | None = None
    event_files: int | None = None


@dataclass(frozen=True)
class LoadedRow:
    """A workload's rows, as loaded in one go; `attempt` is the current one, where attempts are kept."""

    row: WorkloadRow
    attempt: AttemptRow | None = None
    replicas: Mapping[ReplicaKey, ReplicaRow] = field(default_factory=dict)
    archives: Mapping[ReplicaKey, ArchiveRow] = field(default_factory=dict)


# --- what the cluster shows ---
@dataclass(frozen=True)
class ObjectRef:
    """Any object of the workload: enough to delete exactly it."""

    kind: str
    name: str
    uid: str
    is_terminating: bool = False


@dataclass(frozen=True)
class Root(ObjectRef):
    """What all other objects hang on: the Job of the deciding replicas, or a Deployment.

    Attributes:
        verdict: of a Job: "complete", "failed", or empty while it goes on. A verdict counts as soon as
            the controller announces it (SuccessCriteriaMet, FailureTarget), before all pods are gone.
        retries_itself: a Job of one replica as version 1 of the template made it: the cluster starts that
            again when it fails or was lost, as often as its retries say.
        deadline_s: of a Job: for how many seconds it may go on; None: it has no deadline.
        fail_reason: such as MaxFailedIndexesExceeded or DeadlineExceeded.
        completed, failed: indexes that have succeeded, and that have failed and are not tried again.
        failed_count: pods that have failed and counted.
        replicas: of a Deployment, how many pods it is to have.
        refused: why a pod of a Deployment cannot be made, else empty.
    """

    is_suspended: bool = False
    retries_itself: bool = False
    deadline_s: int | None = None
    verdict: Literal["", "complete", "failed"] = ""
    fail_reason: str = ""
    fail_message: str = ""
    completed: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()
    failed_count: int = 0
    replicas: int = 0
    refused: str = ""


@dataclass(frozen=True)
class Serving(ObjectRef):
    """What starts replicas that serve the deciding ones.

    Attributes:
        role: whose replicas they are.
        refused: why a pod of it cannot be made, else empty.
    """

    role: str = ""
    refused: str = ""


@dataclass(frozen=True)
class ServerDeployment(Serving):
    """A Deployment of one server replica."""


@dataclass(frozen=True)
class ServingJob(Serving):
    """The Job of a role.

    Attributes:
        completed, failed: indexes that have succeeded, and that have failed and are not tried again.
    """

    completed: frozenset[int] = frozenset()
    failed: frozenset[int] = frozenset()


@dataclass(frozen=True)
class PodGroup(ObjectRef):
    """By what the cluster places the pods of an attempt together or not at all.

    Attributes:
        least: of fewer pods than these none is placed.
        is_placed: they have been.
        why: why they have not, in the scheduler's words; empty while it has said nothing.
    """

    least: int = 1
    is_placed: bool = False
    why: str = ""


@dataclass(frozen=True)
class GateService(ObjectRef):
    """A Service; `node_port` is the port that the cluster picked for a gate."""

    node_port: int | None = None


@dataclass(frozen=True)
class PodFacts(ObjectRef):
    """A pod. Times are the cluster's: for showing, never for timers.

    Attributes:
        key: which replica; of a rescue pod, the replica that is rescued.
        is_rescue: it rescues a log, and is no replica.
        address: its IP address; empty while it has none.
        is_running: the program runs.
        started_at, finished_at: of the program.
        end: how the container that decides ended: the program, or fetch when that failed; None when
            it runs again.
        last_end: how its previous run ended, of a container that was started again.
        restarts: of the program, within this pod.
        waiting_in: name of the container that holds things up; empty when none says why.
        waiting_reason, waiting_message: of that container.
        unplaced_why: why it has no node yet.
        mount_problem: latest event about its volumes.
        disruption: the cluster took it away; None when not.
        fetch_runs: of a training: the code is being fetched.
        scheduled_at: when it got its node.
        prepared_from: when its first container was started: the volumes were there.
        pull_progress: what the node tells of pulling images.
        pull: latest news of the program's image, as the cluster words it.
        pulled_at: when that image was there.
        prepare_end, gate_end: how these containers failed; None when they have not.
        is_ready: the gate answers, and the program behind it.
        probe_problem: the latest words of a failing probe.
    """

    key: ReplicaKey = NO_REPLICA
    is_rescue: bool = False
    phase: str = "Pending"
    created_at: datetime | None = None
    node: str = ""
    gpus: str = ""
    address: str = ""
    unplaced_why: str = ""
    mount_problem: str = ""
    is_running: bool = False
    waiting_in: str = ""
    waiting_reason: str = ""
    waiting_message: str = ""
    end: ContainerExit | None = None
    last_end: ContainerExit | None = None
    restarts: int = 0
    disruption: Disruption | None = None
    pod_reason: str = ""
    pod_message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None

    fetch_runs: bool = False

    scheduled_at: datetime | None = None
    prepared_from: datetime | None = None
    pull_progress: str = ""
    pull: str = ""
    pulled_at: datetime | None = None
    prepare_end: ContainerExit | None = None
    gate_end: ContainerExit | None = None
    is_ready: bool = False
    ready_at: datetime | None = None
    probe_problem: str = ""

    @property
    def has_ended(self) -> bool:
        """Nothing of it will run again."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def replica_state(self) -> ReplicaState:
        """Of its replica, while it has not ended."""
        if self.is_running:
            return ReplicaState.RUNNING
        return ReplicaState.STARTING if self.node else ReplicaState.PENDING

    def age(self) -> tuple[float, str]:
        """Sorts the oldest first."""
        return (self.created_at.timestamp() if self.created_at else 0.0, self.name)

    @property
    def number(self) -> int:
        """Of a rescue pod: which try."""
        tail = self.name.rpartition("-")[2]
        return int(tail) if tail.isascii() and tail.isdigit() else 0


@dataclass(frozen=True)
class Observed:
    """All that is known of one workload's objects at one moment.

    Attributes:
        is_current: the watches work; absence and age mean something.
        namespace: "active", "terminating" or "gone".
        root: of the current attempt.
        is_root_absent: a fresh read said that the current root does not exist.
        made_root: uid of the root that our last steps made together with all its children.
        is_swept, is_erased: our last steps removed what no watch shows, what was stored.
        blocked: why its objects can never be created, from the last try; none when they can.
        trouble: why its objects cannot be created now.
        servers, serving_jobs: Deployments and Jobs of the serving replicas of a training.
        services: Services of the current attempt.
        pod_groups: of the current attempt and, while they go, of those before.
        others: objects of ours that belong to no current replica: those of other attempts, ConfigMaps.
        pods: of the current attempt; where one pod is all, the newest last.
        rescues: pods that rescue logs.
        deleted_pods: those that went since the last look, with their last status.
        refusal: the latest event about a pod that could not be made.
        attempt: what is stored of the current one; None: nothing yet.
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
    servers: tuple[ServerDeployment, ...] = ()
    serving_jobs: tuple[ServingJob, ...] = ()
    services: tuple[GateService, ...] = ()
    pod_groups: tuple[PodGroup, ...] = ()
    others: tuple[ObjectRef, ...] = ()
    pods: tuple[PodFacts, ...] = ()
    rescues: tuple[PodFacts, ...] = ()
    deleted_pods: tuple[PodFacts, ...] = ()
    replicas: Mapping[ReplicaKey, ReplicaRow] = field(default_factory=dict)
    archives: Mapping[ReplicaKey, ArchiveRow] = field(default_factory=dict)
    refusal: str = ""
    attempt: AttemptRow | None = None

    @property
    def pod(self) -> PodFacts | None:
        """Where one pod is all: the newest that is not on its way out, else the newest."""
        staying = [pod for pod in self.pods if not pod.is_terminating and not pod.has_ended]
        found = staying or list(self.pods)
        return found[-1] if found else None

    @property
    def objects(self) -> list[ObjectRef]:
        """Every object that a watch shows."""
        roots: list[ObjectRef] = [self.root] if self.root is not None else []
        owned = (
            *self.servers,
            *self.serving_jobs,
            *self.services,
            *self.pod_groups,
            *self.others,
            *self.pods,
            *self.rescues,
        )
        return [*roots, *owned]
