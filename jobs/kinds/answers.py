"""What REST answers of workloads of every kind."""

from datetime import datetime
from typing import Any

from rest_framework import serializers

from jobs.kinds.next_steps import NextSteps
from jobs.models import Workload, WorkloadEvent

# As the document has always said it of numbers that a column keeps.
INT64: dict[str, Any] = {"min_value": -(2**63), "max_value": 2**63 - 1}


class ReasonSerializer(serializers.Serializer[Any]):
    code = serializers.CharField()
    text = serializers.CharField()
    next_step = serializers.CharField()


def reason_json(workload: Workload, next_steps: NextSteps) -> dict[str, str]:
    """As `ReasonSerializer` says, in the words of who reads it."""
    return {
        "code": workload.reason_code,
        "text": workload.reason_text,
        "next_step": next_steps.of(workload),
    }


def stamp(at: datetime | None) -> str | None:
    """As DateTimeField writes it; rows hold UTC."""
    return None if at is None else at.isoformat().replace("+00:00", "Z")


class StartEstimateSerializer(serializers.Serializer[Any]):
    """When one starts that waits."""

    at = serializers.DateTimeField(allow_null=True, help_text="null: it cannot be told")
    basis = serializers.CharField(help_text="what that follows from, or why it cannot be told")


class PlacedSerializer(serializers.Serializer[Any]):
    """With its place in the queue; one that does not wait there has nulls and no rules.

    The place comes as `context["place"]`, as a person may see it.
    """

    position = serializers.IntegerField(
        allow_null=True, help_text="in the queue of its namespace; null: it does not wait there"
    )
    position_all = serializers.IntegerField(
        allow_null=True, help_text="in the whole queue; null: it came after the last look at it"
    )
    start_estimate = StartEstimateSerializer(allow_null=True)
    rules = serializers.ListField(
        child=serializers.CharField(), help_text="why it stands there and waits, in order"
    )

    def to_representation(self, instance: Any) -> dict[str, Any]:
        """As the fields say."""
        return {**super().to_representation(instance), **self.context["place"]}


PLACE_FIELDS = ("position", "position_all", "start_estimate", "rules")


class EventSerializer(serializers.ModelSerializer[WorkloadEvent]):
    class Meta:
        model = WorkloadEvent
        fields = ("at", "is_warning", "source", "subject", "reason", "message", "count")
