"""Records what people tried and were not allowed (403), in one place for all pages and REST."""

from collections.abc import Callable
from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from portal.web.rest import source_address
from tenants.models import AuditEntry, User

# The same try again within this time is not written down again: nobody fills the trail by hand.
QUIET = timedelta(minutes=10)


class RefusalMiddleware:
    """Behind Django's authentication; costs nothing unless something was refused."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = self.get_response(request)
        # REST leaves the person that a token speaks for in the same place.
        if answer.status_code == 403 and isinstance(request.user, User):
            _write_down(request, request.user)
        return answer


def _write_down(request: HttpRequest, person: User) -> None:
    tried = f"{request.method} {request.path}"[:200]
    same = AuditEntry.objects.filter(
        actor=person,
        verb="try",
        object_name=tried,
        at__gt=timezone.now() - QUIET,
    )
    if same.exists():
        return
    AuditEntry.objects.create(
        actor=person,
        actor_name=person.username,
        verb="try",
        kind="address",
        object_name=tried,
        source_address=source_address(request)[:64],
        result=AuditEntry.Result.REFUSED,
    )
