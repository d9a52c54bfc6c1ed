"""Workloads, their replicas and events; bundles, archived logs, artifacts; secrets.

Who writes what: actions write intent (`desired`, `generation` and the request itself), the
reconciler writes everything observed, and `/internal/` (called by pods) writes archive rows
(`ReplicaArchive`, `LogSegment`, `Artifact`) and what only pods can find out (`event_files`, `source_commit`).
"""

import uuid
from datetime import datetime
from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import NullIf
from django.utils import timezone
from django.utils.functional import cached_property

import jobs.places  # tables that Django finds by this module
import jobs.questions  # noqa: F401  likewise
from jobs.rules.endings import NODE_FAULTS
from jobs.rules.states import FINAL_STATES, Desired, ReplicaState, WorkloadState
from jobs.rules.topologies import in_role_order
from portal.cluster.names import user_secret_name
from tenants import policy
from tenants.models import Team, Tenant, User

_SHOWN_ATTEMPTS = 100


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


class WorkloadQuerySet(models.QuerySet["Workload"]):
    """The only ways to look workloads up on somebody's behalf."""

    def visible_to(self, user: Any) -> "WorkloadQuerySet":
        """Those of the own tenant, of teams that the user leads, all for an admin; deleted ones never."""
        return self.not_deleted().filter(policy.within_tenants(user, "see"))

    def not_deleted(self) -> "WorkloadQuerySet":
        """Those that somebody may yet see."""
        return self.exclude(desired=Desired.DELETE)

    def unfinished(self) -> "WorkloadQuerySet":
        """Those that hold something of the cluster or wait for it."""
        return self.exclude(state__in=FINAL_STATES)

    def queued(self) -> "WorkloadQuerySet":
        """Those that wait in the queue and are still wanted."""
        return self.filter(state=WorkloadState.QUEUED, desired=Desired.RUN)

    def for_lists(self) -> "WorkloadQuerySet":
        """Without the large columns that no list shows: most of what reading a list would cost."""
        return self.defer("plan", "notes", "spec", "steps")


# Of what is in the cluster, or wanted otherwise than it is. The reconciler asks for them with every
# change: in these words, or the index that has them is not used.
# The third says that two columns differ. PostgreSQL takes `<>` of columns for true of nearly all rows,
# and reads the table; it takes this for rare, as it is.
# https://www.postgresql.org/docs/current/row-estimation-examples.html
WITH_WORK = (
    Q(cleaned_at__isnull=True)
    | Q(desired=Desired.DELETE.value)
    | Q(observed_generation=NullIf("observed_generation", "generation"))
)

# The few rows by which the queue's guards go; likewise.
FAILED_EVENTS = Q(reason="Failed")
LOST_REPLICAS = Q(reason_code__in=sorted(NODE_FAULTS))


