"""REST of the nodes, of the queue, and of what a doctor found."""

import json
from datetime import datetime
from typing import Any

from django.utils.timezone import now
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.fleet.check_results import keep_doctor
from jobs.fleet.gpu_users import GpuUser, GpuUsers
from jobs.fleet.hold_api import HoldSerializer, hold_json
from jobs.fleet.node_notes import is_simulated
from jobs.fleet.nodes import meter
from jobs.fleet.queue import QueueEntries, QueueEntry
from jobs.kinds.answers import PlacedSerializer, ReasonSerializer
from jobs.kinds.registry import KINDS
from jobs.kinds.training.spec import PRIORITIES
from jobs.models import Node
from jobs.rules.check_results import parse_results
from jobs.scheduling.guards import read_suspicious_nodes
from jobs.scheduling.models import NodeHold
from jobs.workloads.queue_place import place_json
from portal import quantity
from portal.catalog import known_pools
from portal.errors import Refused
from portal.pools import pool_of
from portal.web.permissions import AdminsOnly
from portal.web.rest import Pagination
from tenants.authentication import caller


class AmountsSerializer(serializers.Serializer[Any]):
    """cpu and memory as Kubernetes writes them, gpu and pods as numbers."""

    cpu = serializers.CharField()
    memory = serializers.CharField()
    gpu = serializers.IntegerField()
    pods = serializers.IntegerField()


class GpuSerializer(serializers.Serializer[Any]):
    total = serializers.IntegerField()
    allocated = serializers.IntegerField()
    unhealthy = serializers.IntegerField(help_text="built in, but not offered to pods")


class HolderSerializer(serializers.Serializer[Any]):
    """A pod that holds GPUs; of what the caller may not see only the number is told."""

    namespace = serializers.CharField(allow_null=True)
    pod = serializers.CharField(allow_null=True)
    kind = serializers.ChoiceField([*KINDS, "pod"], allow_null=True)
    id = serializers.UUIDField(allow_null=True)
    name = serializers.CharField(allow_null=True)
    owner = serializers.CharField(allow_null=True)
    gpu = serializers.IntegerField()
    gpus = serializers.CharField(allow_null=True, help_text="their numbers on the node")
    since = serializers.DateTimeField(allow_null=True)


class ConditionSerializer(serializers.Serializer[Any]):
    type = serializers.CharField()
    status = serializers.CharField()
    reason = serializers.CharField()
    message = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)


class TaintSerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    value = serializers.CharField()
    effect = serializers.CharField()


class NodeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    is_ready = serializers.BooleanField()
    is_schedulable = serializers.BooleanField()
    is_simulated = serializers.BooleanField(help_text="its GPUs are not real ones")
    capacity = AmountsSerializer()
    allocatable = AmountsSerializer()
    requested = AmountsSerializer()
    gpu = GpuSerializer()
    holders = HolderSerializer(many=True)
    labels = serializers.DictField(child=serializers.CharField())
    taints = TaintSerializer(many=True)
    conditions = ConditionSerializer(many=True)
    hold = HoldSerializer(allow_null=True, help_text="an admin wants it empty from a time on")
    pool = serializers.CharField(
        help_text="of the catalog's; `default` is all that no other one has"
    )
    avoided_until = serializers.DateTimeField(
        allow_null=True, help_text="nothing new starts there, for trainings died on it"
    )


def amounts_json(amounts: dict[str, int]) -> dict[str, Any]:
    """Amounts (millicores, bytes, pieces) as REST shows them."""
    return {
        "cpu": quantity.cpu_text(amounts.get("cpu", 0)),
        "memory": quantity.memory_text(amounts.get("memory", 0)),
        "gpu": amounts.get("gpu", 0),
        "pods": amounts.get("pods", 0),
    }


def gpu_user_json(user: GpuUser) -> dict[str, Any]:
    """One user of GPUs as REST shows it; null where the caller may not know."""
    return {
        "namespace": user.namespace,
        "pod": user.pod,
        "kind": user.kind,
        "id": user.id,
        "name": user.name,
        "owner": user.owner,
        "gpu": user.gpu_count,
        "gpus": user.gpus if user.is_seen else None,
        "since": user.since,
    }


