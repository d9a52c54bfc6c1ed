"""Jobs, notebooks and TensorBoards, their replicas and events; bundles, archived logs, artifacts.

Who writes what: actions write intent (`desired`, `start_count` and the request itself), the
reconciler writes everything observed, and `/internal/` (called by pods) writes only archive rows:
`ReplicaArchive`, `LogSegment`, `Artifact`.
"""

import uuid
from enum import StrEnum
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.utils import timezone

from jobs.rules.states import FINAL_STATES, Desired, JobState, ReplicaState
from jobs.rules.topologies import get_topology
from tenants import policy
from tenants.models import Tenant, User


def _choices(enum: Any) -> list[tuple[str, str]]:
    return [(member.value, member.value) for member in enum]


class Bundle(models.Model):
    """Uploaded code, content-addressed: two uploads of the same bytes by a tenant share storage."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="bundles")
    file_name = models.CharField(max_length=255)
    sha256 = models.CharField(max_length=64)
    size_bytes = models.BigIntegerField()
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.file_name

    @property
    def storage_key(self) -> str:
        return f"{self.tenant_id}/bundles/{self.sha256}"


class JobQuerySet(models.QuerySet["Job"]):
    """The only ways to look jobs up on somebody's behalf."""

    def visible_to(self, user: Any) -> "JobQuerySet":
        """Jobs of own tenant, of teams that the user leads, all for an admin; deleted ones never."""
        shown = self.exclude(desired=Desired.DELETE)
        return shown.filter(policy.within_tenants(user, "see"))

    def unfinished(self) -> "JobQuerySet":
        return self.exclude(state__in=FINAL_STATES)

    def for_lists(self) -> "JobQuerySet":
        """Without the large columns that no list shows: most of what reading a list would cost."""
        return self.defer("plan", "memo")


class Job(models.Model):
    """One training: what was asked for, and what became of it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="jobs")
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="jobs")

    # --- the request, never changed after submit (design.md's body, normalised) ---
    name = models.CharField(max_length=80)
    topology = models.CharField(max_length=16)
    image = models.CharField(max_length=255)
    command = models.JSONField()  # list of str
    source = models.JSONField(null=True)  # {"bundle": id} | {"url", "sha256"?} | {"path"} | None
    # role -> {"count": n, "cpu_millicores": n, "memory_bytes": n, "gpu_count": n}
    replicas = models.JSONField()
    env = models.JSONField(default=dict)
    cluster_flags = models.JSONField(default=list)  # names of flags to append, in order
    success_policy = models.CharField(max_length=16, null=True)  # chief | worker0 | all
    priority = models.CharField(max_length=16, default="normal")
    retries = models.IntegerField(default=0)
    deadline_s = models.IntegerField(null=True)
    starting_deadline_s = models.IntegerField(default=300)
    clean_policy = models.CharField(max_length=16, default="running")
    ttl_s = models.IntegerField(default=86400)
    shm_bytes = models.BigIntegerField(null=True)

    # --- intent ---
    desired = models.CharField(max_length=8, choices=_choices(Desired), default=Desired.RUN)
    stop_requested_at = models.DateTimeField(null=True)
    stop_requested_by = models.ForeignKey(
        User, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    stop_reason = models.TextField(blank=True, default="")  # shown to the owner

    # --- observed, written by the reconciler only ---
    state = models.CharField(max_length=16, choices=_choices(JobState), default=JobState.QUEUED)
    reason_code = models.CharField(max_length=64, blank=True, default="")
    reason_text = models.TextField(blank=True, default="")
    reason_next_step = models.TextField(blank=True, default="")
    attempt = models.IntegerField(default=1)
    requeued_count = models.IntegerField(default=0)
    not_before = models.DateTimeField(null=True)  # back-off after a withdrawal
    queued_at = models.DateTimeField(default=timezone.now)
    admitted_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)  # first time that all replicas ran
    deciders_ended_at = models.DateTimeField(null=True)  # when the deciding workers ended
    finished_at = models.DateTimeField(null=True)
    # Rendered at admission and never again: [{"apiVersion", "kind", ...}], without secret values.
    plan = models.JSONField(null=True)
    root_uid = models.CharField(max_length=36, blank=True, default="")
    cleaned_at = models.DateTimeField(null=True)  # nothing of it is left in the cluster
    # Free for the reconciler's own notes (counts of PS restarts, rescue pods tried, ...).
    memo = models.JSONField(default=dict)
    revision = models.BigIntegerField(default=1)

    objects: ClassVar[Any] = JobQuerySet.as_manager()

    class Meta:
        ordering = ["-queued_at"]
        indexes = [
            models.Index(fields=["tenant", "-queued_at"]),
            models.Index(fields=["state", "queued_at"]),
            models.Index(
                fields=["id"], name="jobs_not_cleaned", condition=Q(cleaned_at__isnull=True)
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES

    @property
    def stopped_by(self) -> str:
        """Name of the person who asked for the stop; empty when that was the owner, or nobody."""
        by = self.stop_requested_by
        return by.shown_name if by is not None and by.pk != self.owner_id else ""

    @property
    def asked(self) -> dict[str, dict[str, int]]:
        """`replicas` in the topology's order of roles, which a database need not keep."""
        order = get_topology(self.topology).role_names
        return {role: self.replicas[role] for role in order if role in self.replicas}