class Workload(models.Model):
    """A training, a notebook or a TensorBoard: what was asked for, and what became of it.

    It keeps its identity over stops and starts.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=16)  # a key of jobs/kinds/registry.py
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="workloads")
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="workloads")
    created_at = models.DateTimeField(default=timezone.now)

    # --- the request; `jobs/kinds/spec.py` reads and writes these four ---
    name = models.CharField(max_length=80)
    image = models.CharField(max_length=255)
    # role -> {"count": n, "cpu_millicores": n, "memory_bytes": n, "gpu_count": n, "image"?: text}
    replicas = models.JSONField()
    spec = models.JSONField(default=dict)  # all else that the kind's spec has; up to 320 KB

    # --- intent ---
    desired = models.CharField(max_length=8, choices=_choices(Desired), default=Desired.RUN)
    # Counts starts; cookies and tickets of an earlier start are worth nothing.
    generation = models.IntegerField(default=1)
    queued_at = models.DateTimeField(default=timezone.now)  # when this generation was asked for
    # Its place in its namespace's own order of the queue; equal ones go by age.
    rank = models.IntegerField(default=0, db_default=0)
    stop_requested_at = models.DateTimeField(null=True)
    stop_requested_by = models.ForeignKey(
        User, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    stop_reason = models.TextField(blank=True, default="")  # shown to the owner

    # --- observed, written by the reconciler only; all of it about `observed_generation` ---
    # Behind `generation` until a new start has been noticed; 0 before the first look.
    observed_generation = models.IntegerField(default=0)
    state = models.CharField(
        max_length=16, choices=_choices(WorkloadState), default=WorkloadState.QUEUED
    )
    reason_code = models.CharField(max_length=64, blank=True, default="")
    reason_text = models.TextField(blank=True, default="")
    reason_next_step = models.TextField(blank=True, default="")
    attempt = models.IntegerField(default=1)  # part of the names of its objects
    requeued_count = models.IntegerField(default=0)
    not_before = models.DateTimeField(null=True)  # back-off after a withdrawal
    admitted_at = models.DateTimeField(null=True)
    # Fixed at admission: its room is free then at the latest. Null: it has no deadline, or an earlier
    # version admitted it.
    ends_by = models.DateTimeField(null=True)
    # While it is being stopped for another one: since when, and for whose, or why for nobody.
    preempted_at = models.DateTimeField(null=True)
    preempted_for = models.CharField(max_length=150, blank=True, default="", db_default="")
    preempted_why = models.TextField(blank=True, default="", db_default="")
    stops_from = models.DateTimeField(null=True)  # until then nothing is stopped for it
    started_at = models.DateTimeField(null=True)  # first time that all of it ran, or answered
    deciders_ended_at = models.DateTimeField(null=True)  # when the deciding replicas ended
    finished_at = models.DateTimeField(null=True)
    # The start-up, in order: [{"key", "state": "done|now|wait|failed", "at": ISO time | null,
    # "detail"}], of what is served behind a gate; keys: requested, admitted, scheduled, volumes,
    # image, started, ready.
    steps = models.JSONField(default=list)
    node_port = models.IntegerField(null=True)  # of the gate
    # TensorBoard: how many event files its pod found, as it told `/internal/`; null: not told yet.
    event_files = models.IntegerField(null=True)
    # Of a training with code from git: what its first pod found, as it told `/internal/`; all later
    # pods and attempts take the same. Empty: not told yet.
    source_commit = models.CharField(max_length=64, blank=True, default="", db_default="")
    # Rendered at admission and never again: [{"apiVersion", "kind", ...}], without secret values.
    plan = models.JSONField(null=True)
    root_uid = models.CharField(max_length=36, blank=True, default="")
    cleaned_at = models.DateTimeField(null=True)  # nothing of it is left in the cluster
    notes = models.JSONField(default=dict)  # the reconciler's own, see jobs/kinds/notes.py
    revision = models.BigIntegerField(default=1)

    objects: ClassVar[Any] = WorkloadQuerySet.as_manager()

    class Meta:
        ordering = ["-queued_at"]
        indexes = [
            models.Index(fields=["tenant", "kind", "-queued_at"], name="workloads_of_tenant"),
            models.Index(fields=["kind", "-queued_at"], name="workloads_of_kind"),
            models.Index(fields=["state", "queued_at"], name="workloads_by_state"),
            models.Index(fields=["id"], name="workloads_with_work", condition=WITH_WORK),
            models.Index(fields=["admitted_at"], name="workloads_by_admission"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES

    @property
    def is_waiting(self) -> bool:
        """Whether it waits in the queue, and is still wanted."""
        return self.state == WorkloadState.QUEUED and self.desired == Desired.RUN

    @property
    def room_ends_by(self) -> datetime | None:
        """`ends_by`, but where an earlier version, which knows nothing of it, has admitted it since."""
        is_old = self.ends_by and self.admitted_at and self.ends_by < self.admitted_at
        return None if is_old else self.ends_by

    @property
    def stopped_by(self) -> str:
        """Name of the person who asked for the stop; empty when that was the owner, or nobody."""
        by = self.stop_requested_by
        return by.shown_name if by is not None and by.pk != self.owner_id else ""

    @property
    def asked(self) -> dict[str, dict[str, Any]]:
        """`replicas` in the order of their roles."""
        return in_role_order(self.replicas)

    @property
    def pod_count(self) -> int:
        """How many pods it has when all of it runs."""
        return sum(asked.get("count", 1) for asked in self.replicas.values())

    @property
    def path_prefix(self) -> str:
        """Where its gate answers on its NodePort: cookies of several on one host do not collide."""
        return f"/s/{self.pk.hex[:8]}/"

    @property
    def latest_attempts(self) -> "list[Attempt]":
        """The latest first, at most 100: what never finds room is withdrawn some seventy times a day."""
        return list(self.attempts.order_by("-number")[:_SHOWN_ATTEMPTS])

    @cached_property
    def last_checkpoint(self) -> "ReplicaArchive | None":
        """The newest of which a replica of the latest attempt that told has told; None: none is known."""
        told: models.QuerySet[ReplicaArchive] = self.archives.exclude(checkpoint="")
        return told.order_by("-attempt", "-checkpoint_at").first()

    @cached_property
    def shown_replicas(self) -> "list[Replica]":
        """Its replicas in their order; what `Prefetch(to_attr=...)` has brought for a whole list."""
        return list(self.replica_rows.all())

    @property
    def replica(self) -> "Replica | None":
        """Where one replica is all: that one, of the current attempt. Prefetch `replica_rows` for lists."""
        return next((row for row in self.replica_rows.all() if row.attempt == self.attempt), None)


class Replica(models.Model):
    """One task of a workload in one attempt, as last seen."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="replica_rows")
    role = models.CharField(max_length=16)
    index = models.IntegerField()
    attempt = models.IntegerField(default=1)
    # Counts pods of the same task within the attempt: a pod replaced by the cluster is the next.
    incarnation = models.IntegerField(default=1)
    pod = models.CharField(max_length=253, blank=True, default="")
    pod_uid = models.CharField(max_length=36, blank=True, default="")
    node = models.CharField(max_length=253, blank=True, default="")
    gpus = models.CharField(max_length=100, blank=True, default="")  # "0,1" when the node tells
    # Of a training whose replicas meet by address: the IP address that the others are told.
    address = models.CharField(max_length=45, blank=True, default="", db_default="")
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
            models.UniqueConstraint(
                "workload", "role", "index", "attempt", name="one_row_per_replica"
            )
        ]
        indexes = [
            models.Index(fields=["finished_at"], name="replicas_lost", condition=LOST_REPLICAS)
        ]

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


