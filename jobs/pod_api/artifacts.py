"""What runners and rescuers bring of the artifacts of a job: announced, and done once they are in the store.

`Artifact` rows are written here, after the checks of `jobs/pod_api/runner.py`.
"""

import hashlib
from typing import Annotated, Any

import msgspec
from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.http import HttpRequest
from django.urls import path
from django.utils import timezone
from msgspec import Meta

from jobs import changes
from jobs.archive import archive_prefix
from jobs.models import Artifact, Workload
from jobs.pod.protocol import codes
from jobs.pod_api.base import MAX_BATCH, Position, read_body
from jobs.pod_api.runner import no_room, of_job, refuse_archived
from portal.errors import Refused
from portal.storage import get_store


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
    refuse_archived(job)
    files = _not_kept(job, files)
    if not files:
        return {"links": {}, "refused": {}}
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
            if _is_kept(row, file):
                continue
            problem = _too_much(file, total, count) or no_room(job, file.size_bytes)
            if problem:
                total -= file.size_bytes
                count -= 1
                refused[file.path] = problem
                continue
            if row is None or row.uploaded_at is None:
                _announce(job, file)
            links[file.path] = store.link_put(_artifact_key(job, file), file.size_bytes).as_json()
    return {"links": links, "refused": refused}


def _not_kept(job: Workload, files: list[FileBody]) -> list[FileBody]:
    """Those that are not listed in these versions; of others nothing is to be done, and the store is not asked."""
    rows = {row.path: row for row in job.artifacts.filter(path__in=[file.path for file in files])}
    return [file for file in files if not _is_kept(rows.get(file.path), file)]


def _is_kept(row: Artifact | None, file: FileBody) -> bool:
    if row is None or row.uploaded_at is None:
        return False
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
    refuse_archived(job)
    files = _not_kept(job, files)
    if not files:
        return {}
    store = get_store()
    for file in files:
        if store.find_size(_artifact_key(job, file)) != file.size_bytes:
            raise Refused(f"{file.path[:80]!r} is not in the object store", "not_uploaded", 409)
    replaced = []
    with transaction.atomic():
        # One at a time, as above: replicas share the folder, and may bring versions of one file.
        Workload.objects.select_for_update().only("pk").get(pk=job.pk)
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
    if replaced:
        # Another replica may have brought one of them again meanwhile.
        rows = job.artifacts.filter(storage_key__in=replaced)
        for key in set(replaced).difference(rows.values_list("storage_key", flat=True)):
            store.delete(key)
    return {}


internal_urls = [
    path("jobs/<uuid:job_id>/artifacts/", artifacts),
    path("jobs/<uuid:job_id>/artifacts/done/", artifacts_done),
]
