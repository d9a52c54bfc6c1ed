"""The rows by which the queue's guards go: pulls of images that failed, and trainings that died with their node."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F, Max, Q, Sum, Value
from django.db.models.functions import Left, StrIndex, Substr, TruncMinute

from jobs.models import FAILED_EVENTS, LOST_REPLICAS, Node, Replica, Workload, WorkloadEvent
from jobs.node_images import read_lacks
from jobs.rules.queue.guards import (
    DEATHS_COUNT_FOR,
    PULLS_COUNT_FOR,
    PULLS_TOLD_FOR,
    PULLS_WITHIN,
    FailingImage,
    GuardedImage,
    NodeDeath,
    PullFailure,
    SuspiciousNode,
    failing_image,
    guarded_images,
    suspicious_nodes,
)
from jobs.rules.reasons import clip
from jobs.rules.states import WorkloadState
from portal.catalog import known_pools
from portal.pools import pool_of

# What the kubelet says of each pull that fails, also where it says that of similar events together:
# https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/kubelet/images/image_manager.go
_FAILED = 'Failed to pull image "'
_REST = Substr("message", StrIndex("message", Value(_FAILED)) + len(_FAILED))
_IMAGE = Left(_REST, StrIndex(_REST, Value('"')) - 1)
_MOST = 5000  # rows that are read: each of one image, one namespace and one minute
_DETAIL_MAX = 120


def images_of(workload: Any) -> dict[str, str]:
    """Role -> its image, of a row with `image` and `replicas`."""
    return {role: asked.get("image", workload.image) for role, asked in workload.replicas.items()}


def read_wanted_images(now: datetime) -> set[str]:
    """Those of all workloads that there have been while a failed pull counts. One query."""
    rows = Workload.objects.filter(_there_since(now - PULLS_COUNT_FOR)).order_by()
    return {image for row in rows.only("image", "replicas") for image in images_of(row).values()}


def read_guarded_images(now: datetime, wanted: Collection[str]) -> Sequence[GuardedImage]:
    """Images that one workload at a time may try. One query where no pull has failed, else four.

    Who can pull an image is asked of all namespaces, as those that cannot must not stop it for all.

    Args:
        wanted: the images that are meant; others fail too, such as those of Homeport's helpers.
    """
    failures = _failures(wanted, now - PULLS_COUNT_FOR)
    if not failures:
        return ()
    images = {one.image for one in failures}
    since = min(one.since for one in failures)
    recent = Workload.objects.filter(admitted_at__gt=now - PULLS_WITHIN).order_by("admitted_at")
    tried: dict[tuple[str, str], datetime] = {}
    for row in recent.only("image", "replicas", "tenant", "admitted_at"):
        for image in images.intersection(images_of(row).values()):
            if row.admitted_at is not None:
                tried[image, str(row.tenant_id)] = row.admitted_at
    return guarded_images(failures, _pulled(images, since), tried, now)


def read_failing_images(
    now: datetime, images: Collection[str], tenant_id: str
) -> list[FailingImage]:
    """Those of these images whose last pulls failed, for one namespace: also when the queue has forgotten that,
    and each may try. One query where no pull has failed, else three."""
    failures = _failures(images, now - PULLS_TOLD_FOR)
    if not failures:
        return []
    pulled = _pulled({one.image for one in failures}, min(one.since for one in failures))
    found = (failing_image(failures, pulled, image, tenant_id) for image in sorted(images))
    return [one for one in found if one is not None]


def read_image_problems(now: datetime, images: Collection[str], tenant_id: str) -> dict[str, str]:
    """What a namespace is told of those of these images that cannot start, or whose last pulls failed: sentences."""
    failing = {one.image: one.text for one in read_failing_images(now, images, tenant_id)}
    return failing | read_lacks(images)


def _failures(wanted: Collection[str], since: datetime) -> list[PullFailure]:
    """Those of one minute as one: a large array has as many events as pods."""
    told = WorkloadEvent.objects.filter(FAILED_EVENTS, at__gt=since, message__contains=_FAILED)
    rows = told.annotate(of=_IMAGE, minute=TruncMinute("at")).filter(of__in=wanted)
    grouped = rows.values("of", "workload__tenant", "minute").order_by("-minute")
    figures = {"latest": Max("at"), "failed": Sum("count"), "said": Max("message")}
    columns = ("of", "workload__tenant", *figures)
    found = []
    for image, tenant_id, at, count, said in grouped.annotate(**figures).values_list(*columns)[
        :_MOST
    ]:
        detail = clip(said.partition(f'{_FAILED}{image}": ')[2], _DETAIL_MAX)
        found.append(PullFailure(image, str(tenant_id), at, count, detail))
    return found


def _there_since(since: datetime) -> Q:
    return Q(finished_at__isnull=True) | Q(finished_at__gte=since)


def _pulled(images: set[str], since: datetime) -> dict[tuple[str, str], datetime]:
    """When a pod with such an image last began to run, since then."""
    there = Workload.objects.filter(_there_since(since))
    rows = there.exclude(state=WorkloadState.QUEUED).order_by()
    users: dict[UUID, tuple[str, dict[str, str]]] = {}
    for row in rows.only("image", "replicas", "tenant"):
        roles = images_of(row)
        if images.intersection(roles.values()):
            users[row.pk] = str(row.tenant_id), roles
    began = Replica.objects.filter(workload__in=users, started_at__gte=since).order_by()
    found: dict[tuple[str, str], datetime] = {}
    grouped = began.values("workload_id", "role").annotate(at=Max("started_at"))
    for pk, role, at in grouped.values_list("workload_id", "role", "at"):
        tenant_id, roles = users[pk]
        key = roles.get(role, ""), tenant_id
        found[key] = max(at, found.get(key, at))
    return found


def read_suspicious_nodes(now: datetime) -> Sequence[SuspiciousNode]:
    """Nodes on which trainings of several people died. One query where none died, else two."""
    lost = Replica.objects.filter(LOST_REPLICAS, finished_at__gt=now - DEATHS_COUNT_FOR)
    # Others are made again alone, and their training goes on.
    ended = lost.filter(
        workload__attempts__number=F("attempt"), workload__attempts__ended_at__isnull=False
    )
    columns = ("node", "workload_id", "attempt", "workload__owner_id", "finished_at", "reason_code")
    deaths = [
        NodeDeath(node, (str(pk), attempt), str(owner), at, code)
        for node, pk, attempt, owner, at, code in ended.order_by().values_list(*columns)
    ]
    if not deaths:
        return ()
    known = known_pools()
    nodes = list(Node.objects.only("labels", "is_ready", "is_schedulable", "used_again_at"))
    return suspicious_nodes(
        deaths,
        {node.name: pool_of(node.labels, known).name for node in nodes},
        {node.name for node in nodes if not (node.is_ready and node.is_schedulable)},
        {node.name: node.used_again_at for node in nodes if node.used_again_at is not None},
        now,
    )
