"""Rows of what replicas really use: kept as pods tell it, and read for pages, REST and the rule of low use."""

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import BigIntegerField, Count, F, Max, Min, Q, QuerySet, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext_lazy

from jobs.models import Node, Replica, Workload
from jobs.rules.requests import indexes_of
from jobs.rules.states import Desired, WorkloadState
from jobs.usage import minutes as by_minute
from jobs.usage import plot
from jobs.usage.minutes import Asked, Figures, Minute, Most, Told
from jobs.usage.models import ReplicaUsage, UsageHour
from jobs.usage.volumes import VolumeUse, volumes_of
from portal.web.format import duration_text

T = TypeVar("T")
HOURS_KEPT = timedelta(days=7)
MIB = 2**20
# Few enough that their telling is a small part of a web process: 200 pods a minute, up to 2,000 pods. More are
# told every ten minutes all the same.
LEAST_S, MOST_S, PODS_PER_LEAST = 60, 600, 200
_STALE = timedelta(seconds=2 * MOST_S)
_HOUR_S = 3600
_SHARED = {
    "time-slicing",
    "mps",
}  # https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus
# MiB of each; https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery
_GPU_MEMORY = "nvidia.com/gpu.memory"
# When the pods that tell were counted, and how many; of this process.
_counted = (float("-inf"), 0)
_COUNTED_S = 30.0


def asked_of(workload: Workload, role: str) -> Asked:
    asked = workload.replicas.get(role, {})
    memory_mib = asked.get("memory_bytes", 0) // MIB
    return Asked(asked.get("cpu_millicores", 0), memory_mib, asked.get("gpu_count", 0))


