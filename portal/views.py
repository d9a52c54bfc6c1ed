"""The first page with its cards, the health addresses, and what is said when something is wrong."""

import hashlib
import json
import sys
from functools import cached_property
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import close_old_connections, connection
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from jobs.examples import EXAMPLES
from jobs.models import Job
from jobs.rules.states import FINAL_STATES, JobState
from jobs.services.listing import ServiceRow, service_rows
from jobs.services.models import ENDED_STATES, Service, ServiceState
from jobs.summary import JobRow, job_rows
from jobs.usage import usage_lines
from portal.server import probes
from portal.web import refusals
from portal.web.request import PageRequest, shows_already, signed_in
from portal.web.streaming import AbsentError
from tenants.models import Tenant, TenantObject
from tenants.usage import UsageLine

MAX_UNFINISHED = 50
MAX_RECENT = 6
MAX_STOPPED_NOTEBOOKS = 2  # offered to be started again
PARTS = frozenset({"quota", "namespace", "now", "closed", "banner"})


class HomePage:
    """What the first page shows. Each card reads its rows only when it is rendered."""

    def __init__(self, user: Any) -> None:
        self.user = user
        self.examples = EXAMPLES

    @cached_property
    def tenant(self) -> Tenant | None:
        return Tenant.objects.home_of(self.user)

    @cached_property
    def had_tenant(self) -> bool:
        """Whether the person had a namespace that was purged."""
        return Tenant.objects.filter(owner=self.user, state=Tenant.State.GONE).exists()

    @cached_property
    def objects(self) -> list[TenantObject]:
        return list(self.tenant.objects_seen.all()) if self.tenant else []

    @property
    def objects_ready(self) -> int:
        return sum(row.state == TenantObject.State.READY for row in self.objects)

    @property
    def volumes(self) -> list[TenantObject]:
        return [row for row in self.objects if row.kind == "PersistentVolumeClaim"]

    @cached_property
    def lines(self) -> list[UsageLine]:
        return usage_lines(self.tenant) if self.tenant else []

    @cached_property
    def unfinished(self) -> list[JobRow]:
        """Own trainings that have not ended, oldest first as the queue goes."""
        own = Job.objects.visible_to(self.user).filter(tenant=self.tenant).unfinished()
        return job_rows(own.for_lists().order_by("queued_at", "pk")[:MAX_UNFINISHED])

    @property
    def running(self) -> list[JobRow]:
        return [row for row in self.unfinished if row.job.state != JobState.QUEUED]

    @property
    def waiting(self) -> list[JobRow]:
        return [row for row in self.unfinished if row.job.state == JobState.QUEUED]

    @cached_property
    def recent(self) -> list[JobRow]:
        """Own trainings that ended, the latest first."""
        own = Job.objects.visible_to(self.user).filter(tenant=self.tenant, state__in=FINAL_STATES)
        return job_rows(own.for_lists().order_by("-finished_at", "pk")[:MAX_RECENT])

    @cached_property
    def services(self) -> list[ServiceRow]:
        """Own notebooks and TensorBoards that run or wait, then notebooks that were stopped lately."""
        own = Service.objects.visible_to(self.user).filter(tenant=self.tenant)
        own = own.order_by("-requested_at", "pk")
        stopped = own.filter(kind=Service.Kind.NOTEBOOK, state__in=ENDED_STATES)
        found = [*own.unfinished()[:MAX_UNFINISHED], *stopped[:MAX_STOPPED_NOTEBOOKS]]
        return service_rows(found, self.user)

    @property
    def services_running(self) -> int:
        return sum(row.service.state == ServiceState.RUNNING for row in self.services)

    @property
    def revision(self) -> str:
        """Changes when anything on the cards of what runs and of the quota changes."""
        rows = [*self.unfinished, *self.recent]
        shown = [(str(row.job.pk), row.job.revision) for row in rows]
        shown += [(str(row.service.pk), row.service.revision) for row in self.services]
        tenant = self.tenant.revision if self.tenant else 0
        return "~" + hashlib.sha256(repr((tenant, shown)).encode()).hexdigest()[:16]

    @property
    def has_trainings(self) -> bool:
        return bool(self.unfinished or self.recent)


