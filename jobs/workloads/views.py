"""Pages of workloads of all kinds: the lists, one workload, opening it, and what one can do with it.

Every view is given its kind, looks up what its person may see (404 for everything else), calls one
action, answers.
"""

from functools import cache
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import select_template
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from jobs import pruning
from jobs.archive.logs import which_of
from jobs.kinds.base import WorkloadKind
from jobs.kinds.training.examples import EXAMPLES
from jobs.kinds.training.export import exported
from jobs.logs import downloads
from jobs.logs.text import LogRequest
from jobs.models import Workload
from jobs.workloads import actions, deadline
from jobs.workloads.interactive_page import InteractivePage
from jobs.workloads.listing import WorkloadListing, named_tenant, own_running
from jobs.workloads.page import WorkloadPage
from jobs.workloads.prune_form import PruneForm
from jobs.workloads.serializers import DeadlineSerializer, OrderSerializer, PrioritySerializer
from jobs.workloads.training_page import TrainingPage
from portal.errors import Refused
from portal.web.format import bytes_text
from portal.web.request import PageRequest, is_unchanged, signed_in, wants_fragment
from portal.web.rest import read

# Parts that change without a new revision: pods report them, and only the reconciler counts.
UNCOUNTED = frozenset({"artifacts", "utilisation"})


@cache
def template_of(kind: WorkloadKind, name: str) -> str:
    """The kind's own template of this name, or the one of all kinds."""
    folders = (kind.pages.slug, "workloads")
    found: str = select_template([f"{folder}/{name}.html" for folder in folders]).template.name
    return found


def _render(request: PageRequest, kind: WorkloadKind, name: str, **context: object) -> HttpResponse:
    """
    Args:
        name: of a template; those that it includes it finds by `part(NAME)`.
    """

    def part(name: str) -> str:
        return template_of(kind, f"_{name}")

    return render(request, template_of(kind, name), {"kind": kind, "part": part, **context})


def page_class(kind: WorkloadKind) -> type[WorkloadPage]:
    """What the page of one of this kind shows."""
    return InteractivePage if kind.has_gate else TrainingPage


def _find(request: HttpRequest, kind: WorkloadKind, pk: UUID) -> Workload:
    """One that the person may see.

    Raises:
        Http404: there is none of this kind, or it is somebody else's.
    """
    rows = Workload.objects.visible_to(request.user).defer(*page_class(kind).unread)
    related = rows.select_related("tenant__owner", "owner", "stop_requested_by")
    found: Workload = get_object_or_404(related, pk=pk, kind=kind.key)
    return found


def _page(request: PageRequest, kind: WorkloadKind, pk: UUID, attempt: str = "") -> WorkloadPage:
    return page_class(kind)(_find(request, kind, pk), request.user, attempt)


def _show(request: PageRequest, page: WorkloadPage, name: str, **context: object) -> HttpResponse:
    """A template about one workload."""
    return _render(request, page.kind, name, page=page, workload=page.workload, **context)


@require_safe
@signed_in
def show_list(request: PageRequest, kind: WorkloadKind) -> HttpResponseBase:
    listing = WorkloadListing(request.user, kind, request.GET)
    if is_unchanged(request, listing.fingerprint):
        return HttpResponse(status=204)
    name = "_list" if wants_fragment(request) else "list"
    return _render(request, kind, name, listing=listing, examples=EXAMPLES)


@require_safe
@signed_in
def show(request: PageRequest, kind: WorkloadKind, pk: UUID) -> HttpResponseBase:
    """One workload; where logs are archived, `?attempt=` is whose log the pane begins with."""
    attempt = request.GET.get("attempt", "") if kind.is_archived else ""
    return _show(request, _page(request, kind, pk, attempt), "page")


