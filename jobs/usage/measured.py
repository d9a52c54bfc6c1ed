"""Rows of what replicas really use: kept as pods tell it, and read for pages, REST and the rule of low use."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max, QuerySet, Sum
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext_lazy

from jobs.models import Node, Replica, Workload
from jobs.rules.states import Desired, WorkloadState
from jobs.usage import minutes as by_minute
from jobs.usage import plot
from jobs.usage.minutes import Asked, Figures, Told
from jobs.usage.models import ReplicaUsage, UsageHour
from portal.web.format import duration_text

HOURS_KEPT = timedelta(days=7)
MIB = 2**20
# Few enough that their telling is a small part of a web process: 200 pods a minute.
LEAST_S, MOST_S, PODS_PER_LEAST = 60, 600, 200
_STALE = timedelta(seconds=2 * MOST_S)
_HOUR_S = 3600
_SHARED = {
    "time-slicing",
    "mps",
}  # https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus
# When the pods that tell were counted, and how many; of this process.
_counted = (float("-inf"), 0)
_COUNTED_S = 30.0


def asked_of(workload: Workload, role: str) -> Asked:
    asked = workload.replicas.get(role, {})
    memory_mib = asked.get("memory_bytes", 0) // MIB
    return Asked(asked.get("cpu_millicores", 0), memory_mib, asked.get("gpu_count", 0))


@transaction.atomic
def keep(workload: Workload, role: str, index: int, told: Told) -> bool:
    """Adds what is newer than what is known of this replica; False: nothing of it is."""
    now = timezone.now()
    row, _is_new = ReplicaUsage.objects.select_for_update().get_or_create(
        workload=workload, role=role, index=index, defaults={"told_at": now}
    )
    fresh = {minute.at: minute for minute in told.minutes if minute.at > row.last_at}
    if not fresh:
        return False
    asked = asked_of(workload, role)
    row.gpu_note = _gpu_note(workload, role, index, told.gpu_note) if asked.gpu_count else ""
    # Whatever else a pod sees, or says that it does, is not its own.
    own = () if row.gpu_note else tuple(f"gpu{number}." for number in range(asked.gpu_count))
    for minute in fresh.values():
        minute.used = {
            name: pair
            for name, pair in minute.used.items()
            if not name.startswith("gpu") or name.startswith(own)
        }
    added = [fresh[at] for at in sorted(fresh)]
    was_away = added[0].at - row.last_at > _STALE.total_seconds()  # stopped, and started again
    row.low = by_minute.low_since(
        {} if was_away else row.low, added, asked, settings.LOW_USE_PERCENT
    )
    row.low_since = min(row.low.values(), default=None)
    row.method, row.told_at, row.totals = told.method, now, told.totals
    row.last_at, row.latest = added[-1].at, added[-1].used
    for minute in added:
        _add(row, minute.used)
    row.save()
    for hour_s in sorted({at - at % _HOUR_S for at in fresh}):
        new = [minute for minute in added if minute.at // _HOUR_S == hour_s // _HOUR_S]
        where = {"role": role, "index": index, "hour": datetime.fromtimestamp(hour_s, UTC)}
        known = UsageHour.objects.filter(workload=workload, **where).first()
        packed = by_minute.pack([*by_minute.unpack(known.packed), *new] if known else new)
        if known is None:
            UsageHour.objects.create(workload=workload, **where, packed=packed)
        else:
            UsageHour.objects.filter(pk=known.pk).update(packed=packed)
    return True


def _gpu_note(workload: Workload, role: str, index: int, told: str) -> str:
    """Why the GPUs of a replica are not measured; empty: they are."""
    where = Replica.objects.filter(workload=workload, role=role, index=index).order_by("-attempt")
    node = Node.objects.filter(name__in=where.values("node")[:1]).only("labels").first()
    label = node.labels.get("nvidia.com/gpu.sharing-strategy") if node else None
    return "shared" if label in _SHARED else told


def _add(row: ReplicaUsage, used: Figures) -> None:
    found = by_minute.merged(used)
    zero = (0, 0)
    row.minutes += "cpu_m" in found
    row.cpu_m_sum += found.get("cpu_m", zero)[0]
    row.cpu_m_peak = max(row.cpu_m_peak, found.get("cpu_m", zero)[1])
    row.memory_mib_sum += found.get("memory_mib", zero)[0] if "cpu_m" in found else 0
    row.memory_mib_peak = max(row.memory_mib_peak, found.get("memory_mib", zero)[1])
    if "gpu.percent" in found:
        row.gpu_minutes += 1
        row.gpu_percent_sum += found["gpu.percent"][0]
        row.gpu_percent_peak = max(row.gpu_percent_peak, found["gpu.percent"][1])
        row.gpu_memory_mib_peak = max(row.gpu_memory_mib_peak, found["gpu.memory_mib"][1])


def next_s() -> int:
    """After how many seconds a pod tells again: a minute where few do, up to ten where many do."""
    global _counted
    now = time.monotonic()
    if now - _counted[0] > _COUNTED_S:
        _counted = (now, ReplicaUsage.objects.filter(told_at__gt=timezone.now() - _STALE).count())
    return min(MOST_S, max(LEAST_S, LEAST_S * _counted[1] // PODS_PER_LEAST))


def open_rows(workloads: QuerySet[Workload]) -> QuerySet[ReplicaUsage]:
    """Of these workloads, what runs and has told lately."""
    rows = ReplicaUsage.objects.filter(workload__in=workloads, told_at__gt=timezone.now() - _STALE)
    return rows.filter(workload__state=WorkloadState.RUNNING, workload__desired=Desired.RUN)


def low_rows(workloads: QuerySet[Workload]) -> QuerySet[ReplicaUsage]:
    """Of these, what uses little of what it asked for, for long enough; none where the rule is off."""
    if settings.LOW_USE_PERCENT <= 0:
        return ReplicaUsage.objects.none()
    since = F("last_at") - settings.LOW_USE_MINUTES * 60
    return open_rows(workloads).filter(low_since__isnull=False, low_since__lte=since)


def low_of(row: ReplicaUsage) -> dict[str, int]:
    """`cpu`, `memory`, `gpu` -> since when it is low, of those that are for long enough."""
    until = row.last_at - settings.LOW_USE_MINUTES * 60
    return {what: since for what, since in row.low.items() if since <= until}


_MAX_LOW = 200


def low_texts(workloads: QuerySet[Workload]) -> dict[Workload, str]:
    """Of these, those with replicas that use little, and of what; the longest first. One query."""
    found: dict[Workload, dict[str, list[int]]] = {}
    rows = low_rows(workloads).select_related("workload__owner").order_by("low_since", "pk")
    for row in rows[:_MAX_LOW]:
        for what, since in low_of(row).items():
            found.setdefault(row.workload, {}).setdefault(what, []).append(since)
    titles = {"cpu": _("CPU"), "memory": _("memory"), "gpu": _("GPU")}
    text = ngettext_lazy(
        "%(what)s below %(percent)s %% for %(time)s",
        "%(what)s below %(percent)s %% for %(time)s in %(n)s replicas",
        "n",
    )
    now_s = time.time()
    return {
        workload: "; ".join(
            text
            % {
                "what": titles[what],
                "n": len(ats),
                "percent": settings.LOW_USE_PERCENT,
                "time": duration_text(now_s - min(ats)),
            }
            for what, ats in sorted(low.items())
        )
        for workload, low in found.items()
    }


def low_text(workload: Workload) -> str:
    """The same of one; empty: it uses enough, or does not run."""
    if workload.state != WorkloadState.RUNNING:
        return ""
    return "".join(low_texts(Workload.objects.filter(pk=workload.pk)).values())


def minutes_of(
    rows: Sequence[UsageHour], since_s: int = 0
) -> list[tuple[UsageHour, int, Mapping[str, Any]]]:
    """Row, begin and figures of each minute, with GPUs put together."""
    return [
        (row, minute.at, by_minute.merged(minute.used))
        for row in rows
        for minute in by_minute.unpack(row.packed)
        if minute.at >= since_s
    ]


_SUMS = ("minutes", "cpu_m_sum", "memory_mib_sum", "gpu_minutes", "gpu_percent_sum")
_PEAKS = ("cpu_m_peak", "memory_mib_peak", "gpu_percent_peak", "gpu_memory_mib_peak")
_SHOWN_HOURS = 400  # the latest of all replicas: a page is made in time, however many there are


class Utilisation:
    """What one workload has used, for its page. Three queries."""

    def __init__(self, workload: Workload) -> None:
        """
        Args:
            workload: its row, with `replicas`.
        """
        rows = ReplicaUsage.objects.filter(workload=workload).order_by()
        sums = {name: Sum(name) for name in _SUMS} | {name: Max(name) for name in _PEAKS}
        by_role = {row["role"]: row for row in rows.values("role").annotate(**sums)}
        hours = UsageHour.objects.filter(workload=workload).order_by("-hour")[:_SHOWN_HOURS]
        minutes = minutes_of(list(hours)) if by_role else []
        self.lines = [
            line
            for role, each in workload.asked.items()
            if role in by_role
            for line in plot.lines_of(
                role,
                each["count"],
                asked_of(workload, role),
                by_role[role],
                [(at, used) for row, at, used in minutes if row.role == role],
            )
        ]
        self.latest = rows.order_by("-told_at").first() if by_role else None

    @property
    def volumes(self) -> list[tuple[str, int, int]]:
        """Name, bytes used and bytes there are of each volume, as told last."""
        row = self.latest
        return [
            (name, row.latest[f"{name}_mib"][0] * MIB, row.totals[f"{name}_mib"] * MIB)
            for name in ("data", "log")
            if row and f"{name}_mib" in row.latest and row.totals.get(f"{name}_mib")
        ]

    @property
    def gpu_note(self) -> str:
        """Why GPUs were requested and are not measured, in words; empty: they are, or none was."""
        row = self.latest
        return str(gpu_text(row.gpu_note)) if row and row.gpu_note else ""


def gpu_text(note: str) -> Any:
    """A note of `jobs/pod/nvml.py`, or of ours, in words."""
    return {
        "no_driver": _("the image's container has no NVIDIA driver library (libnvidia-ml.so.1)"),
        "mig": _("the GPU is divided by MIG, and the driver tells no use of a part"),
        "shared": _("other pods share the GPU, and the driver tells no use of one pod"),
        "no_gpu": _("the driver shows no GPU"),
    }.get(note, _("the driver answers with an error (%(code)s)") % {"code": note})
