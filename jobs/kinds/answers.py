"""What REST answers of workloads of every kind."""

from datetime import datetime
from typing import Any

from rest_framework import serializers

from jobs.models import Workload, WorkloadEvent

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


def stamp(at: datetime | None) -> str | None:
    """As DateTimeField writes it; rows hold UTC."""
    return None if at is None else at.isoformat().replace("+00:00", "Z")


class EventSerializer(serializers.ModelSerializer[WorkloadEvent]):
    class Meta:
        model = WorkloadEvent
        fields = ("at", "is_warning", "source", "subject", "reason", "message", "count")