class Attempt(models.Model):
    """One run of a training from its objects' creation to their end, with a log of its own.

    Trainings alone have them, and only attempts that began, or changed, since there are such rows.
    """

    # Without a constraint in the database: the version before this table may delete workloads.
    workload = models.ForeignKey(
        Workload, on_delete=models.CASCADE, related_name="attempts", db_constraint=False
    )
    number = models.IntegerField()  # 1 is the first; `Replica.attempt`
    # Why it began, one of `jobs/rules/restarts.py`: Cause.
    cause = models.CharField(max_length=16)
    admitted_at = models.DateTimeField(null=True)  # since when it has had room
    started_at = models.DateTimeField(null=True)  # first time that all of it ran
    ended_at = models.DateTimeField(null=True)  # when its outcome was known
    reason_code = models.CharField(max_length=64, blank=True, default="")  # why it ended
    reason_text = models.TextField(blank=True, default="")
    exit_code = models.IntegerField(null=True)  # of the replica that decided, when one did

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint("workload", "number", name="one_row_per_attempt")]

    def __str__(self) -> str:
        return f"attempt {self.number}"


class WorkloadEvent(models.Model):
    """Something that happened to a workload: from the cluster (with its uid) or from Homeport."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="events")
    generation = models.IntegerField(default=1)
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
        constraints = [models.UniqueConstraint("workload", "uid", name="one_row_per_event")]
        indexes = [models.Index(fields=["at"], name="events_failed", condition=FAILED_EVENTS)]

    def __str__(self) -> str:
        return f"{self.reason} {self.subject}"


class ReplicaArchive(models.Model):
    """How far the log of one replica (one attempt) has been archived, as its pod reported."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="archives")
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
    # How often that pod's container had started again when it reported its end, as far as had been seen.
    restarts = models.IntegerField(default=0, db_default=0)
    # What lies before it is of containers that have ended: the pod has only what its newest one printed.
    run_start_byte = models.BigIntegerField(default=0, db_default=0)
    # The newest checkpoint that the pod saw at its end; empty: none, or not told.
    checkpoint = models.CharField(max_length=200, blank=True, default="", db_default="")
    checkpoint_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint("workload", "role", "index", "attempt", name="one_archive")
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
    """A file that a training left: kept in the object store under its prefix."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="artifacts")
    path = models.CharField(max_length=500)  # relative to the training's folder, "/" between parts
    size_bytes = models.BigIntegerField()
    mtime_ns = models.BigIntegerField()
    storage_key = models.CharField(max_length=300)
    uploaded_at = models.DateTimeField(null=True)  # null: announced, its bytes not there yet

    class Meta:
        ordering = ["path"]
        constraints = [models.UniqueConstraint("workload", "path", name="one_artifact_per_path")]

    def __str__(self) -> str:
        return self.path


class UserSecret(models.Model):
    """A secret of a person. Its values are in the cluster and nowhere else (`jobs/secrets`)."""

    class Kind(models.TextChoices):
        """What its values are for."""

        GENERIC = "generic"  # variables or files of a training, or its code from git
        REGISTRY = "registry"  # to pull images

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="secrets")
    name = models.CharField(max_length=40)
    kind = models.CharField(max_length=8, choices=Kind.choices)
    keys = models.JSONField(default=list)  # names of its values, in order
    revision = models.IntegerField(default=1)  # of its values; each is an object in the cluster
    # Encrypted values that are not in the cluster yet (jobs/secrets/sealing.py); else empty.
    sealed = models.TextField(blank=True, default="")
    revisions = models.JSONField(default=list)  # those that may be in the cluster
    is_deleted = models.BooleanField(default=False)  # and still to be removed from the cluster
    has_work = models.BooleanField(default=True)  # for the reconciler
    # What the cluster last said against that work.
    problem = models.TextField(blank=True, default="")
    changed_at = models.DateTimeField(default=timezone.now)  # its values

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint("tenant", "name", name="one_secret_per_name")]
        indexes = [
            models.Index(fields=["id"], name="secrets_with_work", condition=Q(has_work=True))
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> str:
        """`pending` until the cluster has its values, `ready`, or `lost`: the cluster has them no more."""
        if self.sealed:
            return "pending"
        return "ready" if self.revision in self.revisions else "lost"

    @property
    def object_name(self) -> str:
        """Of its values in the cluster."""
        return user_secret_name(self.name, self.revision)


class IdempotentRequest(models.Model):
    """A request that carried an `Idempotency-Key`, and what it created (jobs/workloads/idempotency.py)."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=255)
    request_sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_index=True)
    status = models.IntegerField()  # of HTTP
    # The id of what it created. Not the answer itself, which is large and holds values of variables.
    created_id = models.UUIDField()

    class Meta:
        constraints = [models.UniqueConstraint("user", "key", name="one_request_per_key")]

    def __str__(self) -> str:
        return f"{self.key} of {self.user_id}"