@require_safe
@signed_in
def home(request: PageRequest) -> HttpResponseBase:
    return render(request, "home.html", {"home": HomePage(request.user)})


@require_safe
@signed_in
def tenant_fragment(request: PageRequest, part: str) -> HttpResponseBase:
    """One card of the first page, or the banner, re-read after a change."""
    if part not in PARTS:
        raise Http404(part)
    page = HomePage(request.user)
    if part != "banner" and page.tenant is None:
        raise Http404("no namespace")
    if part in {"now", "quota"} and shows_already(request, page.revision):
        return HttpResponse(status=204)
    return render(request, f"_{part}.html", {"home": page})


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers; nothing else is looked at."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def livez(request: HttpRequest) -> JsonResponse:
    code, body = probes.liveness()
    return JsonResponse(body, status=code)


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    code, body = probes.readiness()
    return JsonResponse(body, status=code)


@require_safe
def status(request: HttpRequest) -> JsonResponse:
    code, body = probes.status()
    return JsonResponse(body, status=code)


def _error(request: HttpRequest, status: int, title: str, text: str) -> HttpResponse:
    """One page for all refusals; REST and the pods' door answer JSON as always."""
    # Django makes these pages outside of the request's own thread, in one that nobody looks after.
    if not connection.in_atomic_block:
        close_old_connections()
    if request.path.startswith(("/api/", "/internal/")):
        body = {"errors": [{"field": "", "code": _CODES[status], "text": text}]}
        return HttpResponse(json.dumps(body), content_type="application/json", status=status)
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(text, content_type="text/plain; charset=utf-8", status=status)
    context = {"status": status, "title": title, "text": text}
    return render(request, "error.html", context, status=status)


_CODES = {
    400: "bad_request",
    403: "permission_denied",
    404: "not_found",
    413: "too_large",
}
_OUR_MISTAKE = refusals.Refusal(
    500,
    "server_error",
    gettext_lazy("Something went wrong"),
    gettext_lazy(
        "Something went wrong in Homeport. Your trainings are not touched by it. Try again."
    ),
)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        return _error(request, 413, _("That is too large"), _("The form is too large to be read."))
    text = _("The browser sent something that Homeport cannot read. Go back and try again.")
    return _error(request, 400, _("That could not be read"), text)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _error(
        request, 403, _("You may not do this"), str(exception) or _("Your role does not allow it.")
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, AbsentError):
        return _error(request, 404, exception.title, str(exception))
    text = _("There is nothing at this address, or it belongs to somebody else.")
    return _error(request, 404, _("Nothing here"), text)


def server_error(request: HttpRequest) -> HttpResponse:
    """Needs neither database nor session, for those may be what is broken."""
    # Django calls this while it handles the error.
    refusal = refusals.find(sys.exc_info()[1]) or _OUR_MISTAKE
    is_part = request.headers.get("HX-Request") == "true"
    content_type, body = refusals.body_of(refusal, request.path, is_part=is_part)
    answer = HttpResponse(body, content_type=content_type, status=refusal.status)
    if refusal.retry_s:
        answer.headers["Retry-After"] = str(refusal.retry_s)
    return answer


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    text = _(
        "This page was open too long, or was opened before you signed in. Go back, reload it and "
        "send it again; what you typed in the form of a new training is kept."
    )
    return _error(request, 403, _("Please send that again"), text)


@csrf_exempt  # it does nothing, and REST has to say so in its own words
def api_not_found(request: HttpRequest) -> HttpResponse:
    return _error(request, 404, "", "There is no such address in the REST API.")
