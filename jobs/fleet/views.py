"""Pages of the nodes, the queue, and how Homeport is."""

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from jobs.fleet.health import HealthPage
from jobs.fleet.nodes import NodesPage
from jobs.fleet.queue import QueuePage
from jobs.models import Node
from jobs.scheduling import actions
from portal.web.request import PageRequest, admins_only, is_unchanged, signed_in, wants_fragment


@require_safe
@signed_in
def nodes(request: PageRequest) -> HttpResponseBase:
    page = NodesPage(request.user, request.GET.get("page", "1"))
    if is_unchanged(request, page.fingerprint):
        return HttpResponse(status=204)
    template = "fleet/_nodes.html" if wants_fragment(request) else "fleet/nodes.html"
    return render(request, template, {"page": page})


@require_POST
@admins_only
def node_use_again(request: PageRequest) -> HttpResponseBase:
    node = Node.objects.filter(name=request.POST.get("node", "")).first()
    if node is None:
        messages.error(request, _("This node is not there any more."))
    else:
        actions.use_again(by=request.user, node=node)
        messages.success(request, _("New work starts on %(node)s again.") % {"node": node.name})
    return redirect("nodes")


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