def node_json(
    node: Node,
    gpu_users: list[GpuUser],
    *,
    hold: NodeHold | None,
    pool: str,
    avoided_until: datetime | None,
) -> dict[str, Any]:
    """One node as REST shows it."""
    gpu = meter(node, "gpu")
    return {
        "name": node.name,
        "is_ready": node.is_ready,
        "is_schedulable": node.is_schedulable,
        "is_simulated": is_simulated(node),
        "capacity": amounts_json(node.capacity),
        "allocatable": amounts_json(node.allocatable),
        "requested": amounts_json(node.requested),
        "gpu": {"total": gpu.total, "allocated": gpu.used, "unhealthy": gpu.broken},
        "holders": [gpu_user_json(user) for user in gpu_users],
        "labels": node.labels,
        "taints": node.taints,
        "conditions": node.conditions,
        "hold": hold_json(hold),
        "pool": pool,
        "avoided_until": avoided_until,
    }


class NodeListView(APIView):
    """The cluster's nodes as last seen, by name."""

    @extend_schema(responses=NodeSerializer(many=True))
    def get(self, request: Request) -> Response:
        paginator = Pagination()
        nodes = paginator.paginate_queryset(Node.objects.order_by("name"), request) or []
        gpu_users = GpuUsers(request.user, nodes)
        holds = NodeHold.objects.in_bulk([node.name for node in nodes])
        suspicious = read_suspicious_nodes(now())
        avoided = {one.name: one.until for one in suspicious if one.is_avoided}
        pools = known_pools()
        found = [
            node_json(
                node,
                gpu_users.of(node),
                hold=holds.get(node.name),
                pool=pool_of(node.labels, pools).name,
                avoided_until=avoided.get(node.name),
            )
            for node in nodes
        ]
        return paginator.get_paginated_response(found)


class PlaceSerializer(PlacedSerializer):
    """One place in the queue; `position` counts within the namespace, by whom a look asks first."""

    position = serializers.IntegerField()
    kind = serializers.ChoiceField(list(KINDS))
    id = serializers.UUIDField()
    name = serializers.CharField()
    owner = serializers.CharField()
    team = serializers.CharField(allow_null=True)
    cpu = serializers.CharField()
    memory = serializers.CharField()
    gpu = serializers.IntegerField()
    pods = serializers.IntegerField()
    queued_at = serializers.DateTimeField()
    priority = serializers.ChoiceField(list(PRIORITIES))
    reason = ReasonSerializer()


def queue_entry_json(entry: QueueEntry) -> dict[str, Any]:
    """One place as REST shows it."""
    row, asked = entry.row, entry.asked
    return {
        "position": entry.position,
        "kind": row.kind,
        "id": row.pk,
        "name": row.name,
        "owner": row.owner.username,
        "team": row.tenant.team.name if row.tenant.team else None,
        "cpu": quantity.cpu_text(asked["cpu"]),
        "memory": quantity.memory_text(asked["memory"]),
        "gpu": asked["gpu"],
        "pods": asked["pods"],
        "queued_at": row.queued_at,
        "priority": entry.priority,
        "reason": {
            "code": row.reason_code,
            "text": row.reason_text,
            "next_step": entry.next_step,
        },
        **place_json(entry.place),
    }


class QueueView(APIView):
    """What waits, of all that the caller may see, in the order in which it is tried."""

    @extend_schema(responses=PlaceSerializer(many=True))
    def get(self, request: Request) -> Response:
        paginator = Pagination()
        entries = paginator.paginate_queryset(QueueEntries(request.user), request) or []
        return paginator.get_paginated_response([queue_entry_json(entry) for entry in entries])


class DoctorView(APIView):
    """Takes what an admin's `homeport doctor` found, for the health page."""

    permission_classes = (IsAuthenticated, AdminsOnly)

    @extend_schema(request=OpenApiTypes.OBJECT, responses={204: None})
    def post(self, request: Request) -> Response:
        body = json.dumps(request.data, ensure_ascii=False).encode("utf-8", "replace")
        try:
            results = parse_results(body, "doctor")
        except ValueError as error:
            raise Refused(f"This cannot be kept: {error}.", "invalid", 400) from error
        keep_doctor(results, by=caller(request))
        return Response(status=204)
