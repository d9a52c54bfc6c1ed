"""The pods' door for gates: which of these people may be inside? Under /internal/v1/services/.

Authorised by the service's own token, as `jobs/internal.py` is by that of a job. Reads only.
"""

import time
from typing import Annotated, Any
from uuid import UUID

import msgspec
from django.http import HttpRequest
from django.urls import path
from msgspec import Meta

from jobs.doors import DoorError, door, read_body
from jobs.services.models import Service
from jobs.services.opening import may_be_inside
from jobs.services.tokens import is_portal_token
from tenants.models import User

MAX_SUBJECTS = 1000


class PeopleBody(msgspec.Struct):
    """Of which start the gate is, and who is there or wants to be (ids of users)."""

    start: Annotated[int, Meta(ge=1, le=2**31)]
    subjects: Annotated[list[UUID], Meta(max_length=MAX_SUBJECTS)]


def _find_service(service_id: UUID, token: str) -> Service:
    service: Service | None = None
    if is_portal_token(service_id, token):
        service = Service.objects.select_related("tenant").filter(pk=service_id).first()
    if service is None:
        raise DoorError(404, "not_found", "there is no such service, or the token is not its own")
    if service.desired == Service.Desired.DELETE:
        raise DoorError(410, "deleted", "the service is being deleted")
    return service


of_service = door(_find_service, "service_id")


@of_service
def gate(request: HttpRequest, service: Service) -> dict[str, Any]:
    """Who of these people may be inside, the start that the service is in, and the time.

    A gate of an earlier start is told that nobody may.
    """
    body = read_body(request, PeopleBody)
    allowed: list[str] = []
    if body.start == service.start_count:
        people = User.objects.filter(pk__in=body.subjects)
        allowed = [str(person.pk) for person in people if may_be_inside(person, service)]
    return {"start": service.start_count, "allowed": allowed, "now": time.time()}


internal_urls = [path("services/<uuid:service_id>/gate/", gate)]