class TemplateQuerySet(models.QuerySet["Template"]):
    """The only way to look templates up on somebody's behalf."""

    def visible_to(self, user: Any) -> "TemplateQuerySet":
        """One's own, and those of teams that one sees."""
        teams = Team.objects.visible_to(user).values("pk")
        return self.filter(Q(owner_id=user.pk) | Q(team__in=teams))


class Template(models.Model):
    """A request for a training under a name: of a person or, published by a lead, of a team."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    # Without a constraint in the database: the version before this table may delete teams.
    team = models.ForeignKey(
        Team, null=True, on_delete=models.CASCADE, related_name="+", db_constraint=False
    )
    name = models.CharField(max_length=80)
    # A body of REST with every field. Blank are what was not chosen, and an upload, which is asked for
    # when it is used: `{"source": {"bundle": ""}}`.
    spec = models.JSONField()
    updated_at = models.DateTimeField()

    objects: ClassVar[Any] = TemplateQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "name"], condition=Q(team=None), name="one_template_per_name"
            ),
            models.UniqueConstraint("team", "name", name="one_template_per_name_of_a_team"),
        ]

    def __str__(self) -> str:
        return self.name


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
    # {full reference: what the machine lacks for it, "": nothing} of a node that has no other images;
    # null: it pulls from registries.
    images = models.JSONField(null=True)
    seen_at = models.DateTimeField(default=timezone.now)
    # An admin's: what died there before does not keep new work away (jobs/rules/queue/guards.py).
    used_again_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name