class Replica(models.Model):
    """One task of a job in one attempt, as last seen."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="replica_rows")
    role = models.CharField(max_length=16)
    index = models.IntegerField()
    attempt = models.IntegerField(default=1)
    # Counts pods of the same task within the attempt: a pod replaced by the cluster is the next.
    incarnation = models.IntegerField(default=1)
    pod = models.CharField(max_length=253, blank=True, default="")
    pod_uid = models.CharField(max_length=36, blank=True, default="")
    node = models.CharField(max_length=253, blank=True, default="")
    gpus = models.CharField(max_length=100, blank=True, default="")  # "0,1" when the node tells
    state = models.CharField(
        max_length=16, choices=_choices(ReplicaState), default=ReplicaState.PENDING
    )
    exit_code = models.IntegerField(null=True)
    reason_code = models.CharField(max_length=64, blank=True, default="")
    reason_text = models.TextField(blank=True, default="")
    restarts = models.IntegerField(default=0)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["role", "index"]
        constraints = [
            models.UniqueConstraint("job", "role", "index", "attempt", name="one_row_per_replica")
        ]

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


class JobEvent(models.Model):
    """Something that happened to a job: from the cluster (with its uid) or from the reconciler."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    uid = models.CharField(max_length=80)  # the cluster's event uid, or our own stable key
    at = models.DateTimeField()
    is_warning = models.BooleanField(default=False)
    source = models.CharField(max_length=63)  # "homeport" or the component that reported
    subject = models.CharField(max_length=253, blank=True)  # "pod/NAME", "worker-0", ...
    reason = models.CharField(max_length=64)
    message = models.TextField()
    count = models.IntegerField(default=1)

    class Meta:
        ordering = ["at", "id"]
        constraints = [models.UniqueConstraint("job", "uid", name="one_row_per_event")]

    def __str__(self) -> str:
        return f"{self.reason} {self.subject}"


class ServiceState(StrEnum):
    """Where a service is. It may go from every final state back to `queued`."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


SERVICE_STATE_CHOICES = [(state.value, state.value) for state in ServiceState]
ENDED_STATES = frozenset({ServiceState.STOPPED, ServiceState.FAILED})


class ServiceQuerySet(models.QuerySet["Service"]):
    """The only ways to look services up on somebody's behalf."""

    def visible_to(self, user: Any) -> "ServiceQuerySet":
        """Those of the own tenant, of teams that the user leads, all for an admin."""
        shown = self.exclude(desired=Service.Desired.DELETE)
        return shown.filter(policy.within_tenants(user, "see"))

    def unfinished(self) -> "ServiceQuerySet":
        """Those that hold something of the cluster or wait for it."""
        return self.exclude(state__in=ENDED_STATES)


