"""What the pods of a job ask under /internal/v1/: what each such call checks first, and the code that they run.

Authorised by the job's own token (`jobs/kinds/training/tokens.py`) and nothing else: no cookie is looked at. What
is not this job's answers 404; a job that is being deleted, or archived, 410. Every call may be repeated.

Only the commit of code from git, rows of logs (`logs.py`) and rows of artifacts (`artifacts.py`) are written;
bytes go past us, over links of the object store that live ten minutes and take exactly the announced size.
"""

import time
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import msgspec
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest
from django.urls import path
from msgspec import Meta

from jobs import changes
from jobs.kinds.registry import ARCHIVED
from jobs.kinds.spec import spec_of
from jobs.kinds.training.spec import TrainingSpec
from jobs.kinds.training.tokens import is_job_token
from jobs.limits import lacking_room
from jobs.models import Bundle, Workload
from jobs.pod_api.base import pod_view, read_body
from jobs.pod_api.callers import bundles_caller
from jobs.rules import archives
from jobs.rules.states import FINAL_REPLICA_STATES, Desired
from portal.asgi_answer import report_pods
from portal.errors import Refused
from portal.storage import get_store

# namespace -> when it was asked whether there is room, for how many bytes, and the answer; of this
# process.
_ROOM: dict[UUID, tuple[float, int, str]] = {}
_ROOM_S = 30.0
_ROOM_TENANTS = 10_000
_BIG_BYTES = 64 * 1024**2


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


def is_archived(job: Workload) -> bool:
    """Whether all that this job will ever leave is here: nothing of it may be changed by a token.

    It has ended, and of each replica that ran the last container has reported its end, in a pod in which
    none starts again; or nothing of it is left in the cluster that could report.
    """
    if job.cleaned_at is not None:
        return True
    if not job.is_final:
        return False
    ran = list(job.replica_rows.exclude(started_at=None))
    kept = {(row.role, row.index, row.attempt): row for row in job.archives.all()}
    found = [(row, kept.get((row.role, row.index, row.attempt))) for row in ran]
    return bool(found) and all(
        row.state in FINAL_REPLICA_STATES
        and archive is not None
        and archives.is_whole(archive, archives.run_of(row))
        for row, archive in found
    )


def refuse_archived(job: Workload) -> None:
    """Raises Refused: the job is archived."""
    if is_archived(job):
        raise Refused("the training is archived, and nothing is added to it", "archived", 410)


def no_room(job: Workload, more_bytes: int) -> str:
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


@of_job
def source(request: HttpRequest, job: Workload) -> dict[str, Any]:
    """A link to the code that was uploaded for this job."""
    refuse_archived(job)
    wanted = (spec_of(job, TrainingSpec).source or {}).get("bundle")
    bundle = Bundle.objects.filter(pk=wanted, tenant_id=job.tenant_id).first() if wanted else None
    if bundle is None:
        raise Refused("the code that was uploaded for this training was deleted", "not_found", 404)
    report_pods(getattr(request, "scope", {}), job.pod_count, bundles_caller(job.tenant_id))
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
    refuse_archived(job)
    found = read_body(request, CommitBody).commit
    if "git" not in (spec_of(job, TrainingSpec).source or {}):
        raise Refused("the code of this training does not come from git", "not_found", 404)
    if job.source_commit or not found:
        return {"commit": job.source_commit}
    with transaction.atomic():
        first = Workload.objects.filter(pk=job.pk, source_commit="")
        if first.update(source_commit=found, revision=F("revision") + 1):
            job.refresh_from_db(fields=["revision"])
            transaction.on_commit(partial(changes.tell_browsers, job))
        told = Workload.objects.values_list("source_commit", flat=True).get(pk=job.pk)
    return {"commit": told}


internal_urls = [
    path("jobs/<uuid:job_id>/source/", source),
    path("jobs/<uuid:job_id>/commit/", commit),
]
