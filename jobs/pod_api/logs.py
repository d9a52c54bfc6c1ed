"""What runners and rescuers bring of the logs of a job: segments, and how each replica ended.

`ReplicaArchive` and `LogSegment` rows are written here, after the checks of `jobs/pod_api/runner.py`.
"""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Annotated, Any

import msgspec
from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Max, QuerySet, Sum
from django.http import HttpRequest
from django.urls import path
from django.utils import timezone
from msgspec import Meta

from jobs import changes
from jobs.archive import archive_prefix
from jobs.models import LogSegment, ReplicaArchive, Workload
from jobs.pod_api.base import MAX_BATCH, Position, read_body
from jobs.pod_api.runner import check_replica, is_archived, no_room, of_job, refuse_archived
from jobs.rules import archives
from portal.errors import Refused
from portal.storage import get_store

MAX_SEGMENT_BYTES = 8 * 1024**2
# A runner tells of dropped segments after it announced newer ones: allow for what is between.
ARCHIVE_SLACK_BYTES = 32 * 1024**2
MAX_SEGMENTS = 200_000  # of one log: a segment of any size is a row

Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
PodUid = Annotated[str, Meta(pattern=r"^[0-9a-zA-Z-]{0,36}\Z")]


class SegmentBody(msgspec.Struct):
    """One closed segment, as its pod announces it.

    Attributes:
        run_start_byte: where in the log that begins which the announcing container prints itself; 0 of older
            versions, and of who brings what others printed.
    """

    number: Annotated[int, Meta(ge=1, le=10**9)]
    start_byte: Position
    size_bytes: Annotated[int, Meta(ge=1, le=MAX_SEGMENT_BYTES)]
    sha256: Digest
    pod_uid: PodUid = ""
    run_start_byte: Position = 0


class CheckpointBody(msgspec.Struct):
    """The newest checkpoint in the folders of a training, and when it was written."""

    name: Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
    mtime: Annotated[float, Meta(ge=0, le=2**32)]


class LogBody(msgspec.Struct):
    """All of a log, whether it was kept or not."""

    end_byte: Position
    last_number: Annotated[int, Meta(ge=0, le=10**9)]  # of its segments


class EndBody(msgspec.Struct):
    """How a replica ended, and that nothing more of it will come.

    Attributes:
        log: of a runner that brings again what of it is lacking here; it says its end once more after that.
    """

    exit_code: Annotated[int, Meta(ge=0, le=255)] | None
    reason: Annotated[str, Meta(max_length=2000, pattern=r"^[^\x00]*\Z")]
    skipped_bytes: Position
    by_rescue: bool
    pod_uid: PodUid = ""
    checkpoint: CheckpointBody | None = None
    log: LogBody | None = None


def _segment_key(job: Workload, archive: ReplicaArchive, body: SegmentBody) -> str:
    return (
        f"{archive_prefix(job)}logs/{archive.role}-{archive.index}/{archive.attempt}/"
        f"{body.number:09d}-{body.sha256[:32]}"
    )


@of_job
def segment(
    request: HttpRequest, job: Workload, role: str, index: int, attempt: int
) -> dict[str, Any]:
    """Announces a segment: a link to write it, or the news that it is there."""
    check_replica(job, role, index, attempt)
    body = read_body(request, SegmentBody)
    with transaction.atomic():
        archive, _ = ReplicaArchive.objects.get_or_create(
            workload=job, role=role, index=index, attempt=attempt
        )
        known = archive.segments.filter(number=body.number).first()
        if known is not None:
            _check_same(known, body)
            if not archive.is_complete:
                _begin_run(job, archive, body)
            return {"have": True}
        refuse_archived(job)
        kept = archive.segments.aggregate(total=Sum("size_bytes"), count=Count("pk"))
        total = (kept["total"] or 0) + body.size_bytes
        if (
            total > settings.LOG_ARCHIVE_MAX_BYTES + ARCHIVE_SLACK_BYTES
            or kept["count"] >= MAX_SEGMENTS
        ):
            raise Refused("no more of this log is kept", "too_large", 413)
        if problem := no_room(job, body.size_bytes):
            raise Refused(problem, "store_full", 413)
        _begin_again(archive, body.pod_uid)
        _begin_run(job, archive, body)
    link = get_store().link_put(
        _segment_key(job, archive, body), body.size_bytes, sha256=body.sha256
    )
    return link.as_json()


def _begin_again(archive: ReplicaArchive, pod_uid: str) -> None:
    """More of a log comes: it is not complete, whatever an earlier pod or container reported."""
    if archive.is_complete or (pod_uid and archive.pod_uid != pod_uid):
        archive.is_complete = False
        archive.pod_uid = pod_uid or archive.pod_uid
        archive.save(update_fields=["is_complete", "pod_uid"])


def _begin_run(job: Workload, archive: ReplicaArchive, body: SegmentBody) -> None:
    """What lies before is of containers that have ended."""
    start_byte = archive.run_start_byte
    if body.run_start_byte:
        start_byte = max(start_byte, body.run_start_byte)
    elif start_byte:
        replica = (archive.role, archive.index, archive.attempt)
        # A report tells where the next container begins. Of a later one nobody knows it, if it does not tell it.
        if _seen_restarts(job, *replica, body.pod_uid) > archive.restarts + 1:
            start_byte = 0
    if start_byte != archive.run_start_byte:
        archive.run_start_byte = start_byte
        archive.save(update_fields=["run_start_byte"])


