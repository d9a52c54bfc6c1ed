"""How notebooks and TensorBoards look in REST, and their bodies for the OpenAPI document.

The bodies are checked by `jobs/services/submission.py`, which form and command line share; the
serializers here only document them.
"""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from jobs.models import Service, ServiceEvent
from jobs.serializers import ReasonSerializer
from portal import quantity


class NotebookBodySerializer(serializers.Serializer[Any]):
    """The body that asks for a notebook; what is left out comes from the catalog."""

    name = serializers.RegexField(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}")
    image = serializers.CharField(max_length=255, required=False)
    size = serializers.CharField(required=False, help_text="a size of the catalog")
    cpu = serializers.CharField(required=False)
    memory = serializers.CharField(required=False)
    gpu = serializers.IntegerField(required=False)


class TensorBoardBodySerializer(serializers.Serializer[Any]):
    """The body that asks for a TensorBoard; without a training it shows all of the log volume."""

    name = serializers.RegexField(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}")
    job = serializers.UUIDField(required=False)
    jobs = serializers.ListField(child=serializers.UUIDField(), required=False)


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


class ServiceSerializer(serializers.ModelSerializer[Service]):
    owner = serializers.CharField(source="owner.username")
    namespace = serializers.CharField(source="tenant.namespace")
    reason = serializers.SerializerMethodField()
    cpu = serializers.SerializerMethodField()
    memory = serializers.SerializerMethodField()
    gpu = serializers.IntegerField(source="gpu_count")
    steps = StepSerializer(many=True)

    class Meta:
        model = Service
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

    @extend_schema_field(ReasonSerializer)
    def get_reason(self, service: Service) -> dict[str, str]:
        return {
            "code": service.reason_code,
            "text": service.reason_text,
            "next_step": service.reason_next_step,
        }

    @extend_schema_field(serializers.CharField())
    def get_cpu(self, service: Service) -> str:
        return quantity.cpu_text(service.cpu_millicores)

    @extend_schema_field(serializers.CharField())
    def get_memory(self, service: Service) -> str:
        return quantity.memory_text(service.memory_bytes)


class TensorBoardSerializer(ServiceSerializer):
    """With what it shows."""

    log_dirs = LogDirSerializer(many=True)
    event_files = serializers.IntegerField(
        allow_null=True, help_text="found below its folders; null: not known yet"
    )

    class Meta(ServiceSerializer.Meta):
        fields = (*ServiceSerializer.Meta.fields, "log_dirs", "event_files")


class ServiceEventSerializer(serializers.ModelSerializer[ServiceEvent]):
    class Meta:
        model = ServiceEvent
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
