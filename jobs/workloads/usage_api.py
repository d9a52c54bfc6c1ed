"""REST of what replicas really use: figures and series of one workload, and the present of all that run."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import F
from django.utils.timezone import now
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from jobs.models import Replica, Workload
from jobs.usage import measured
from jobs.usage.minutes import SUMMED, merged, step_for, summary_of, thinned
from jobs.usage.models import ReplicaUsage, UsageHour
from jobs.usage.volumes import foreign_figures
from jobs.workloads.rest import RowsViewSet
from portal.errors import FieldError, Refused
from portal.web.fields import as_whole
from portal.web.rest import Pagination

MAX_HOURS = 7 * 24
MAX_ROWS = 1000  # hours of replicas that one answer reads


class RequestedSerializer(serializers.Serializer[Any]):
    cpu_m = serializers.IntegerField(help_text="millicores")
    memory_mib = serializers.IntegerField()
    gpu_count = serializers.IntegerField()


class UsedSerializer(serializers.Serializer[Any]):
    """Null: it was not measured."""

    cpu_m = serializers.IntegerField(allow_null=True)
    memory_mib = serializers.IntegerField(allow_null=True)
    gpu_percent = serializers.IntegerField(allow_null=True, help_text="of the time of its GPUs")
    gpu_memory_mib = serializers.IntegerField(allow_null=True, help_text="of the fullest one")


class ReplicaUsageSerializer(serializers.Serializer[Any]):
    """What a replica has used; `now`, `mean` and `peak` are of the latest minute, of all minutes, of all."""

    replica = serializers.CharField(help_text="for example worker-0")
    requested = RequestedSerializer()
    now = UsedSerializer()
    mean = UsedSerializer()
    peak = UsedSerializer()
    minutes = serializers.IntegerField(help_text="that were measured")
    told_at = serializers.DateTimeField()
    method = serializers.ChoiceField(["cgroup1", "cgroup2", "processes"])
    gpu_note = serializers.CharField(help_text="why requested GPUs are not measured; else empty")
    problem = serializers.CharField(help_text="why the latest minutes were left out; else empty")
    totals = serializers.DictField(
        child=serializers.IntegerField(), help_text="MiB there are, by figure"
    )
    low = serializers.DictField(
        child=serializers.DateTimeField(),
        help_text="cpu, memory, gpu: since when it is little used, where that is long enough",
    )


class PointSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    used = serializers.DictField(
        child=serializers.ListField(child=serializers.IntegerField()),
        help_text="figure: its mean and its peak in this step",
    )


class SeriesSerializer(ReplicaUsageSerializer):
    step_s = serializers.IntegerField()
    series = PointSerializer(many=True)


class RunningUsageSerializer(ReplicaUsageSerializer):
    kind = serializers.CharField()
    id = serializers.UUIDField()
    name = serializers.CharField()
    owner = serializers.CharField()
    namespace = serializers.CharField()
    node = serializers.CharField(help_text="empty: not known")


def _used(found: dict[str, Any], place: int) -> dict[str, int | None]:
    pairs = {name: found.get(name.replace("gpu_", "gpu.", 1)) for name in SUMMED}
    return {name: pair[place] if pair else None for name, pair in pairs.items()}


def row_json(row: ReplicaUsage, workload: Workload) -> dict[str, Any]:
    """As `ReplicaUsageSerializer` says."""
    whole = summary_of(vars(row))
    foreign = foreign_figures(row.totals, workload.tenant)
    return {
        "replica": str(row),
        "requested": measured.asked_of(workload, row.role)._asdict(),
        "now": _used(merged(row.latest), 0),
        "mean": _used(whole, 0),
        "peak": _used(whole, 1),
        "minutes": row.minutes,
        "told_at": row.told_at,
        "method": row.method,
        "gpu_note": str(measured.gpu_text(row.gpu_note)) if row.gpu_note else "",
        "problem": row.problem,
        "totals": {name: mib for name, mib in row.totals.items() if name not in foreign},
        "low": {what: _at(since) for what, since in measured.low_of(row).items()},
    }


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def series_json(workload: Workload, rows: Sequence[ReplicaUsage], hours_text: str) -> list[Any]:
    """These replicas of a workload as `SeriesSerializer` says.

    Raises:
        Refused: `hours` is no number of them, or too many for so many replicas.
    """
    usual = min(24, MAX_ROWS // max(1, len(rows)))
    hours = as_whole(hours_text) if hours_text else usual
    if hours is None or not 0 <= hours <= MAX_HOURS:
        raise Refused([FieldError("hours", "out_of_range", f"This must be 0 to {MAX_HOURS}.")])
    if hours * len(rows) > MAX_ROWS:
        text = f"{len(rows)} replicas are too many for {hours} hours: ask for fewer, or for a smaller page_size."
        raise Refused([FieldError("hours", "out_of_range", text)])
    since = now() - timedelta(hours=hours)
    begin = since.replace(minute=0, second=0, microsecond=0)
    kept = UsageHour.objects.filter(workload=workload, hour__gte=begin)
    kept = kept.filter(role__in={row.role for row in rows}, index__in={row.index for row in rows})
    step_s, minutes = step_for(hours * 3600), defaultdict(list)
    for hour, at, used in measured.minutes_of(kept if hours else (), int(since.timestamp())):
        minutes[hour.role, hour.index].append((at, used))

    def series(row: ReplicaUsage) -> list[dict[str, Any]]:
        foreign = foreign_figures(row.totals, workload.tenant)
        points = thinned(minutes[row.role, row.index], step_s)
        return [
            {
                "at": _at(point.at),
                "used": {name: pair for name, pair in point.used.items() if name not in foreign},
            }
            for point in points
        ]

    return [row_json(row, workload) | {"step_s": step_s, "series": series(row)} for row in rows]


DESCRIBED = extend_schema(
    description="What its replicas have used, with a series of each.",
    parameters=[
        OpenApiParameter(
            "hours",
            OpenApiTypes.INT,
            description=f"of the series; 24, fewer for many replicas, at most {MAX_HOURS}; 0: none",
        )
    ],
    responses=SeriesSerializer(many=True),
)


def series_of(view: RowsViewSet, workload: Workload) -> Response:
    """A page of its replicas, as a view answers. Raises Refused: see `series_json`."""
    rows = view.paginate_queryset(workload.measured.order_by("role", "index")) or []
    shown = series_json(workload, rows, view.request.query_params.get("hours", ""))
    return view.get_paginated_response(SeriesSerializer(shown, many=True).data)


class UsageView(APIView):
    """What replicas use that run now, of all workloads that the caller may see; by workload and replica."""

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "low", OpenApiTypes.INT, enum=(0, 1), description="1: only those of low use"
            )
        ],
        responses=RunningUsageSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        seen = Workload.objects.visible_to(request.user)
        low = request.query_params.get("low") or "0"
        if low not in {"0", "1"}:
            raise Refused([FieldError("low", "invalid_choice", "This must be 0 or 1.")])
        rows = measured.low_rows(seen) if low == "1" else measured.open_rows(seen)
        rows = rows.select_related("workload__owner", "workload__tenant")
        rows = rows.defer(*(f"workload__{name}" for name in ("plan", "notes", "spec", "steps")))
        paginator = Pagination()
        ordered = rows.order_by("workload__queued_at", "workload_id", "role", "index")
        page = paginator.paginate_queryset(ordered, request) or []
        replicas = Replica.objects.filter(
            workload__in={row.workload_id for row in page},
            attempt=F("workload__attempt"),
            role__in={row.role for row in page},
            index__in={row.index for row in page},
        )
        nodes = {
            tuple(key): node
            for *key, node in replicas.values_list("workload_id", "role", "index", "node")
        }
        shown = [
            row_json(row, work)
            | {
                "kind": work.kind,
                "id": work.pk,
                "name": work.name,
                "owner": work.owner.username,
                "namespace": work.tenant.namespace,
                "node": nodes.get((work.pk, row.role, row.index), ""),
            }
            for row in page
            for work in [row.workload]
        ]
        return paginator.get_paginated_response(RunningUsageSerializer(shown, many=True).data)