def _check_same(known: LogSegment, body: SegmentBody) -> None:
    if (known.size_bytes, known.sha256) != (body.size_bytes, body.sha256):
        raise Refused(f"another segment {body.number} was shipped before", "conflict", 409)


@of_job
def segment_done(
    request: HttpRequest, job: Workload, role: str, index: int, attempt: int, number: int
) -> dict[str, Any]:
    """A segment's bytes are in the store: from now on it is part of the log."""
    check_replica(job, role, index, attempt)
    body = read_body(request, SegmentBody)
    archive = ReplicaArchive.objects.filter(
        workload=job, role=role, index=index, attempt=attempt
    ).first()
    if archive is None or body.number != number:
        raise Refused(f"segment {number} was not announced", "not_found", 404)
    if not archive.segments.filter(number=number).exists():
        refuse_archived(job)
    key = _segment_key(job, archive, body)
    if get_store().find_size(key) != body.size_bytes:
        raise Refused(f"segment {number} is not in the object store", "not_uploaded", 409)
    known, _ = LogSegment.objects.get_or_create(
        archive=archive,
        number=number,
        defaults={
            "start_byte": body.start_byte,
            "size_bytes": body.size_bytes,
            "sha256": body.sha256,
            "storage_key": key,
        },
    )
    _check_same(known, body)
    return {}


@of_job
def segment_drop(
    request: HttpRequest, job: Workload, role: str, index: int, attempt: int, number: int
) -> dict[str, Any]:
    """A segment from the middle of too long a log is dropped, while its replica runs."""
    check_replica(job, role, index, attempt)
    known = (
        LogSegment.objects.select_related("archive")
        .filter(
            archive__workload=job,
            archive__role=role,
            archive__index=index,
            archive__attempt=attempt,
            number=number,
        )
        .first()
    )
    if known is not None:
        if known.archive.is_complete:
            raise Refused("this log is complete, and nothing of it is dropped", "archived", 410)
        refuse_archived(job)
        known.delete()
        get_store().delete(known.storage_key)
    return {}


def _lacking(archives: QuerySet[ReplicaArchive], body: EndBody) -> list[list[int]]:
    if body.log is None:
        return []
    segments = LogSegment.objects.filter(archive__in=archives).order_by("number")
    known = segments.values_list("number", "size_bytes")
    if sum(size for _, size in known) + body.skipped_bytes >= body.log.end_byte:
        return []
    borders = pairwise([0, *(number for number, _ in known), body.log.last_number + 1])
    return [[last + 1, first - 1] for last, first in borders if first - last > 1][:MAX_BATCH]


def _seen_restarts(job: Workload, role: str, index: int, attempt: int, pod_uid: str) -> int:
    """How often the container had started again in that pod, as far as is seen; never more than is so.

    The container that reports runs until it is answered, so none that starts later is counted. Where less is
    seen than is so the log counts as not whole yet, until a look at the volume has found nothing more.
    """
    row = job.replica_rows.filter(role=role, index=index, attempt=attempt, pod_uid=pod_uid).first()
    return archives.run_of(row).restarts


def _end_byte(found: QuerySet[ReplicaArchive]) -> int:
    """Where the last segment ends: a container that starts after a report prints what comes behind it."""
    segments = LogSegment.objects.filter(archive__in=found)
    end: int | None = segments.aggregate(end=Max(F("start_byte") + F("size_bytes")))["end"]
    return end or 0


@of_job
def replica_done(
    request: HttpRequest, job: Workload, role: str, index: int, attempt: int
) -> dict[str, Any]:
    """The archive of a replica is complete, as far as this pod is concerned; or what of its log it `lacks`.

    That are ranges of the numbers of segments, each with its first and its last one: they were here, and a backup
    of the database from before was restored.
    """
    check_replica(job, role, index, attempt)
    body = read_body(request, EndBody)
    left = body.checkpoint
    if is_archived(job):
        return {}  # said once more, as every call may be
    with transaction.atomic():
        known = ReplicaArchive.objects.filter(workload=job, role=role, index=index, attempt=attempt)
        latest = known.values_list("pod_uid", flat=True).first()
        if body.by_rescue and body.pod_uid and latest and latest != body.pod_uid:
            return {}  # the rescued pod has been replaced: its successor reports the end
        if lacks := _lacking(known, body):
            return {"lacks": lacks}
        pod_uid = body.pod_uid or latest or ""
        ReplicaArchive.objects.update_or_create(
            workload=job,
            role=role,
            index=index,
            attempt=attempt,
            defaults={
                "is_complete": True,
                "by_rescue": body.by_rescue,
                "pod_uid": pod_uid,
                "restarts": _seen_restarts(job, role, index, attempt, pod_uid),
                "run_start_byte": _end_byte(known),
                "exit_code": body.exit_code,
                "exit_reason": body.reason,
                "skipped_bytes": body.skipped_bytes,
                "completed_at": timezone.now(),
                "checkpoint": left.name if left else "",
                "checkpoint_at": datetime.fromtimestamp(left.mtime, UTC) if left else None,
            },
        )
        changes.tell(job)
    return {}


_REPLICA = "jobs/<uuid:job_id>/replicas/<slug:role>/<int:index>/<int:attempt>/"
internal_urls = [
    path(_REPLICA + "segments/", segment),
    path(_REPLICA + "segments/<int:number>/done/", segment_done),
    path(_REPLICA + "segments/<int:number>/drop/", segment_drop),
    path(_REPLICA + "done/", replica_done),
]
