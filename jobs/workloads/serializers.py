"""How workloads look in REST; what was asked for of a training is written by `TrainingSerializer`."""

from datetime import datetime
from functools import cached_property
from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers

from jobs import private
from jobs.kinds.interactive.spec import STATES
from jobs.kinds.spec import spec_of
from jobs.kinds.training.serializer import (
    ResourcesSerializer,
    SourceSerializer,
    TrainingSerializer,
)
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Artifact, Bundle, Replica, Workload, WorkloadEvent
from portal import quantity

# As the document has always said it of numbers that a column keeps.
INT64: dict[str, Any] = {"min_value": -(2**63), "max_value": 2**63 - 1}


class ReasonSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    text = serializers.CharField()
    next_step = serializers.CharField()


def reason_json(workload: Workload) -> dict[str, str]:
    """As `ReasonSerializer` says."""
    return {
        "code": workload.reason_code,
        "text": workload.reason_text,
        "next_step": workload.reason_next_step,
    }


class ReplicaSerializer(serializers.ModelSerializer[Replica]):
    reason = serializers.CharField(source="reason_text")

    class Meta:
        model = Replica
        fields = (
            "role",
            "index",
            "attempt",
            "pod",
            "node",
            "gpus",
            "state",
            "exit_code",
            "reason",
            "restarts",
            "started_at",
            "finished_at",
        )

    def to_representation(self, instance: Replica) -> dict[str, Any]:
        """As the fields say, a fifth of the time: a list of trainings may hold thousands of replicas."""
        return {
            "role": instance.role,
            "index": instance.index,
            "attempt": instance.attempt,
            "pod": instance.pod,
            "node": instance.node,
            "gpus": instance.gpus,
            "state": instance.state,
            "exit_code": instance.exit_code,
            "reason": instance.reason_text,
            "restarts": instance.restarts,
            "started_at": stamp(instance.started_at),
            "finished_at": stamp(instance.finished_at),
        }


def stamp(at: datetime | None) -> str | None:
    """As DateTimeField writes it; rows hold UTC."""
    return None if at is None else at.isoformat().replace("+00:00", "Z")


class StopSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")


class FitSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(["now", "later", "never"])
    text = serializers.CharField()


class PreviewSerializer(serializers.Serializer[Any]):
    fit = FitSerializer()
    manifests = serializers.CharField(help_text="YAML documents")


class JobSerializer(serializers.ModelSerializer[Workload]):
    owner = serializers.CharField(source="owner.username")
    namespace = serializers.CharField(source="tenant.namespace")
    reason = ReasonSerializer(read_only=True)
    replicas = ReplicaSerializer(source="replica_rows", many=True)
    topology = serializers.CharField(max_length=16)
    command = serializers.JSONField()
    source = SourceSerializer(allow_null=True, read_only=True)  # type: ignore[assignment]
    resources = serializers.DictField(child=ResourcesSerializer(), read_only=True)
    env = serializers.DictField(
        child=serializers.CharField(allow_null=True),
        read_only=True,
        help_text="values are null for all but the owner",
    )
    cluster_flags = serializers.JSONField(required=False)
    success_policy = serializers.CharField(max_length=16, required=False, allow_null=True)
    priority = serializers.CharField(max_length=16, required=False)
    retries = serializers.IntegerField(required=False, **INT64)
    deadline_s = serializers.IntegerField(required=False, allow_null=True, **INT64)
    starting_deadline_s = serializers.IntegerField(required=False, **INT64)
    clean_policy = serializers.CharField(max_length=16, required=False)
    ttl_s = serializers.IntegerField(required=False, **INT64)
    shm = serializers.CharField(allow_null=True, read_only=True)

    class Meta:
        model = Workload
        fields = (
            "id",
            "name",
            "owner",
            "namespace",
            "state",
            "reason",
            "attempt",
            "queued_at",
            "started_at",
            "finished_at",
            "replicas",
            "topology",
            "image",
            "command",
            "source",
            "resources",
            "env",
            "cluster_flags",
            "success_policy",
            "priority",
            "retries",
            "deadline_s",
            "starting_deadline_s",
            "clean_policy",
            "ttl_s",
            "shm",
            "revision",
        )

    def to_representation(self, instance: Workload) -> dict[str, Any]:
        """As the fields say, at a part of the price: a page of the list has 200 trainings."""
        tenant, reader = instance.tenant, self.context["request"].user
        spec = private.shown_spec(spec_of(instance, TrainingSpec), tenant, reader)
        _name, *request = self._request.to_representation(spec).items()
        return {
            "id": str(instance.pk),
            "name": spec.name,
            "owner": instance.owner.username,
            "namespace": tenant.namespace,
            "state": str(instance.state),
            "reason": reason_json(instance),
            "attempt": instance.attempt,
            "queued_at": stamp(instance.queued_at),
            "started_at": stamp(instance.started_at),
            "finished_at": stamp(instance.finished_at),
            "replicas": self.fields["replicas"].to_representation(instance.shown_replicas),
            # What a body calls replicas is the pods' own here.
            **{"resources" if name == "replicas" else name: asked for name, asked in request},
            "revision": instance.revision,
        }

    @cached_property
    def _request(self) -> TrainingSerializer:
        return TrainingSerializer()