class Service(models.Model):
    """One notebook or TensorBoard. It keeps its identity over stops and starts."""

    class Kind(models.TextChoices):
        NOTEBOOK = "notebook"
        TENSORBOARD = "tensorboard"

    class Desired(models.TextChoices):
        RUN = "run"
        STOP = "stop"
        DELETE = "delete"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="services")
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="services")

    # --- the request ---
    kind = models.CharField(max_length=16, choices=Kind.choices)
    name = models.CharField(max_length=80)
    image = models.CharField(max_length=255)
    cpu_millicores = models.BigIntegerField()
    memory_bytes = models.BigIntegerField()
    gpu_count = models.IntegerField(default=0)
    # TensorBoard: [{"title", "path": "/log/jobs/NAME", "job": id}]; empty: all of /log.
    log_dirs = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now)

    # --- intent ---
    desired = models.CharField(max_length=8, choices=Desired.choices, default=Desired.RUN)
    # Counts starts; cookies and tickets of an earlier start are worth nothing.
    start_count = models.IntegerField(default=1)
    requested_at = models.DateTimeField(default=timezone.now)  # of this start
    stop_requested_by = models.ForeignKey(
        User, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    stop_reason = models.TextField(blank=True, default="")  # shown to the owner

    # --- observed, written by the reconciler only; all of it about the latest start ---
    state = models.CharField(
        max_length=16,
        choices=SERVICE_STATE_CHOICES,
        default=ServiceState.QUEUED,
    )
    reason_code = models.CharField(max_length=64, blank=True, default="")
    reason_text = models.TextField(blank=True, default="")
    reason_next_step = models.TextField(blank=True, default="")
    # The start-up, in order: [{"key", "state": "done|now|wait|failed", "at": ISO time | null,
    # "detail"}]; keys: requested, admitted, scheduled, volumes, image, started, ready.
    steps = models.JSONField(default=list)
    admitted_at = models.DateTimeField(null=True)
    ready_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    not_before = models.DateTimeField(null=True)
    node = models.CharField(max_length=253, blank=True, default="")
    gpus = models.CharField(max_length=100, blank=True, default="")  # "0,1" when the node tells
    pod = models.CharField(max_length=253, blank=True, default="")
    node_port = models.IntegerField(null=True)
    restarts = models.IntegerField(default=0)
    plan = models.JSONField(null=True)  # rendered at admission, without secret values
    root_uid = models.CharField(max_length=36, blank=True, default="")
    cleaned_at = models.DateTimeField(null=True)  # nothing of it is left in the cluster
    memo = models.JSONField(default=dict)  # the reconciler's own notes
    # The start that all this is about; behind `start_count` until a new start has been noticed.
    seen_start = models.IntegerField(default=0)
    # TensorBoard: how many event files its pod found, as it told `/internal/`; null: not told yet.
    event_files = models.IntegerField(null=True)
    revision = models.BigIntegerField(default=1)

    objects: ClassVar[Any] = ServiceQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["tenant", "-created_at"]),
            models.Index(fields=["state"]),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def open_verb(self) -> str:
        """What of `tenants/policy.py` it takes to open one of this kind."""
        return "open_shared" if self.kind == self.Kind.TENSORBOARD else "open_private"

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED_STATES

    @property
    def stopped_by(self) -> str:
        """Name of the person who asked for the stop; empty when that was the owner, or nobody."""
        by = self.stop_requested_by
        return by.shown_name if by is not None and by.pk != self.owner_id else ""

    @property
    def path_prefix(self) -> str:
        """Where it answers on its NodePort: cookies of several on one host do not collide."""
        return f"/s/{self.pk.hex[:8]}/"


class ServiceEvent(models.Model):
    """Something that happened to a service: from the cluster (with its uid) or from Homeport."""

    service = models.ForeignKey(Service, on_delete=models.CASCADE, related_name="events")
    start_count = models.IntegerField(default=1)
    uid = models.CharField(max_length=80)
    at = models.DateTimeField()
    is_warning = models.BooleanField(default=False)
    source = models.CharField(max_length=63)
    subject = models.CharField(max_length=253, blank=True)
    reason = models.CharField(max_length=64)
    message = models.TextField()
    count = models.IntegerField(default=1)

    class Meta:
        ordering = ["at", "id"]
        constraints = [models.UniqueConstraint("service", "uid", name="one_row_per_service_event")]

    def __str__(self) -> str:
        return f"{self.reason} {self.subject}"


