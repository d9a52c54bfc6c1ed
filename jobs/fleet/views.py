"""Pages of the nodes, the queue, and how Homeport is."""

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from jobs.fleet.health import HealthPage
from jobs.fleet.nodes import NodesPage
from jobs.fleet.queue import QueuePage
from portal.web.request import PageRequest, admins_only, is_unchanged, signed_in, wants_fragment


@require_safe
@signed_in
def nodes(request: PageRequest) -> HttpResponseBase:
    page = NodesPage(request.user, request.GET.get("page", "1"))
    if is_unchanged(request, page.fingerprint):
        return HttpResponse(status=204)
    template = "fleet/_nodes.html" if wants_fragment(request) else "fleet/nodes.html"
    return render(request, template, {"page": page})


@require_safe
@signed_in
def queue(request: PageRequest) -> HttpResponseBase:
    page = QueuePage(request.user, request.GET.get("page", "1"))
    if is_unchanged(request, page.fingerprint):
        return HttpResponse(status=204)
    template = "fleet/_queue.html" if wants_fragment(request) else "fleet/queue.html"
    return render(request, template, {"page": page})


@require_safe
@admins_only
def health(request: PageRequest) -> HttpResponseBase:
    page = HealthPage()
    if is_unchanged(request, page.fingerprint):
        return HttpResponse(status=204)
    template = "fleet/_health.html" if wants_fragment(request) else "fleet/health.html"
    return render(request, template, {"page": page})
