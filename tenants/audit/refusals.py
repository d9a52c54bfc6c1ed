"""Around each request: from where it came, and what somebody tried and was not allowed (403)."""

from collections.abc import Callable
from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from portal.web.rest import source_address
from tenants.audit.record import AuditTarget, asked_from, record
from tenants.models import AuditEntry, User

# The same try again within this time is not written down again: nobody fills the trail by hand.
QUIET = timedelta(minutes=10)


class AuditMiddleware:
    """Behind Django's authentication; asks the database nothing unless something was refused."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with asked_from(source_address(request)):
            answer = self.get_response(request)
            # REST leaves the person that a token speaks for in the same place.
            if answer.status_code == 403 and isinstance(request.user, User):
                _write_down(request, request.user)
        return answer


def _write_down(request: HttpRequest, person: User) -> None:
    tried = f"{request.method} {request.path}"[:200]
    since = timezone.now() - QUIET
    same = AuditEntry.objects.filter(actor=person, verb="try", object_name=tried, at__gt=since)
    if not same.exists():
        record(
            by=person,
            verb="try",
            target=AuditTarget("address", tried),
            result=AuditEntry.Result.REFUSED,
        )
