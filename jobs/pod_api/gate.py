"""What gates ask (which of these people may be inside?) and TensorBoards tell (so many event files are
there), under /internal/v1/services/.

Authorised by the service's own token, as `jobs/pod_api/runner.py` is by that of a job.
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
from jobs.kinds.interactive.opening import may_be_inside
from jobs.kinds.interactive.tokens import is_portal_token
from jobs.kinds.registry import KINDS, WITH_GATE
from jobs.models import Workload
from jobs.pod_api.base import pod_view, read_body
from jobs.rules.states import Desired
from portal.errors import Refused
from tenants.models import User

MAX_SUBJECTS = 1000


class PeopleBody(msgspec.Struct):
    """Of which start the gate is, and who is there or wants to be (ids of users)."""

    start: Annotated[int, Meta(ge=1, le=2**31)]
    subjects: Annotated[list[UUID], Meta(max_length=MAX_SUBJECTS)]


def _find_service(service_id: UUID, token: str) -> Workload:
    return service_of(service_id, is_good=is_portal_token(service_id, token))


def service_of(service_id: UUID, *, is_good: bool) -> Workload:
    """The service of this id.

    Args:
        is_good: whether the token that was shown is its own.

    Raises:
        Refused: 404, there is none; 410, it is being deleted, is to stop, or has ended.
    """
    service: Workload | None = None
    if is_good:
        services = Workload.objects.filter(kind__in=WITH_GATE).for_lists()
        service = services.select_related("tenant").filter(pk=service_id).first()
    if service is None:
        raise Refused("there is no such service, or the token is not its own", "not_found", 404)
    if service.desired == Desired.DELETE:
        raise Refused("the service is being deleted", "deleted", 410)
    if service.desired != Desired.RUN:
        raise Refused("the service is to stop", "stopped", 410)
    # Until another start is noticed, the state is that of the one before.
    if service.is_final and service.observed_generation == service.generation:
        raise Refused("the service has ended", "stopped", 410)
    return service


of_service = pod_view(_find_service, "service_id")


@of_service
def gate(request: HttpRequest, service: Workload) -> dict[str, Any]:
    """Who of these people may be inside, the start that the service is in, and the time.

    A gate of an earlier start is told that nobody may.
    """
    body = read_body(request, PeopleBody)
    allowed: list[str] = []
    if body.start == service.generation:
        people, kind = User.objects.filter(pk__in=body.subjects), KINDS[service.kind]
        allowed = [str(person.pk) for person in people if may_be_inside(person, service, kind)]
    return {"start": service.generation, "allowed": allowed, "now": time.time()}


class EventFilesBody(msgspec.Struct):
    """How many event files the TensorBoard of a start has found; counted up to a limit."""

    start: Annotated[int, Meta(ge=1, le=2**31)]
    count: Annotated[int, Meta(ge=0, le=10**9)]


@of_service
def event_files(request: HttpRequest, service: Workload) -> dict[str, Any]:
    """Keeps the number, which the portal cannot find out by itself."""
    body = read_body(request, EventFilesBody)
    if body.start != service.generation:
        raise Refused("this start has ended", "stopped", 410)
    if service.event_files == body.count:
        return {}
    with transaction.atomic():
        of_this_start = Workload.objects.filter(
            pk=service.pk, generation=body.start, observed_generation=body.start
        )
        changed = of_this_start.exclude(event_files=body.count) | of_this_start.filter(
            event_files__isnull=True
        )
        if changed.update(event_files=body.count, revision=F("revision") + 1):
            service.refresh_from_db(fields=["revision"])
            transaction.on_commit(partial(changes.tell_browsers, service))
    return {}


internal_urls = [
    path("services/<uuid:service_id>/gate/", gate),
    path("services/<uuid:service_id>/event-files/", event_files),
]