class EventSerializer(serializers.ModelSerializer[WorkloadEvent]):
    class Meta:
        model = WorkloadEvent
        fields = ("at", "is_warning", "source", "subject", "reason", "message", "count")


class ArtifactSerializer(serializers.ModelSerializer[Artifact]):
    class Meta:
        model = Artifact
        fields = ("id", "path", "size_bytes", "uploaded_at")


class BundleSerializer(serializers.ModelSerializer[Bundle]):
    class Meta:
        model = Bundle
        fields = ("id", "file_name", "sha256", "size_bytes", "created_at")


# --- notebooks and TensorBoards ---
class StepSerializer(serializers.Serializer[Any]):
    """One step of the start-up."""

    key = serializers.CharField()
    state = serializers.ChoiceField(["done", "now", "wait", "failed"])
    at = serializers.DateTimeField(allow_null=True)
    detail = serializers.CharField()


class LogDirSerializer(serializers.Serializer[Any]):
    """A folder that a TensorBoard shows."""

    title = serializers.CharField()
    path = serializers.CharField()
    job = serializers.UUIDField()


class ServiceSerializer(serializers.ModelSerializer[Workload]):
    # For a list, prefetch `replica_rows`.
    owner = serializers.CharField(source="owner.username")
    namespace = serializers.CharField(source="tenant.namespace")
    state = serializers.ChoiceField(STATES, required=False)
    reason = ReasonSerializer(read_only=True)
    cpu = serializers.CharField(read_only=True)
    memory = serializers.CharField(read_only=True)
    gpu = serializers.IntegerField()
    requested_at = serializers.DateTimeField(required=False)
    start_count = serializers.IntegerField(required=False, **INT64)
    ready_at = serializers.DateTimeField(required=False, allow_null=True)
    ended_at = serializers.DateTimeField(required=False, allow_null=True)
    steps = StepSerializer(many=True)
    restarts = serializers.IntegerField(required=False, **INT64)
    pod = serializers.CharField(required=False, max_length=253)
    node = serializers.CharField(required=False, max_length=253)
    gpus = serializers.CharField(required=False, max_length=100)

    class Meta:
        model = Workload
        fields: tuple[str, ...] = (
            "id",
            "name",
            "owner",
            "namespace",
            "state",
            "reason",
            "image",
            "cpu",
            "memory",
            "gpu",
            "created_at",
            "requested_at",
            "start_count",
            "admitted_at",
            "ready_at",
            "ended_at",
            "steps",
            "restarts",
            "pod",
            "node",
            "gpus",
            "revision",
        )

    def to_representation(self, instance: Workload) -> dict[str, Any]:
        """As the fields say."""
        asked = instance.replicas[instance.kind]
        replica = instance.replica or Replica()
        return {
            "id": str(instance.pk),
            "name": instance.name,
            "owner": instance.owner.username,
            "namespace": instance.tenant.namespace,
            "state": str(instance.state),
            "reason": reason_json(instance),
            "image": instance.image,
            "cpu": quantity.cpu_text(asked["cpu_millicores"]),
            "memory": quantity.memory_text(asked["memory_bytes"]),
            "gpu": asked["gpu_count"],
            "created_at": stamp(instance.created_at),
            "requested_at": stamp(instance.queued_at),
            "start_count": instance.generation,
            "admitted_at": stamp(instance.admitted_at),
            "ready_at": stamp(instance.started_at),
            "ended_at": stamp(instance.finished_at),
            "steps": self.fields["steps"].to_representation(instance.steps),
            "restarts": replica.restarts,
            "pod": replica.pod,
            "node": replica.node,
            "gpus": replica.gpus,
            "revision": instance.revision,
        }


@extend_schema_serializer(component_name="TensorBoard")
class ShownTensorBoardSerializer(ServiceSerializer):
    """With what it shows."""

    log_dirs = LogDirSerializer(many=True)
    event_files = serializers.IntegerField(
        allow_null=True, help_text="found below its folders; null: not known yet"
    )

    class Meta(ServiceSerializer.Meta):
        fields = (*ServiceSerializer.Meta.fields, "log_dirs", "event_files")

    def to_representation(self, instance: Workload) -> dict[str, Any]:
        """As the fields say."""
        return {
            **super().to_representation(instance),
            "log_dirs": instance.spec["log_dirs"],
            "event_files": instance.event_files,
        }


class ServiceEventSerializer(serializers.ModelSerializer[WorkloadEvent]):
    start_count = serializers.IntegerField(source="generation", required=False, **INT64)

    class Meta:
        model = WorkloadEvent
        fields = (
            "at",
            "start_count",
            "is_warning",
            "source",
            "subject",
            "reason",
            "message",
            "count",
        )


class LinkSerializer(serializers.Serializer[Any]):
    """A link that opens it once."""

    url = serializers.CharField()
    expires_at = serializers.DateTimeField()
