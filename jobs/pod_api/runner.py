"""What runners, fetchers and rescuers of a job may ask and tell, under /internal/v1/.

Authorised by the job's own token (`jobs/kinds/training/tokens.py`) and nothing else: no cookie is looked at. What
is not this job's answers 404; a job that is being deleted, or archived, 410. Every call may be
repeated. Only
`ReplicaArchive`, `LogSegment` and `Artifact` rows and the commit of code from git are written here;
bytes go past us, over links of the object store that live ten minutes and take exactly the announced
size.
"""

import hashlib
import time
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Annotated, Any
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, QuerySet, Sum
from django.http import HttpRequest
from django.urls import path
from django.utils import timezone
from msgspec import Meta

from jobs import changes
from jobs.archive import archive_prefix
from jobs.kinds.registry import ARCHIVED
from jobs.kinds.spec import spec_of
from jobs.kinds.training.spec import TrainingSpec
from jobs.kinds.training.tokens import is_job_token
from jobs.limits import lacking_room
from jobs.models import Artifact, Bundle, LogSegment, ReplicaArchive, Workload
from jobs.pod.protocol import codes
from jobs.pod_api.base import pod_view, read_body
from jobs.rules.states import Desired
from portal.errors import Refused
from portal.storage import get_store

MAX_SEGMENT_BYTES = 8 * 1024**2
# A runner tells of dropped segments after it announced newer ones: allow for what is between.
ARCHIVE_SLACK_BYTES = 32 * 1024**2
MAX_SEGMENTS = 200_000  # of one log: a segment of any size is a row
# namespace -> when it was asked whether there is room, for how many bytes, and the answer; of this
# process.
_ROOM: dict[UUID, tuple[float, int, str]] = {}
_ROOM_S = 30.0
_ROOM_TENANTS = 10_000
_BIG_BYTES = 64 * 1024**2
MAX_BATCH = 500

Position = Annotated[int, Meta(ge=0, le=2**62)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
PodUid = Annotated[str, Meta(pattern=r"^[0-9a-zA-Z-]{0,36}\Z")]


class SegmentBody(msgspec.Struct):
    """One closed segment, as its pod announces it."""

    number: Annotated[int, Meta(ge=1, le=10**9)]
    start_byte: Position
    size_bytes: Annotated[int, Meta(ge=1, le=MAX_SEGMENT_BYTES)]
    sha256: Digest
    pod_uid: PodUid = ""


class FileBody(msgspec.Struct):
    """One artifact in one version."""

    path: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=codes.MAX_ARTIFACT_PATH_CHARS,
            pattern=r"^[^\x00-\x1f\x7f]+\Z",
        ),
    ]
    size_bytes: Position
    mtime_ns: Position


class FilesBody(msgspec.Struct):
    """Artifacts, announced or done."""

    files: Annotated[list[FileBody], Meta(max_length=MAX_BATCH)]


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


def find_job(job_id: UUID, token: str) -> Workload:
    """The job that a token is of.

    Raises:
        Refused: 404, there is none; 410, it is being deleted.
    """
    job: Workload | None = None
    if is_job_token(job_id, token):
        archived = Workload.objects.filter(kind__in=ARCHIVED).for_lists()
        job = archived.select_related("tenant").filter(pk=job_id).first()
    if job is None:
        raise Refused("there is no such training, or the token is not its own", "not_found", 404)
    if job.desired == Desired.DELETE:
        raise Refused("the training is being deleted", "deleted", 410)
    return job


of_job = pod_view(find_job, "job_id")


def check_replica(job: Workload, role: str, index: int, attempt: int) -> None:
    """Raises Refused: the job has no such replica."""
    count = job.replicas.get(role, {}).get("count", 0)
    if not (0 <= index < count and 1 <= attempt <= job.attempt):
        raise Refused(f"the training has no replica {role}-{index}", "not_found", 404)


def _is_archived(job: Workload) -> bool:
    """Whether all that this job will ever leave is here: nothing of it may be changed by a token.

    It has ended, and each replica that ran has reported the end of its last pod; or nothing of it
    is left in the cluster that could report.
    """
    if job.cleaned_at is not None:
        return True
    if not job.is_final:
        return False
    ran = job.replica_rows.exclude(started_at=None).values_list(
        "role", "index", "attempt", "pod_uid"
    )
    ended = {
        (row.role, row.index, row.attempt): row.pod_uid
        for row in job.archives.filter(is_complete=True)
    }
    last_pods = {(role, index, attempt): pod_uid for role, index, attempt, pod_uid in ran}
    return bool(last_pods) and all(
        replica in ended and (not ended[replica] or not uid or ended[replica] == uid)
        for replica, uid in last_pods.items()
    )