@require_safe
@signed_in
def show_part(request: PageRequest, kind: WorkloadKind, pk: UUID, part: str) -> HttpResponseBase:
    if part not in page_class(kind).parts:
        raise Http404(part)
    page = _page(request, kind, pk)
    # A place in the queue moves while its workload stays as it is.
    is_counted = part not in UNCOUNTED and not (part == "header" and page.workload.is_waiting)
    if is_counted and is_unchanged(request, str(page.workload.revision)):
        return HttpResponse(status=204)
    return _show(request, page, f"_{part}")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def open_(request: PageRequest, kind: WorkloadKind, pk: UUID) -> HttpResponseBase:
    """GET: a page for a tab of its own, which shows the start-up and goes on when it is ready.

    POST answers the gate's address as JSON: a redirect to another origin would be stopped by the
    page's own `form-action`.
    """
    page = _page(request, kind, pk)
    page.require(kind.open_verb)
    if request.method != "POST":
        return _show(request, page, "open")
    try:
        link = actions.open_link(by=request.user, workload=page.workload)
    except Refused as refusal:
        told = {"code": refusal.errors[0].code, "text": str(refusal)}
        return JsonResponse({**told, "next_step": refusal.next_step}, status=409)
    return JsonResponse({"url": link.url})


def _after(request: PageRequest, kind: WorkloadKind, pk: UUID) -> HttpResponseBase:
    """After an action: the header for htmx, else the page, or the tab that waits to open it."""
    if request.htmx:
        return _show(request, _page(request, kind, pk), "_header")
    opens = kind.has_gate and request.POST.get("then") == "open"
    return redirect(f"{kind.key}-open" if opens else kind.key, pk=pk)


@require_POST
@signed_in
def start(request: PageRequest, kind: WorkloadKind, pk: UUID) -> HttpResponseBase:
    actions.start(by=request.user, workload=_find(request, kind, pk))
    return _after(request, kind, pk)


def _confirm(
    request: PageRequest, kind: WorkloadKind, question: str, **context: object
) -> HttpResponse:
    """The question alone for the dialog, or on a page of its own."""
    name = f"_{question}" if request.htmx else "confirm"
    return _render(request, kind, name, question=question, **context)


def _confirm_one(request: PageRequest, kind: WorkloadKind, pk: UUID, question: str) -> HttpResponse:
    page = _page(request, kind, pk)
    page.require(question)
    row = page.workload
    return _confirm(request, kind, question, page=page, workload=row, title=row.name)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def stop(request: PageRequest, kind: WorkloadKind, pk: UUID) -> HttpResponseBase:
    if request.method != "POST":
        return _confirm_one(request, kind, pk, "stop")
    reason = request.POST.get("reason", "").strip()[:500]
    actions.stop(by=request.user, workload=_find(request, kind, pk), reason=reason)
    return _after(request, kind, pk)


@require_POST
@signed_in
def suspend(request: PageRequest, kind: WorkloadKind, pk: UUID) -> HttpResponseBase:
    actions.suspend(by=request.user, workload=_find(request, kind, pk))
    return _after(request, kind, pk)


@require_POST
@signed_in
def resume(request: PageRequest, kind: WorkloadKind, pk: UUID) -> HttpResponseBase:
    actions.resume(by=request.user, workload=_find(request, kind, pk))
    return _after(request, kind, pk)


@require_POST
@signed_in
def prioritize(request: PageRequest, kind: WorkloadKind, pk: UUID) -> HttpResponseBase:
    row = _find(request, kind, pk)
    asked = read(PrioritySerializer(data={"priority": request.POST.get("priority", "")}))
    actions.prioritize(by=request.user, workload=row, **asked)
    return _after(request, kind, pk)


@require_POST
@signed_in
def extend(request: PageRequest, kind: WorkloadKind, pk: UUID) -> HttpResponseBase:
    page = _page(request, kind, pk)
    page.require("extend")
    deadline_s = read(DeadlineSerializer(data={"deadline_s": request.POST.get("deadline_s")}))
    deadline.extend(by=request.user, workload=page.workload, **deadline_s)
    return _after(request, kind, pk)