def most_of(workload: Workload, role: str, index: int, method: str) -> Most:
    """What a replica can use: what it asks for is its limit wherever it is in a control group of its own.

    Args:
        method: where CPU and memory were read.
    """
    asked = asked_of(workload, role)
    node = _node_of(workload, role, index)
    gpu = node.labels.get(_GPU_MEMORY, "") if node else ""
    gpu_memory_mib = int(gpu) if gpu.isdecimal() and gpu else by_minute.MAX_GPU_MEMORY_MIB
    if method != "processes" and asked.cpu_m and asked.memory_mib:
        return Most(asked.cpu_m, asked.memory_mib, gpu_memory_mib)
    capacities = [node.capacity] if node else [row.capacity for row in Node.objects.all()]
    cpu_m = max((one.get("cpu", 0) for one in capacities), default=asked.cpu_m)
    memory_bytes = max((one.get("memory", 0) for one in capacities), default=0)
    return Most(cpu_m, memory_bytes // MIB or asked.memory_mib, gpu_memory_mib)


def _node_of(workload: Workload, role: str, index: int) -> Node | None:
    where = Replica.objects.filter(workload=workload, role=role, index=index).order_by("-attempt")
    found: Node | None = (
        Node.objects.filter(name__in=where.values("node")[:1]).only("labels", "capacity").first()
    )
    return found


def keep(
    workload: Workload, role: str, index: int, attempt: int, told: Told, problem: str = ""
) -> bool:
    """Adds what is newer than what is known of this replica; False: nothing of it is.

    Args:
        attempt: of a notebook its start.
        problem: why minutes were left out of what was told.
    """
    known = ReplicaUsage.objects.filter(workload=workload, role=role, index=index).first()
    if known is not None and known.problem == problem and not _fresh(known, told):
        return False  # without a write
    return _keep(workload, role, index, attempt, told, problem)


def _fresh(row: ReplicaUsage, told: Told) -> dict[int, Minute]:
    return {minute.at: minute for minute in told.minutes if minute.at > row.last_at}


@transaction.atomic
def _keep(
    workload: Workload, role: str, index: int, attempt: int, told: Told, problem: str
) -> bool:
    now = timezone.now()
    row, _is_new = ReplicaUsage.objects.select_for_update().get_or_create(
        workload=workload, role=role, index=index, defaults={"told_at": now}
    )
    fresh = _fresh(row, told)
    row.problem = problem
    if not fresh:
        row.save(update_fields=["problem"])
        return False
    asked = asked_of(workload, role)
    row.gpu_note = _gpu_note(workload, role, index, told.gpu_note) if asked.gpu_count else ""
    # Whatever else a pod sees, or says that it does, is not its own.
    own = () if row.gpu_note else tuple(f"gpu{number}." for number in range(asked.gpu_count))
    for minute in fresh.values():
        minute.used = _own(minute.used, own)
    added = [fresh[at] for at in sorted(fresh)]
    before = row.low if row.attempt == attempt else {}
    row.low = by_minute.low_since(before, added, asked, settings.LOW_USE_PERCENT)
    row.low_since = min(row.low.values(), default=None)
    row.attempt, row.method, row.told_at = attempt, told.method, now
    row.totals = _own(told.totals, own)
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


def _own(found: Mapping[str, T], own: tuple[str, ...]) -> dict[str, T]:
    """By figures; of GPUs those alone whose names begin so."""
    return {
        name: value
        for name, value in found.items()
        if not name.startswith("gpu") or name.startswith(own)
    }


def _gpu_note(workload: Workload, role: str, index: int, told: str) -> str:
    """Why the GPUs of a replica are not measured; empty: they are."""
    node = _node_of(workload, role, index)
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
        row.gpu_memory_mib_sum += found["gpu.memory_mib"][0]
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


def _low_texts(workloads: QuerySet[Workload]) -> dict[UUID, str]:
    """Of these, ids of those with replicas that use little, and of what; the longest first. One query."""
    titles = {"cpu": _("CPU"), "memory": _("memory"), "gpu": _("GPU")}
    sinces = {what: Cast(KT(f"low__{what}"), BigIntegerField()) for what in titles}
    facts: dict[str, Any] = {"first": Min("low_since")}
    for what in titles:
        is_low = Q(**{f"{what}__lte": F("last_at") - settings.LOW_USE_MINUTES * 60})
        # What is said of all of them is true of the one that became low last.
        facts |= {f"{what}_n": Count("pk", filter=is_low), f"{what}_at": Max(what, filter=is_low)}
    low: Any = low_rows(workloads).annotate(**sinces).values("workload")
    rows = low.annotate(**facts).order_by("first", "workload")[:_MAX_LOW]
    text = ngettext_lazy(
        "%(what)s below %(percent)s %% for %(time)s",
        "%(what)s below %(percent)s %% for %(time)s in %(n)s replicas",
        "n",
    )
    now_s = time.time()
    return {
        row["workload"]: "; ".join(
            text
            % {
                "what": title,
                "n": row[f"{what}_n"],
                "percent": settings.LOW_USE_PERCENT,
                "time": duration_text(now_s - row[f"{what}_at"]),
            }
            for what, title in titles.items()
            if row[f"{what}_n"]
        )
        for row in rows
    }


def low_texts(workloads: QuerySet[Workload]) -> dict[Workload, str]:
    """As `_low_texts`, by rows for a list. Two queries."""
    texts = _low_texts(workloads)
    found = Workload.objects.for_lists().select_related("owner").in_bulk(texts)
    return {found[pk]: text for pk, text in texts.items() if pk in found}


def low_text(workload: Workload) -> str:
    """The same of one; empty: it uses enough, or does not run."""
    if workload.state != WorkloadState.RUNNING:
        return ""
    return _low_texts(Workload.objects.filter(pk=workload.pk)).get(workload.pk, "")


def minutes_of(
    rows: Iterable[UsageHour], since_s: int = 0
) -> list[tuple[UsageHour, int, Mapping[str, Any]]]:
    """Row, begin and figures of each minute, with GPUs put together."""
    return [
        (row, minute.at, by_minute.merged(minute.used))
        for row in rows
        for minute in by_minute.unpack(row.packed)
        if minute.at >= since_s
    ]


_SUMS = ("minutes", "gpu_minutes", *(f"{name}_sum" for name in by_minute.SUMMED))
_PEAKS = tuple(f"{name}_peak" for name in by_minute.SUMMED)
_SHOWN_HOURS = 48  # the latest of all replicas: a page is made in time, however many there are


class Utilisation:
    """What one workload has used, for its page. Two queries, and one for each of its roles.

    Attributes:
        gpu_note: why GPUs were requested and are not measured, in words; empty: they are, or none was.
        problem: why minutes were left out, in words; empty: none were.
    """

    def __init__(self, workload: Workload) -> None:
        """
        Args:
            workload: its row, with `replicas`.
        """
        rows = ReplicaUsage.objects.filter(workload=workload).order_by()
        sums = {name: Sum(name) for name in _SUMS} | {name: Max(name) for name in _PEAKS}
        # Any text is more than none.
        sums |= {name: Max(name) for name in ("gpu_note", "problem")}
        sums["gpu_memory_mib"] = Max(Cast(KT("totals__gpu0.memory_mib"), BigIntegerField()))
        summed: Any = rows.values("role").annotate(**sums)
        by_role = {row["role"]: row for row in summed}
        hours = UsageHour.objects.filter(workload=workload).order_by("-hour", "index")
        shown = _SHOWN_HOURS // max(1, len(by_role))
        self.lines = [
            line
            for role, each in workload.asked.items()
            if role in by_role
            for line in plot.lines_of(
                role,
                len(indexes_of(each)),
                asked_of(workload, role),
                by_role[role],
                [(at, used) for _row, at, used in minutes_of(hours.filter(role=role)[:shown])],
                by_role[role]["gpu_memory_mib"] or 0,
            )
        ]
        self.latest = rows.order_by("-last_at").first() if self.lines else None
        note = max((row["gpu_note"] for row in by_role.values()), default="")
        self.gpu_note = str(gpu_text(note)) if note else ""
        self.problem = max((row["problem"] for row in by_role.values()), default="")

        self._tenant = workload.tenant

    @property
    def volumes(self) -> list[VolumeUse]:
        """As reported last."""
        return volumes_of(self.latest, self._tenant) if self.latest else []


def gpu_text(note: str) -> Any:
    """A note of `jobs/pod/nvml.py`, or of ours, in words."""
    return {
        "no_driver": _("the container has no NVIDIA driver library (libnvidia-ml.so.1)"),
        "mig": _("the GPU is divided by MIG, and the driver reports no use of a MIG slice"),
        "shared": _("other pods share the GPU, and the driver reports no use of one pod"),
        "no_gpu": _("the driver shows no GPU"),
    }.get(note, _("the driver answers with an error (%(code)s)") % {"code": note})