def _refuse_archived(job: Workload) -> None:
    if _is_archived(job):
        raise Refused("the training is archived, and nothing is added to it", "archived", 410)


@of_job
def source(request: HttpRequest, job: Workload) -> dict[str, Any]:
    """A link to the code that was uploaded for this job."""
    wanted = (spec_of(job, TrainingSpec).source or {}).get("bundle")
    bundle = Bundle.objects.filter(pk=wanted, tenant_id=job.tenant_id).first() if wanted else None
    if bundle is None:
        raise Refused("the code that was uploaded for this training was deleted", "not_found", 404)
    link = get_store().link_get(bundle.storage_key)
    return link.as_json() | {
        "sha256": bundle.sha256,
        "size_bytes": bundle.size_bytes,
        "file_name": bundle.file_name,
    }


class CommitBody(msgspec.Struct):
    """The commit that a pod has found; empty: it only asks."""

    commit: Annotated[str, Meta(pattern=r"^([0-9a-f]{40})?\Z")]


@of_job
def commit(request: HttpRequest, job: Workload) -> dict[str, Any]:
    """The commit that all pods of this job take: the first that one of them told; empty: none yet."""
    found = read_body(request, CommitBody).commit
    if "git" not in (spec_of(job, TrainingSpec).source or {}):
        raise Refused("the code of this training does not come from git", "not_found", 404)
    with transaction.atomic():
        first = Workload.objects.filter(pk=job.pk, source_commit="")
        if found and first.update(source_commit=found, revision=F("revision") + 1):
            job.refresh_from_db(fields=["revision"])
            transaction.on_commit(partial(changes.tell_browsers, job))
        told = Workload.objects.values_list("source_commit", flat=True).get(pk=job.pk)
    return {"commit": told}


# --- logs -----------------------------------------------------------------------------------------


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
            return {"have": True}
        _refuse_archived(job)
        kept = archive.segments.aggregate(total=Sum("size_bytes"), count=Count("pk"))
        total = (kept["total"] or 0) + body.size_bytes
        if (
            total > settings.LOG_ARCHIVE_MAX_BYTES + ARCHIVE_SLACK_BYTES
            or kept["count"] >= MAX_SEGMENTS
        ):
            raise Refused("no more of this log is kept", "too_large", 413)
        if problem := _no_room(job, body.size_bytes):
            raise Refused(problem, "store_full", 413)
        _begin_again(archive, body.pod_uid)
    link = get_store().link_put(
        _segment_key(job, archive, body), body.size_bytes, sha256=body.sha256
    )
    return link.as_json()


def _no_room(job: Workload, more_bytes: int) -> str:
    """Why the namespace keeps no more. Looked at anew once in a while: pods ask often."""
    now = time.monotonic()
    asked_at, asked_bytes, problem = _ROOM.get(job.tenant_id, (float("-inf"), 0, ""))
    # Where a large file does not fit a small one may: that there is no room holds for larger ones.
    is_known = now - asked_at <= _ROOM_S and (not problem or more_bytes >= asked_bytes)
    if not is_known or more_bytes > _BIG_BYTES:
        if len(_ROOM) > _ROOM_TENANTS:
            _ROOM.clear()
        problem = lacking_room(job.tenant_id, more_bytes)
        _ROOM[job.tenant_id] = (now, more_bytes, problem)
    return problem