@require_POST
@signed_in
def reorder(request: PageRequest, kind: WorkloadKind, pk: UUID) -> HttpResponseBase:
    row = _find(request, kind, pk)
    to = read(OrderSerializer(data={"to": request.POST.get("to", "")}))["to"]
    actions.reorder(by=request.user, workload=row, to_front=to == "front")
    return _after(request, kind, pk)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def stop_all(request: PageRequest, kind: WorkloadKind) -> HttpResponseBase:
    """Stops all of the person's own of this kind."""
    rows = list(own_running(request.user, kind).order_by("name"))
    if request.method != "POST":
        return _confirm(request, kind, "stop_all", workloads=rows, title=_("Stop all"))
    for row in rows:
        actions.stop(by=request.user, workload=row)
    text = ngettext("1 is being stopped.", "%(n)s are being stopped.", len(rows))
    messages.success(request, text % {"n": len(rows)})
    return redirect(f"{kind.key}s")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def delete(request: PageRequest, kind: WorkloadKind, pk: UUID) -> HttpResponseBase:
    if request.method != "POST":
        return _confirm_one(request, kind, pk, "delete")
    row = _find(request, kind, pk)
    actions.delete(by=request.user, workload=row)
    messages.success(request, _("“%(name)s” is deleted.") % {"name": row.name})
    if request.htmx:
        answer: HttpResponseBase = HttpResponseClientRedirect(reverse(f"{kind.key}s"))
        return answer
    return redirect(f"{kind.key}s")


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def prune(request: PageRequest, kind: WorkloadKind) -> HttpResponseBase:
    """Deletes finished ones by age; shows first how many ended how, and what they hold."""
    is_asking = request.method != "POST"
    asked = request.GET if is_asking else request.POST
    named = asked.get("tenant", "")
    tenant = named_tenant(request.user, named)
    form, done = PruneForm(asked, has_defaults=is_asking), None
    if form.is_valid():
        chosen = {"by": request.user, "tenant": tenant, **form.chosen}
        done = actions.prune(**chosen, is_dry=is_asking)
    if is_asking or done is None:
        name = "_prune" if wants_fragment(request) else "prune"
        more = {"note": pruning.folders_note(), "most": pruning.MOST}
        page = _render(request, kind, name, form=form, tenant=tenant, done=done, **more)
        page.status_code = 200 if is_asking else 400
        return page
    messages.success(request, _said_of(done))
    where = {"tenant": named} if named else {}
    if done.remaining:
        where |= {name: form.cleaned_data[name] for name in ("older_than", "states")}
    route = f"{kind.key}s-prune" if done.remaining else f"{kind.key}s"
    query = f"?{urlencode(where, doseq=True)}" if where else ""
    return redirect(f"{reverse(route)}{query}")


def _said_of(done: actions.PruneResult) -> str:
    """What a page tells of trainings that were deleted."""
    count = done.held.count
    words = {"num": count, "size": bytes_text(done.held.size_bytes), "left": done.remaining}
    if not count:
        return _("There was nothing left to delete.")
    if done.remaining:
        text = _("%(num)s trainings are deleted, %(size)s of logs and files; %(left)s more to go.")
        return text % words
    text = ngettext(
        "%(num)s training is deleted, %(size)s of logs and files.",
        "%(num)s trainings are deleted, %(size)s of logs and files.",
        count,
    )
    return text % words


@require_safe
@signed_in
def export(request: PageRequest, kind: WorkloadKind, pk: UUID) -> HttpResponseBase:
    """Manifests that run it without Homeport, as a file."""
    name, text = exported(_find(request, kind, pk), request.GET.get("as", ""), request.user)
    answer = HttpResponse(text, content_type="application/yaml; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


@require_safe
@signed_in
def download_log(request: PageRequest, kind: WorkloadKind, pk: UUID) -> HttpResponseBase:
    """The whole log as a file: of one replica, or of all with prefixes."""
    row = _find(request, kind, pk)
    name = request.GET.get("replica", "")
    replica = downloads.replica_of(row, name)
    if name and replica is None:
        raise Http404(name)
    which = which_of(row, request.GET.get("attempt", ""))
    return downloads.log_answer(request, row, LogRequest(replica, which=which))


@require_safe
@signed_in
def download_artifact(
    request: PageRequest, kind: WorkloadKind, pk: UUID, artifact_id: UUID
) -> HttpResponseBase:
    """One file that it left."""
    row = _find(request, kind, pk)
    artifact = get_object_or_404(row.artifacts, pk=artifact_id, uploaded_at__isnull=False)
    return downloads.artifact_answer(request, artifact)