class ReplicaArchive(models.Model):
    """How far the log of one replica (one attempt) has been archived, as its pod reported."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="archives")
    role = models.CharField(max_length=16)
    index = models.IntegerField()
    attempt = models.IntegerField()
    # The pod that reported last: a replica can have several pods in one attempt.
    pod_uid = models.CharField(max_length=36, blank=True, default="")
    is_complete = models.BooleanField(default=False)  # the "uploaded" mark
    by_rescue = models.BooleanField(default=False)
    exit_code = models.IntegerField(null=True)
    exit_reason = models.TextField(blank=True, default="")
    skipped_bytes = models.BigIntegerField(default=0)
    completed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint("job", "role", "index", "attempt", name="one_archive")
        ]

    def __str__(self) -> str:
        return f"{self.role}-{self.index} attempt {self.attempt}"


class LogSegment(models.Model):
    """One closed piece of an archived log; `start_byte` is its place in the whole log."""

    archive = models.ForeignKey(ReplicaArchive, on_delete=models.CASCADE, related_name="segments")
    number = models.IntegerField()
    start_byte = models.BigIntegerField()
    size_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    storage_key = models.CharField(max_length=300)

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint("archive", "number", name="one_segment")]
        # How much a namespace keeps is summed up from it, without a look at the rows.
        indexes = [models.Index(fields=["archive", "size_bytes"], name="segment_sizes")]

    def __str__(self) -> str:
        return f"segment {self.number}"


class Artifact(models.Model):
    """A file that a job left: kept in the object store under the job's prefix."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="artifacts")
    path = models.CharField(max_length=500)  # relative to the job's folder, "/" between parts
    size_bytes = models.BigIntegerField()
    mtime_ns = models.BigIntegerField()
    storage_key = models.CharField(max_length=300)
    uploaded_at = models.DateTimeField(null=True)  # null: announced, its bytes not there yet

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint("job", "path", name="one_artifact_per_path")]

    def __str__(self) -> str:
        return self.path


class ReconcilerLease(models.Model):
    """Which reconciler may write; every write transaction checks the epoch (fencing)."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    holder = models.CharField(max_length=100, blank=True, default="")
    epoch = models.BigIntegerField(default=0)
    renewed_at = models.DateTimeField(null=True)
    # For the health page and banner: what the reconciler last knew of the cluster.
    cluster_ok_at = models.DateTimeField(null=True)
    cluster_error = models.TextField(blank=True, default="")
    # What the reconciler says of itself and of the cluster (jobs/engine/health.py has the shape).
    health = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"epoch {self.epoch} of {self.holder}"


class Node(models.Model):
    """A node of the cluster as last seen: capacity, and what pods hold of it."""

    name = models.CharField(max_length=253, primary_key=True)
    is_ready = models.BooleanField(default=False)
    is_schedulable = models.BooleanField(default=True)
    # All three: {"cpu": millicores, "memory": bytes, "gpu": n, "pods": n}
    capacity = models.JSONField(default=dict)
    allocatable = models.JSONField(default=dict)
    requested = models.JSONField(default=dict)
    labels = models.JSONField(default=dict)
    # [{"type", "status", "reason", "message", "since": ISO time | null}]
    conditions = models.JSONField(default=list)
    taints = models.JSONField(default=list)  # [{"key", "value", "effect"}]
    # Pods that hold GPUs here, foreign ones included: [{"namespace", "pod", "owner": id of the row
    # that the pod belongs to or "", "gpu": n, "gpus": "0,1", "since": ISO time | null}]
    holders = models.JSONField(default=list)
    # What the node says of itself: {"gpu_models", "gpu_note", "kubelet", "system", "machine"}
    about = models.JSONField(default=dict)
    seen_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.name
