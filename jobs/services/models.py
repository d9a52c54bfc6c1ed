"""Notebooks and TensorBoards as rows: what was asked for, and what is seen of it.

Actions write intent (`desired`, `start_count` and the request itself); everything observed is
written by the reconciler only.
"""

import uuid
from enum import StrEnum
from typing import Any, ClassVar

from django.db import models
from django.utils import timezone

from tenants import policy
from tenants.models import Tenant, User


class ServiceState(StrEnum):
    """Where a service is. It may go from every final state back to `queued`."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


STATE_CHOICES = [(state.value, state.value) for state in ServiceState]
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
        choices=STATE_CHOICES,
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
