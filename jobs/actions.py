"""Everything that changes jobs on somebody's behalf: intent in the database, never the cluster."""

from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs import limits
from jobs.models import Bundle, Job
from jobs.rules.states import FINAL_STATES, Desired
from jobs.submission import NO_UPLOAD, Submission
from portal import live, room
from portal.errors import FieldError, Refused
from portal.storage import get_store
from portal.web.uploads import WaitingFile
from tenants import policy
from tenants.actions import record
from tenants.models import Tenant, User


def _tell(job: Job) -> None:
    """After the commit: browsers re-read the job, the reconciler looks at it."""
    kind, pk, revision, tenant_id = "job", job.pk, job.revision, job.tenant_id

    def send() -> None:
        live.wake_reconciler()
        live.changed(kind, pk, revision, tenant_id)

    transaction.on_commit(send)


def _hold_upload(tenant: Tenant, submission: Submission) -> None:
    """Keeps the upload of a request from being deleted before the training is there to use it.

    Raises:
        Refused: it was deleted since the request was checked.
    """
    bundle = (submission.source or {}).get("bundle")
    if bundle is None:
        return
    Tenant.objects.select_for_update().only("pk").get(pk=tenant.pk)  # as jobs/uploads.py
    if not Bundle.objects.filter(tenant=tenant, pk=bundle).exists():
        raise Refused([NO_UPLOAD])


@transaction.atomic
def submit(*, by: User, tenant: Tenant, submission: Submission, source_address: str = "") -> Job:
    """Queues a job. An acknowledged job is in the database before the answer leaves.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
        Refused: too many changes in a minute, too many unfinished trainings, or its upload was
            deleted a moment ago.
        NoRoomError: too little of the disk is free.
    """
    policy.require(by, "submit", tenant)
    room.check()
    limits.check_pace(by)
    limits.check_unfinished(tenant)
    _hold_upload(tenant, submission)
    job = Job.objects.create(
        tenant=tenant,
        owner=by,
        name=submission.name,
        topology=submission.topology,
        image=submission.image,
        command=list(submission.command),
        source=submission.source,
        replicas={role: request.as_json() for role, request in submission.replicas.items()},
        env=submission.env,
        cluster_flags=list(submission.cluster_flags),
        success_policy=submission.success_policy,
        priority=submission.priority,
        retries=submission.retries,
        deadline_s=submission.deadline_s,
        starting_deadline_s=submission.starting_deadline_s,
        clean_policy=submission.clean_policy,
        ttl_s=submission.ttl_s,
        shm_bytes=submission.shm_bytes,
    )
    record(by=by, verb="submit", target=job, source_address=source_address)
    _tell(job)
    return job


def _intend(job: Job, change: dict[str, Any]) -> bool:
    """Writes intent if nobody decided against it meanwhile; True when it was written."""
    written = (
        Job.objects.filter(pk=job.pk)
        .exclude(desired=Desired.DELETE)
        .update(revision=F("revision") + 1, **change)
    )
    if written:
        job.refresh_from_db()
    return bool(written)


@transaction.atomic
def stop(*, by: User, job: Job, source_address: str = "", reason: str = "") -> Job:
    """Asks a job to stop, with its grace. Harmless for one that is stopping or has ended.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
    """
    policy.require(by, "stop", job.tenant)
    if job.state in FINAL_STATES or job.desired != Desired.RUN:
        return job
    change = {
        "desired": Desired.STOP,
        "stop_requested_at": timezone.now(),
        "stop_requested_by": by,
        "stop_reason": reason,
    }
    if _intend(job, change):
        record(
            by=by,
            verb="stop",
            target=job,
            source_address=source_address,
            detail={"why": reason} if reason else {},
        )
        _tell(job)
    return job


@transaction.atomic
def delete(*, by: User, job: Job, source_address: str = "") -> None:
    """Deletes a job in any state: it is gone from view now, from cluster and store soon after.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
    """
    policy.require(by, "delete", job.tenant)
    if _intend(job, {"desired": Desired.DELETE}):
        record(by=by, verb="delete", target=job, source_address=source_address)
        _tell(job)


def add_bundle(*, by: User, tenant: Tenant, file: WaitingFile, source_address: str = "") -> Bundle:
    """Keeps an upload, content-addressed.

    Raises:
        Refused: nothing in it, more than BUNDLE_MAX_BYTES, no room in the namespace, or too many
            changes in a minute.
    """
    size_bytes = file.waiting.size_bytes
    if size_bytes > settings.BUNDLE_MAX_BYTES:
        text = (
            f"The upload has {size_bytes:,} bytes; at most {settings.BUNDLE_MAX_BYTES:,} are "
            "taken. Put large data on the data volume instead."
        )
        raise Refused([FieldError("file", "too_large", text)], status=413)
    if size_bytes == 0:
        raise Refused([FieldError("file", "empty", "The upload is empty.")])
    limits.check_pace(by)
    limits.check_room(tenant, size_bytes)
    bundle = Bundle(
        tenant=tenant,
        file_name=(file.name or "bundle").rsplit("/", 1)[-1][-255:],
        sha256=file.waiting.sha256,
        size_bytes=size_bytes,
    )
    store = get_store()
    if not store.exists(bundle.storage_key):
        store.take(bundle.storage_key, file.waiting)
    with transaction.atomic():
        # The same content may be deleted at this moment (jobs/uploads.py).
        Tenant.objects.select_for_update().only("pk").get(pk=tenant.pk)
        if not store.exists(bundle.storage_key):
            text = _("The same upload was deleted just now. Upload it again.")
            raise Refused([FieldError("file", "deleted", text)], status=409)
        bundle.save()
        record(by=by, verb="upload", target=bundle, source_address=source_address)
    return bundle
