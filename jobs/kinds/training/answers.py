"""How a training looks in REST; what was asked for is written by `TrainingSerializer`."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from django.db.models import Count
from django.utils.timezone import now
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from jobs.kinds.answers import (
    INT64,
    PLACE_FIELDS,
    PlacedSerializer,
    ReasonSerializer,
    reason_json,
    stamp,
)
from jobs.kinds.next_steps import NextSteps
from jobs.kinds.spec import spec_of
from jobs.kinds.training import private
from jobs.kinds.training.commands import command_hints
from jobs.kinds.training.continuing import FinishedTraining
from jobs.kinds.training.fields import Indexes, PoolName, ResourcesSerializer
from jobs.kinds.training.serializer import TrainingSerializer
from jobs.kinds.training.source import SourceSerializer
from jobs.kinds.training.spec import TrainingSpec
from jobs.kinds.training.suspended import suspended_seconds
from jobs.models import Attempt, Replica, Workload
from jobs.rules import conditions
from jobs.rules.restarts import Cause
from jobs.rules.states import ReplicaState, WorkloadState
from jobs.rules.topologies import Role, get_topology
from portal.web.fields import Integer, Quantity, TrueOrFalse
from portal.web.format import duration_text
from portal.web.forms import AnyField


class ReplicaSerializer(serializers.ModelSerializer[Replica]):
    reason = serializers.CharField(source="reason_text")

    class Meta:
        model = Replica
        fields: tuple[str, ...] = (
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


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    cause = serializers.ChoiceField([cause.value for cause in Cause])
    reason = serializers.CharField(source="reason_text")

    class Meta:
        model = Attempt
        fields: tuple[str, ...] = (
            "number",
            "cause",
            "admitted_at",
            "started_at",
            "ended_at",
            "reason_code",
            "reason",
            "exit_code",
        )


class JobConditionSerializer(serializers.Serializer[conditions.JobCondition]):
    type = serializers.ChoiceField(list(conditions.TYPES))
    status = serializers.SerializerMethodField()
    reason = serializers.CharField()
    message = serializers.CharField()
    at = serializers.DateTimeField()

    @extend_schema_field(serializers.ChoiceField(["True", "False"]))
    def get_status(self, condition: conditions.JobCondition) -> str:
        return str(condition.is_true)


def _answered(each: AnyField) -> AnyField:
    """How the document describes what REST answers of an option."""
    if isinstance(each, Integer):
        return serializers.IntegerField(required=False, allow_null=each.allow_null, **INT64)
    if isinstance(each, TrueOrFalse):
        return serializers.BooleanField(required=False)
    if isinstance(each, FinishedTraining):
        return serializers.UUIDField(allow_null=True, read_only=True)
    if isinstance(each, Quantity | Indexes | PoolName):
        return serializers.CharField(allow_null=each.allow_null, read_only=True)
    return serializers.CharField(max_length=16, required=False, allow_null=each.allow_null)


class JobSerializer(serializers.ModelSerializer[Workload]):
    owner = serializers.CharField(source="owner.username")
    namespace = serializers.CharField(source="tenant.namespace")
    reason = ReasonSerializer(read_only=True)
    suspended_s = serializers.IntegerField(
        read_only=True, help_text="since `started_at`, without a suspension that still lasts"
    )
    replicas = ReplicaSerializer(source="replica_rows", many=True)
    topology = serializers.CharField(max_length=16)
    command = serializers.JSONField()
    source = SourceSerializer(allow_null=True, read_only=True)  # type: ignore[assignment]
    source_commit = serializers.CharField(
        allow_null=True, read_only=True, help_text="of code from git, once a pod has fetched it"
    )
    resources = serializers.DictField(child=ResourcesSerializer(), read_only=True)
    env = serializers.DictField(
        child=serializers.CharField(allow_null=True),
        read_only=True,
        help_text="values are null for all but the owner",
    )
    secrets = serializers.DictField(child=serializers.CharField(), read_only=True)
    cluster_flags = serializers.JSONField(required=False)

    class Meta:
        model = Workload
        fields: tuple[str, ...] = (
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
            "suspended_s",
            "replicas",
            "topology",
            "image",
            "command",
            "source",
            "source_commit",
            "resources",
            "env",
            "secrets",
            "cluster_flags",
            "revision",
        )

    def get_fields(self) -> dict[str, AnyField]:
        """With all other options of a request, in its order."""
        found: dict[str, AnyField] = super().get_fields()
        ours = {name: found.pop(name) for name in ("source_commit", "revision")}
        own = {name: found.pop(name) for name in ("env", "secrets", "cluster_flags")}
        asked = TrainingSerializer().fields.items()
        options = {
            name: own[name] if name in own else _answered(each)
            for name, each in asked
            if name not in found
        }
        return {**found, **options, **ours}

    def to_representation(self, instance: Workload) -> dict[str, Any]:
        """As the fields say, at a part of the price: a page of the list has 200 trainings."""
        tenant, reader = instance.tenant, self.context["request"].user
        spec = private.shown_spec(spec_of(instance, TrainingSpec), tenant, reader)
        known = self.context.get("suspended_s") or suspended_seconds([instance])
        replicas = self.fields["replicas"].to_representation(instance.shown_replicas)
        _name, *request = self._request.to_representation(spec).items()
        # What a body calls replicas is the pods' own here.
        asked = {"resources" if name == "replicas" else name: part for name, part in request}
        return {
            "id": str(instance.pk),
            "name": spec.name,
            "owner": instance.owner.username,
            "namespace": tenant.namespace,
            "state": str(instance.state),
            "reason": reason_json(instance, self._next_steps),
            "attempt": instance.attempt,
            "queued_at": stamp(instance.queued_at),
            "started_at": stamp(instance.started_at),
            "finished_at": stamp(instance.finished_at),
            "suspended_s": known[instance.pk],
            "replicas": [
                shown | {"reason": replica_words(instance, row)}
                for row, shown in zip(instance.shown_replicas, replicas, strict=True)
            ],
            **asked,
            "source_commit": instance.source_commit or None,
            "revision": instance.revision,
        }

    @cached_property
    def _next_steps(self) -> NextSteps:
        return NextSteps(self.context["request"].user)

    @cached_property
    def _request(self) -> TrainingSerializer:
        return TrainingSerializer()


class CheckpointSerializer(serializers.Serializer[Any]):
    """What a program left to go on from, as a replica saw it at its end."""

    name = serializers.CharField(source="checkpoint")
    at = serializers.DateTimeField(source="checkpoint_at")


class ReplicaStatusSerializer(serializers.Serializer[Any]):
    """How many replicas of a role run, and have ended how, in the latest attempt."""

    active = serializers.IntegerField()
    succeeded = serializers.IntegerField()
    failed = serializers.IntegerField()


def conditions_of(training: Workload) -> list[conditions.JobCondition]:
    """Of each type that was ever true the latest change. One query."""
    told = training.events.filter(reason__in=(conditions.ADMITTED, conditions.CHANGED))
    changes = told.order_by("at", "id").values_list("reason", "message", "at")
    return conditions.find(training.created_at, changes)


_COUNTED = {
    ReplicaState.RUNNING: "active",
    ReplicaState.SUCCEEDED: "succeeded",
    ReplicaState.FAILED: "failed",
}


def replica_statuses(
    training: Workload, replicas: Iterable[Replica] | None = None
) -> dict[str, dict[str, int]]:
    """By role, as tf-operator has them.

    Args:
        replicas: all of the latest attempt, where they are known; else it is one query.
    """
    found = {role: dict.fromkeys(_COUNTED.values(), 0) for role in training.asked}
    counts: Iterable[tuple[str, str, int]]
    if replicas is None:
        rows = training.replica_rows.filter(attempt=training.attempt).order_by()
        counts = rows.values_list("role", "state").annotate(n=Count("pk"))
    else:
        counts = ((row.role, row.state, 1) for row in replicas)
    for role, state, n in counts:
        if role in found and state in _COUNTED:
            found[role][_COUNTED[ReplicaState(state)]] += n
    return found


_SIGTERM_CODE = 128 + 15  # of a program that SIGTERM ended


def replica_words(training: Workload, replica: Replica) -> str:
    """Why a replica is as it is; of one that outlives the outcome, what becomes of it."""
    if replica.reason_text:
        return str(replica.reason_text)
    if replica.state == ReplicaState.STOPPED and replica.exit_code == _SIGTERM_CODE:
        return _("Ended by SIGTERM, as intended.")
    is_going = replica.state in {ReplicaState.RUNNING, ReplicaState.STARTING}
    if not (training.is_final and is_going and replica.attempt == training.attempt):
        return ""
    known = get_topology(training.spec.get("topology", ""))
    deciding = known.deciding(training.replicas)
    why = _("the %(replicas)s have ended") % {"replicas": _(deciding.many)}
    if replica.role == deciding.name:
        why = _("the outcome is known")
    roles = {role.name: role for role in known.present(training.replicas)}
    until = _leaves_at(training, roles[replica.role]) if replica.role in roles else None
    left_s = 0 if until is None else (until - now()).total_seconds()
    if left_s < 1:
        return _("Is being stopped (%(why)s).") % {"why": why}
    return _("Stops in %(wait)s (%(why)s).") % {"wait": duration_text(left_s), "why": why}


def _leaves_at(training: Workload, role: Role) -> datetime | None:
    """When a replica of this role is asked to end after the outcome, as `recycling` does it; None: it has been."""
    policy = training.spec.get("run_policy", {})
    is_kept = policy.get("clean_policy") == "none" and training.state != WorkloadState.STOPPED
    if is_kept and training.finished_at is not None:
        return training.finished_at + timedelta(seconds=policy.get("ttl_s", 0))
    if training.state != WorkloadState.SUCCEEDED or training.deciders_ended_at is None:
        return None
    return training.deciders_ended_at + timedelta(seconds=role.outlives_s)


class OneJobSerializer(PlacedSerializer, JobSerializer):
    """One job, with what a list of them would take too long to read."""

    attempts = AttemptSerializer(many=True)
    conditions = JobConditionSerializer(many=True)
    replica_statuses = serializers.DictField(child=ReplicaStatusSerializer(), read_only=True)
    last_checkpoint = CheckpointSerializer(allow_null=True)
    hints = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="what of the command a shell would treat otherwise, and what to write, in sentences",
    )

    class Meta(JobSerializer.Meta):
        fields = (
            *JobSerializer.Meta.fields,
            "attempts",
            "conditions",
            "replica_statuses",
            "last_checkpoint",
            "hints",
            *PLACE_FIELDS,
        )

    def to_representation(self, instance: Workload) -> dict[str, Any]:
        found = conditions_of(instance)
        left = instance.last_checkpoint
        return {
            **super().to_representation(instance),
            "attempts": self.fields["attempts"].to_representation(instance.latest_attempts[::-1]),
            "conditions": self.fields["conditions"].to_representation(found),
            "replica_statuses": replica_statuses(instance),
            "hints": command_hints(spec_of(instance, TrainingSpec)),
            "last_checkpoint": left and self.fields["last_checkpoint"].to_representation(left),
        }
