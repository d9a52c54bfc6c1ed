"""How jobs look in REST, and the submit body for the OpenAPI document.

The submit body is checked by `jobs/submission.py`, which form and command line share; its serializer
here only documents it.
"""

from datetime import datetime
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from jobs import private
from jobs.models import Artifact, Bundle, Job, JobEvent, Replica
from jobs.pod.protocol.placeholders import FLAGS
from jobs.rules.topologies import TOPOLOGIES
from jobs.submission import CLEAN_POLICIES, SUCCESS_POLICIES
from portal import quantity
from tenants.models import User


class ReasonSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    text = serializers.CharField()
    next_step = serializers.CharField()


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
        """As the fields say, a fifth of the time: a list of jobs may hold thousands of replicas."""
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
            "started_at": _stamp(instance.started_at),
            "finished_at": _stamp(instance.finished_at),
        }


def _stamp(at: datetime | None) -> str | None:
    """As DateTimeField writes it; rows hold UTC."""
    return None if at is None else at.isoformat().replace("+00:00", "Z")


class ResourcesSerializer(serializers.Serializer[Any]):
    """One role's request; cpu and memory as Kubernetes quantities."""

    count = serializers.IntegerField(default=1)
    cpu = serializers.CharField(default="1")
    memory = serializers.CharField(default="1Gi")
    gpu = serializers.IntegerField(default=0)


class SourceSerializer(serializers.Serializer[Any]):
    """Exactly one of bundle, url and path."""

    bundle = serializers.UUIDField(required=False)
    url = serializers.URLField(required=False)
    sha256 = serializers.CharField(required=False, help_text="of what the url gives")
    path = serializers.CharField(required=False, help_text="below /data")


class SubmitSerializer(serializers.Serializer[Any]):
    """The body of a submit."""

    name = serializers.RegexField(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}")
    topology = serializers.ChoiceField(list(TOPOLOGIES), default="single")
    image = serializers.CharField(max_length=255)
    command = serializers.ListField(child=serializers.CharField(), min_length=1)
    source = SourceSerializer(required=False, allow_null=True)  # type: ignore[assignment]  # a declared field named like DRF's own attribute; the metaclass takes it out
    replicas = serializers.DictField(child=ResourcesSerializer(), required=False)
    env = serializers.DictField(child=serializers.CharField(), required=False)
    cluster_flags = serializers.ListField(
        child=serializers.ChoiceField(FLAGS),
        required=False,
        help_text="or true for ps_hosts, worker_hosts, job_name and task_index, or false",
    )
    success_policy = serializers.ChoiceField(SUCCESS_POLICIES, required=False, allow_null=True)
    priority = serializers.ChoiceField(["normal"], default="normal")
    retries = serializers.IntegerField(default=0, min_value=0, max_value=10)
    deadline_s = serializers.IntegerField(required=False, allow_null=True)
    starting_deadline_s = serializers.IntegerField(default=300)
    clean_policy = serializers.ChoiceField(CLEAN_POLICIES, default="running")
    ttl_s = serializers.IntegerField(default=86400)
    shm = serializers.CharField(required=False, allow_null=True)


class FitSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(["now", "later", "never"])
    text = serializers.CharField()


class PreviewSerializer(serializers.Serializer[Any]):
    fit = FitSerializer()
    manifests = serializers.CharField(help_text="YAML documents")


def _asker(serializer: serializers.BaseSerializer[Any]) -> User:
    user: User = serializer.context["request"].user
    return user


def source_json(source: dict[str, str] | None) -> dict[str, str] | None:
    """The source as it was given; what we added for the pods is left out."""
    if source is None:
        return None
    keys = ("bundle",) if "bundle" in source else ("url", "sha256", "path")
    return {key: source[key] for key in keys if key in source}


class JobSerializer(serializers.ModelSerializer[Job]):
    owner = serializers.CharField(source="owner.username")
    namespace = serializers.CharField(source="tenant.namespace")
    reason = serializers.SerializerMethodField()
    resources = serializers.SerializerMethodField()
    source = serializers.SerializerMethodField()  # type: ignore[assignment]
    env = serializers.SerializerMethodField()
    shm = serializers.SerializerMethodField()
    replicas = ReplicaSerializer(source="replica_rows", many=True)

    class Meta:
        model = Job
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

    @extend_schema_field(ReasonSerializer)
    def get_reason(self, job: Job) -> dict[str, str]:
        return {
            "code": job.reason_code,
            "text": job.reason_text,
            "next_step": job.reason_next_step,
        }

    @extend_schema_field(serializers.DictField(child=ResourcesSerializer()))
    def get_resources(self, job: Job) -> dict[str, dict[str, Any]]:
        return {
            role: {
                "count": asked["count"],
                "cpu": quantity.cpu_text(asked["cpu_millicores"]),
                "memory": quantity.memory_text(asked["memory_bytes"]),
                "gpu": asked["gpu_count"],
            }
            for role, asked in job.asked.items()
        }

    @extend_schema_field(SourceSerializer(allow_null=True))
    def get_source(self, job: Job) -> dict[str, str] | None:
        return source_json(private.shown_source(job, _asker(self)))

    @extend_schema_field(
        serializers.DictField(
            child=serializers.CharField(allow_null=True),
            help_text="values are null for all but the owner",
        )
    )
    def get_env(self, job: Job) -> dict[str, str | None]:
        return private.shown_env(job, _asker(self))

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_shm(self, job: Job) -> str | None:
        return None if job.shm_bytes is None else quantity.memory_text(job.shm_bytes)


class EventSerializer(serializers.ModelSerializer[JobEvent]):
    class Meta:
        model = JobEvent
        fields = ("at", "is_warning", "source", "subject", "reason", "message", "count")


class ArtifactSerializer(serializers.ModelSerializer[Artifact]):
    class Meta:
        model = Artifact
        fields = ("id", "path", "size_bytes", "uploaded_at")


class BundleSerializer(serializers.ModelSerializer[Bundle]):
    class Meta:
        model = Bundle
        fields = ("id", "file_name", "sha256", "size_bytes", "created_at")
