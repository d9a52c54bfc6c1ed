"""Everything that changes notebooks and TensorBoards on somebody's behalf: intent in the database,
never the cluster.
"""

from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from jobs import limits
from jobs.models import ENDED_STATES, Service, ServiceState
from jobs.services.submission import ServiceRequest
from portal import live, room
from tenants import policy
from tenants.actions import record
from tenants.models import Tenant, User


def _tell(service: Service) -> None:
    """After the commit: browsers re-read it, the reconciler looks at it."""
    pk, revision, tenant_id = service.pk, service.revision, service.tenant_id

    def send() -> None:
        live.wake_reconciler()
        live.changed("service", pk, revision, tenant_id)

    transaction.on_commit(send)


@transaction.atomic
def create(
    *, by: User, tenant: Tenant, request: ServiceRequest, source_address: str = ""
) -> Service:
    """Queues a notebook or TensorBoard for its first start.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
        Refused: too many changes in a minute.
        NoRoomError: too little of the disk is free.
    """
    policy.require(by, "submit", tenant)
    room.check()
    limits.check_pace(by)
    service = Service.objects.create(
        tenant=tenant,
        owner=by,
        kind=request.kind,
        name=request.name,
        image=request.image,
        cpu_millicores=request.cpu_millicores,
        memory_bytes=request.memory_bytes,
        gpu_count=request.gpu_count,
        log_dirs=[dict(row) for row in request.log_dirs],
    )
    record(
        by=by,
        verb="create",
        target=service,
        source_address=source_address,
        detail={"kind": request.kind},
    )
    _tell(service)
    return service


def _intend(service: Service, change: dict[str, Any], **only_if: Any) -> bool:
    """Writes intent if nobody decided against it meanwhile; True when it was written."""
    written = (
        Service.objects.filter(pk=service.pk, **only_if)
        .exclude(desired=Service.Desired.DELETE)
        .update(revision=F("revision") + 1, **change)
    )
    if written:
        service.refresh_from_db()
    return bool(written)


@transaction.atomic
def start(*, by: User, service: Service, source_address: str = "") -> Service:
    """Starts one that was stopped or failed again, with what is on its volumes.

    Harmless for one that runs, or that has been started by somebody else meanwhile. One that is
    still stopping starts as soon as it has stopped.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
    """
    policy.require(by, "start", service.tenant)
    if service.desired == Service.Desired.RUN and not _has_ended(service):
        return service
    change = {
        "desired": Service.Desired.RUN,
        "start_count": F("start_count") + 1,
        "requested_at": timezone.now(),
        "stop_requested_by": None,
        "stop_reason": "",
    }
    if service.state in ENDED_STATES:
        # As after `create`: what happens to the new start is the reconciler's to tell.
        queued = {"state": ServiceState.QUEUED, "reason_code": "", "reason_text": ""}
        change |= queued | {"reason_next_step": ""}
    if _intend(service, change, start_count=service.start_count):
        record(by=by, verb="start", target=service, source_address=source_address)
        _tell(service)
    return service


@transaction.atomic
def stop(*, by: User, service: Service, reason: str = "", source_address: str = "") -> Service:
    """Asks for its end; what is on the volumes stays. Harmless for one that has ended.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
    """
    policy.require(by, "stop", service.tenant)
    if service.desired != Service.Desired.RUN or _has_ended(service):
        return service
    change = {
        "desired": Service.Desired.STOP,
        "stop_requested_by": by,
        "stop_reason": reason,
    }
    if _intend(service, change, desired=Service.Desired.RUN):
        record(
            by=by,
            verb="stop",
            target=service,
            source_address=source_address,
            detail={"why": reason} if reason else {},
        )
        _tell(service)
    return service


def _has_ended(service: Service) -> bool:
    """Whether the latest start is over; until it is noticed, the state is that of the one before."""
    return service.state in ENDED_STATES and service.seen_start == service.start_count


@transaction.atomic
def delete(*, by: User, service: Service, source_address: str = "") -> None:
    """Deletes it in any state: gone from view now, from the cluster soon after; volumes stay.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
    """
    policy.require(by, "delete", service.tenant)
    if _intend(service, {"desired": Service.Desired.DELETE}):
        record(by=by, verb="delete", target=service, source_address=source_address)
        _tell(service)
