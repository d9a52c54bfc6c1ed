"""Pages on which workloads are asked for: the forms, what fits, uploads, TensorBoard on trainings."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, count
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs import uploads
from jobs.bundle_listing import list_bundle
from jobs.kinds.form import Check, WorkloadForm, ids_of
from jobs.kinds.registry import KINDS
from jobs.kinds.spec import WorkloadSpec
from jobs.kinds.tensorboard import TensorBoardForm, body_of
from jobs.kinds.training.again import unfinished_indexes
from jobs.models import Bundle, Template, Workload
from jobs.scheduling.guards import read_image_problems
from jobs.workloads import actions, dry_run, templates
from jobs.workloads.fit import fit
from jobs.workloads.preview import preview_documents
from jobs.workloads.usage import node_lines, spec_totals, usage_lines, with_request
from portal import room
from portal.catalog import get_catalog
from portal.cluster.manifests import to_yaml
from portal.errors import Refused
from portal.web.refusals import DISK_FULL
from portal.web.request import PageRequest, signed_in
from portal.web.uploads import WaitingFile, find_upload
from tenants.models import Tenant

_MOST_TEMPLATES = 200  # to start from


def _find_own_tenant(request: PageRequest) -> Tenant | None:
    """Where the person runs things; None for an admin without a namespace."""
    tenant: Tenant | None = Tenant.objects.current_tenant_of(request.user)
    return tenant


def _own_tenant(request: PageRequest) -> Tenant:
    tenant = _find_own_tenant(request)
    if tenant is None:
        raise Http404("no namespace")
    return tenant


def _visible(request: PageRequest, kind: str) -> QuerySet[Workload]:
    workloads: QuerySet[Workload] = Workload.objects.visible_to(request.user)
    return workloads.filter(kind=kind)


def _page(
    request: PageRequest,
    kind: str,
    form: WorkloadForm,
    tenant: Tenant | None,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    besides = form.page_context(tenant) if tenant else {}
    if tenant and form.has_templates:
        teams = [(str(team.pk), team.name) for team in templates.teams_of(request.user)]
        offered = templates.visible_to(request.user).defer("spec")
        besides |= {"teams": teams, "templates": offered[:_MOST_TEMPLATES]}
    context = {
        "form": form,
        "kind": kind,
        "tenant": tenant,
        "catalog": get_catalog(),
        "image_problems": _image_problems(tenant) if tenant else {},
        "like": request.POST.get("like", ""),
        "told": None,
        "template_id": request.POST.get("template_id") or request.GET.get("template", ""),
        **besides,
        **more,
    }
    return render(request, form.template, context, status=status)


def _image_problems(tenant: Tenant) -> dict[str, str]:
    """What to know of images that are offered before one is chosen."""
    catalog = get_catalog()
    offered = (*catalog.images.offered, *catalog.notebooks.images.offered)
    return read_image_problems(
        timezone.now(), {image.reference for image in offered}, str(tenant.pk)
    )


def _find_template(request: PageRequest, asked: Mapping[str, str], name: str) -> Template | None:
    found = templates.visible_to(request.user).filter(pk__in=ids_of([asked.get(name, "")]))
    template: Template | None = found.first()
    return template


def _first_form(request: PageRequest, kind: str, tenant: Tenant | None) -> WorkloadForm:
    """A form like the workload or the template that the address names, or what else it asks for."""
    form = KINDS[kind].form
    for pk in ids_of([request.GET.get("like", "")] if form.takes_like else []):
        like = _visible(request, kind).filter(pk=pk).first()
        if like is not None:
            return form.like(like, request.user)
    if tenant and form.has_templates:
        template = _find_template(request, request.GET, "template")
        if template is not None:
            return form.of_template(template, _reader(request, kind, tenant))
    blank = form.of_query(request.GET)
    if tenant and KINDS[kind].has_gate and not blank.values["name"]:
        blank.values["name"] = _free_name(tenant, kind, form.stand_in)
    return blank


def _free_name(tenant: Tenant, kind: str, stem: str) -> str:
    """The stem, or with the first number that makes it a name that no other of the namespace has."""
    rows = Workload.objects.filter(tenant=tenant, kind=kind, name__startswith=stem)
    taken = {*rows.values_list("name", flat=True)}
    names = chain([stem], (f"{stem} {number}" for number in count(2)))
    return next(name for name in names if name not in taken)


def _reader(request: PageRequest, kind: str, tenant: Tenant) -> Check:
    return KINDS[kind].reader(tenant, request.user)


def _save_template(request: PageRequest, form: WorkloadForm, spec: WorkloadSpec) -> Template:
    """Keeps what is typed; in place of the template that the form began with, if it is still called so.

    Raises:
        PermissionDenied, Refused: see `templates.save`.
    """
    name, team_id = form.values["template"], form.values["template_team"]
    team = None
    if team_id:
        team = get_object_or_404(templates.teams_of(request.user), pk__in=ids_of([team_id]))
    began = _find_template(request, request.POST, "template_id")
    is_same = began is not None and (began.name, began.team) == (name, team)
    body, replaced = form.typed_body(spec), began if is_same else None
    return templates.save(by=request.user, replaced=replaced, name=name, team=team, body=body)


def _checked_upload(request: PageRequest, tenant: Tenant, file: WaitingFile) -> Bundle:
    uploads.check(by=request.user, file=file)
    return uploads.add(by=request.user, tenant=tenant, file=file)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def workload_new(request: PageRequest, kind: str) -> HttpResponseBase:
    """POST submits; or it shows the form's other tab, which `view` names, if this one can be read.

    With `save` it keeps what is typed as a template; with `check` the cluster checks it, and nothing is made.
    """
    tenant = _find_own_tenant(request)
    if request.method != "POST" or tenant is None:
        return _page(request, kind, _first_form(request, kind, tenant), tenant)
    one, by = KINDS[kind], request.user
    form, check = one.form.of_post(request.POST), _reader(request, kind, tenant)
    # Without JavaScript a file comes with the form instead of before it.
    file = find_upload(request) if form.wants_file else None
    if file is not None:
        form.attach(lambda: _checked_upload(request, tenant, file))
    if view := request.POST.get("view", ""):
        early = form.read_early(check) if view != form.view else None
        shown = form.turned(early, check) if early else form
        if form.has_templates:
            shown.values |= {name: form.values[name] for name in ("template", "template_team")}
        return _page(request, kind, shown, tenant)
    if form.has_templates and request.POST.get("save"):
        early = form.read_early(check)
        saved = early and form.attempt_at("template", lambda: _save_template(request, form, early))
        if not saved:
            return _page(request, kind, form, tenant)
        messages.success(request, _("The template “%(name)s” is saved.") % {"name": saved.name})
        return _page(request, kind, form, tenant, template_id=str(saved.pk))
    spec = form.read(check)
    if spec is None:
        return _page(request, kind, form, tenant)
    if request.POST.get("check"):
        told = form.attempt(lambda: dry_run.ask(by=by, tenant=tenant, kind=one, spec=spec))
        return _page(request, kind, form, tenant, told=told)
    try:
        made = form.attempt(lambda: actions.submit(by=by, tenant=tenant, kind=one, spec=spec))
    except room.NoRoomError:
        form.problems.append(str(DISK_FULL.text))
        return _page(request, kind, form, tenant, DISK_FULL.status)
    return _page(request, kind, form, tenant) if made is None else redirect(kind, pk=made.pk)


@require_POST
@signed_in
def workload_fit(request: PageRequest, kind: str) -> HttpResponseBase:
    """Whether what is typed so far fits, what is missing, and what of the quota is left."""
    tenant = _own_tenant(request)
    one = KINDS[kind]
    form = one.form.of_post(request.POST)
    spec = form.read_early(_reader(request, kind, tenant))
    found = fit(one, spec, tenant, request.user) if spec else None
    of_nodes = node_lines(found) if found else []
    lines = of_nodes or usage_lines(tenant)
    likes = _visible(request, kind).filter(pk__in=ids_of(request.POST.getlist("like")))
    original = likes.select_related("tenant").first()
    at_fields = set(request.POST.getlist("told"))  # which the page shows there already
    context = {
        "problems": [replace(each, is_shown=each.key in at_fields) for each in form.told],
        "fit": found,
        "is_of_nodes": bool(of_nodes),
        "lines": with_request(lines, spec_totals(kind, spec)) if spec else lines,
        "form_id": form.form_id,
        "shows_manifests": bool(request.POST.get("show_manifests")),
        **form.panel_context(spec, tenant),
        "original": original,
        "changes": form.changes(spec, original, request.user) if spec and original else [],
    }
    if spec and context["shows_manifests"]:
        context["manifests"] = to_yaml(preview_documents(one, spec, tenant))
    return render(request, form.panel, context)


@require_safe
@signed_in
def workload_again(request: PageRequest, pk: UUID, kind: str) -> HttpResponseBase:
    """The form that would ask for the same again; `?continue`: to go on from it; `?failed`: what of an array failed."""
    rows = _visible(request, kind).select_related("tenant__owner")
    like = get_object_or_404(rows, pk=pk)
    form = KINDS[kind].form.like(like, request.user)
    if "failed" in request.GET:
        form.values["indexes"] = unfinished_indexes(like)
    if "continue" in request.GET:
        form.values["continue_from"] = str(like.pk)
    return _page(request, kind, form, _find_own_tenant(request), like=str(like.pk))


@require_POST
@signed_in
def tensorboard_of(request: PageRequest, kind: str) -> HttpResponseBase:
    """TensorBoard on the trainings named; the browser sends this from a form into a new tab."""
    tenant = _own_tenant(request)
    ids = request.POST.getlist("jobs")
    form = TensorBoardForm.of(ids)
    jobs = form.ticked(tenant)
    if not jobs or len(jobs) < len(set(ids)):
        form.errors["jobs"] = [_("One of the selected trainings was deleted.")]
        return _page(request, kind, form, tenant)

    def of_these() -> Workload:
        spec = KINDS[kind].read(body_of(jobs), tenant=tenant, user=request.user)
        return actions.start_or_submit(by=request.user, tenant=tenant, kind=KINDS[kind], spec=spec)

    board = form.attempt(of_these)
    if board is None:
        return _page(request, kind, form, tenant)
    return redirect(f"{kind}-open", pk=board.pk)


@require_POST
@signed_in
def bundle_upload(request: PageRequest) -> HttpResponseBase:
    """Takes the file that was dropped on the form; says what is inside."""
    tenant = _find_own_tenant(request)
    file = find_upload(request)
    if tenant is None or file is None:
        text = _("No file arrived. Choose it again.")
        return JsonResponse({"errors": [{"text": text}]}, status=400)
    try:
        listing = list_bundle(
            file.waiting.path, file.name or "", file.waiting.size_bytes, person=request.user.pk
        )
        bundle = uploads.add(by=request.user, tenant=tenant, file=file)
    except Refused as refusal:
        return JsonResponse({"errors": [{"text": str(refusal)}]}, status=refusal.status)
    shown = {"id": str(bundle.pk), "file_name": bundle.file_name, "size_bytes": bundle.size_bytes}
    return JsonResponse({**shown, "sha256": bundle.sha256, "listing": listing.as_json()})