def _begin_again(archive: ReplicaArchive, pod_uid: str) -> None:
    """More of a log comes: it is not complete, whatever an earlier pod or container reported."""
    if archive.is_complete or (pod_uid and archive.pod_uid != pod_uid):
        archive.is_complete = False
        archive.pod_uid = pod_uid or archive.pod_uid
        archive.save(update_fields=["is_complete", "pod_uid"])


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
        _refuse_archived(job)
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
        _refuse_archived(job)
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
    if _is_archived(job):
        return {}  # said once more, as every call may be
    with transaction.atomic():
        known = ReplicaArchive.objects.filter(workload=job, role=role, index=index, attempt=attempt)
        latest = known.values_list("pod_uid", flat=True).first()
        if body.by_rescue and body.pod_uid and latest and latest != body.pod_uid:
            return {}  # the rescued pod has been replaced: its successor reports the end
        if lacks := _lacking(known, body):
            return {"lacks": lacks}
        ReplicaArchive.objects.update_or_create(
            workload=job,
            role=role,
            index=index,
            attempt=attempt,
            defaults={
                "is_complete": True,
                "by_rescue": body.by_rescue,
                "pod_uid": body.pod_uid or latest or "",
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


# --- artifacts ------------------------------------------------------------------------------------


def _artifact_key(job: Workload, file: FileBody) -> str:
    # A key for each version: a link to write one can never change another that is listed.
    name = hashlib.sha256(file.path.encode()).hexdigest()[:40]
    return f"{archive_prefix(job)}artifacts/{name}/{file.size_bytes}-{file.mtime_ns}"


def _check_paths(files: list[FileBody]) -> None:
    for file in files:
        parts = file.path.split("/")
        if parts[0] == ".homeport" or not {"", ".", ".."}.isdisjoint(parts):
            shown = file.path[:80]
            raise Refused(f"{shown!r} is no path of an artifact", "invalid", 400)


@of_job
def artifacts(request: HttpRequest, job: Workload) -> dict[str, Any]:
    """Announces artifacts: links for those that are missing, sentences for those refused."""
    files = read_body(request, FilesBody).files
    _check_paths(files)
    _refuse_archived(job)
    links: dict[str, Any] = {}
    refused: dict[str, str] = {}
    store = get_store()
    with transaction.atomic():
        # One announcement at a time for each job, so that the sums below hold.
        Workload.objects.select_for_update().only("pk").get(pk=job.pk)
        names = [file.path for file in files]
        known = {row.path: row for row in job.artifacts.filter(path__in=names)}
        others = job.artifacts.exclude(path__in=names)
        total = others.aggregate(total=Sum("size_bytes"))["total"] or 0
        count = others.count()
        for file in files:
            total += file.size_bytes
            count += 1
            row = known.get(file.path)
            if row is not None and row.uploaded_at is not None and _is_version(row, file):
                continue
            problem = _too_much(file, total, count) or _no_room(job, file.size_bytes)
            if problem:
                total -= file.size_bytes
                count -= 1
                refused[file.path] = problem
                continue
            if row is None or row.uploaded_at is None:
                _announce(job, file)
            links[file.path] = store.link_put(_artifact_key(job, file), file.size_bytes).as_json()
    return {"links": links, "refused": refused}


def _is_version(row: Artifact, file: FileBody) -> bool:
    return (row.size_bytes, row.mtime_ns) == (file.size_bytes, file.mtime_ns)


def _too_much(file: FileBody, total_bytes: int, count: int) -> str:
    limit = settings.ARTIFACTS_MAX_BYTES
    if total_bytes > limit:
        return (
            f"{file.path} ({file.size_bytes} bytes) stays on the log volume: "
            f"of one training {limit} bytes are kept"
        )
    if count > codes.MAX_ARTIFACTS:
        return f"{file.path} stays on the log volume: of one training {codes.MAX_ARTIFACTS} files are kept"
    return ""


def _announce(job: Workload, file: FileBody) -> None:
    Artifact.objects.update_or_create(
        workload=job,
        path=file.path,
        defaults={
            "size_bytes": file.size_bytes,
            "mtime_ns": file.mtime_ns,
            "storage_key": _artifact_key(job, file),
        },
    )


@of_job
def artifacts_done(request: HttpRequest, job: Workload) -> dict[str, Any]:
    """Artifacts are in the store: from now on they are listed."""
    files = read_body(request, FilesBody).files
    _check_paths(files)
    _refuse_archived(job)
    store = get_store()
    for file in files:
        if store.find_size(_artifact_key(job, file)) != file.size_bytes:
            raise Refused(f"{file.path[:80]!r} is not in the object store", "not_uploaded", 409)
    replaced = []
    with transaction.atomic():
        known = {row.path: row for row in job.artifacts.filter(path__in=[f.path for f in files])}
        for file in files:
            row = known.get(file.path)
            if row is None:
                raise Refused(f"{file.path[:80]!r} was not announced", "not_found", 404)
            key = _artifact_key(job, file)
            if row.storage_key != key:
                replaced.append(row.storage_key)
            row.storage_key, row.size_bytes = key, file.size_bytes
            row.mtime_ns, row.uploaded_at = file.mtime_ns, timezone.now()
            row.save()
        changes.tell(job)
    for key in replaced:
        store.delete(key)
    return {}


_REPLICA = "jobs/<uuid:job_id>/replicas/<slug:role>/<int:index>/<int:attempt>/"
internal_urls = [
    path("jobs/<uuid:job_id>/source/", source),
    path("jobs/<uuid:job_id>/commit/", commit),
    path(_REPLICA + "segments/", segment),
    path(_REPLICA + "segments/<int:number>/done/", segment_done),
    path(_REPLICA + "segments/<int:number>/drop/", segment_drop),
    path(_REPLICA + "done/", replica_done),
    path("jobs/<uuid:job_id>/artifacts/", artifacts),
    path("jobs/<uuid:job_id>/artifacts/done/", artifacts_done),
]
