"""How what is served behind a gate looks in REST."""

from functools import cached_property
from typing import Any

from rest_framework import serializers

from jobs.kinds.answers import INT64, ReasonSerializer, reason_json, stamp
from jobs.kinds.interactive.spec import STATES
from jobs.kinds.next_steps import NextSteps
from jobs.models import Replica, Workload, WorkloadEvent
from portal import quantity


class StepSerializer(serializers.Serializer[Any]):
    """One step of the start-up."""

    key = serializers.CharField()
    state = serializers.ChoiceField(["done", "now", "wait", "failed"])
    at = serializers.DateTimeField(allow_null=True)
    detail = serializers.CharField()


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
            "reason": reason_json(instance, self._next_steps),
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

    @cached_property
    def _next_steps(self) -> NextSteps:
        return NextSteps(self.context["request"].user)


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
