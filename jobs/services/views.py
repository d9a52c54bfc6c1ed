"""Pages of notebooks and TensorBoards: the list, one of them, opening it, and what one can do with it.

Every view looks up what its person may see (404 for everything else), calls one action, answers.
"""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from jobs.kinds.registry import KINDS
from jobs.models import Workload
from jobs.services.detail import ServicePage
from jobs.workloads import actions
from jobs.workloads.listing import own_running
from portal.errors import Refused
from portal.web.request import PageRequest, is_unchanged, signed_in

PARTS = frozenset({"header", "startup", "content", "place", "events", "opening"})


def find_service(request: HttpRequest, kind: str, pk: UUID) -> Workload:
    """A notebook or TensorBoard that the person may see.

    Raises:
        Http404: there is none of this kind, or it is somebody else's.
    """
    rows = Workload.objects.visible_to(request.user).select_related("tenant__owner", "owner")
    service: Workload = get_object_or_404(rows.defer("plan", "notes"), pk=pk, kind=kind)
    return service


def _part(request: PageRequest, service: Workload, part: str) -> HttpResponse:
    context = {"page": ServicePage(service, request.user), "service": service}
    return render(request, f"services/_{part}.html", context)


@require_safe
@signed_in
def service_detail(request: PageRequest, kind: str, pk: UUID) -> HttpResponseBase:
    page = ServicePage(find_service(request, kind, pk), request.user)
    return render(request, "services/detail.html", {"page": page, "service": page.service})


@require_safe
@signed_in
def service_fragment(request: PageRequest, kind: str, pk: UUID, part: str) -> HttpResponseBase:
    if part not in PARTS:
        raise Http404(part)
    service = find_service(request, kind, pk)
    if is_unchanged(request, str(service.revision)):
        return HttpResponse(status=204)
    return _part(request, service, part)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def service_open(request: PageRequest, kind: str, pk: UUID) -> HttpResponseBase:
    """GET: a page for a tab of its own, which shows the start-up and goes on when it is ready.

    POST answers the gate's address as JSON: a redirect to another origin would be stopped by the
    page's own `form-action`.
    """
    service = find_service(request, kind, pk)
    page = ServicePage(service, request.user)
    page.require(page.open_verb)
    if request.method != "POST":
        return render(request, "services/open.html", {"page": page, "service": service})
    try:
        link = actions.open_link(by=request.user, workload=service)
    except Refused as refusal:
        told = {"code": refusal.errors[0].code, "text": str(refusal)}
        return JsonResponse({**told, "next_step": refusal.next_step}, status=409)
    return JsonResponse({"url": link.url})


def _to_service(request: PageRequest, service: Workload) -> HttpResponseBase:
    """After an action: the header for htmx, else the page, or the tab that waits to open it."""
    if request.htmx:
        return _part(request, find_service(request, service.kind, service.pk), "header")
    name = f"{service.kind}-open" if request.POST.get("then") == "open" else service.kind
    return redirect(name, pk=service.pk)


@require_POST
@signed_in
def service_start(request: PageRequest, kind: str, pk: UUID) -> HttpResponseBase:
    service = find_service(request, kind, pk)
    actions.start(by=request.user, workload=service)
    return _to_service(request, service)


def _confirm(request: PageRequest, service: Workload, question: str) -> HttpResponse:
    """The question alone for the dialog, or on a page of its own."""
    template = f"services/_{question}.html" if request.htmx else "services/confirm.html"
    page = ServicePage(service, request.user)
    page.require(question)
    context = {"page": page, "service": service, "question": question, "title": service.name}
    return render(request, template, context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def service_stop(request: PageRequest, kind: str, pk: UUID) -> HttpResponseBase:
    service = find_service(request, kind, pk)
    if request.method != "POST":
        return _confirm(request, service, "stop")
    reason = request.POST.get("reason", "").strip()[:500]
    actions.stop(by=request.user, workload=service, reason=reason)
    return _to_service(request, service)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def service_stop_all(request: PageRequest, kind: str) -> HttpResponseBase:
    """Stops all of the person's own of this kind."""
    services = list(own_running(request.user, KINDS[kind]).order_by("name"))
    if request.method != "POST":
        template = "services/_stop_all.html" if request.htmx else "services/confirm.html"
        context = {
            "services": services,
            "kind": kind,
            "question": "stop_all",
            "title": _("Stop all"),
        }
        return render(request, template, context)
    for service in services:
        actions.stop(by=request.user, workload=service)
    text = ngettext("1 is being stopped.", "%(n)s are being stopped.", len(services))
    messages.success(request, text % {"n": len(services)})
    return redirect(f"{kind}s")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def service_delete(request: PageRequest, kind: str, pk: UUID) -> HttpResponseBase:
    service = find_service(request, kind, pk)
    if request.method != "POST":
        return _confirm(request, service, "delete")
    actions.delete(by=request.user, workload=service)
    messages.success(request, _("“%(name)s” is deleted.") % {"name": service.name})
    if request.htmx:
        answer: HttpResponseBase = HttpResponseClientRedirect(reverse(f"{kind}s"))
        return answer
    return redirect(f"{kind}s")
