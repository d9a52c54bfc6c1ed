"""Pages on which workloads are asked for: the forms, what fits, uploads, TensorBoard on trainings."""

from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet
from django.http import Http404, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs import uploads
from jobs.bundle_listing import list_bundle
from jobs.kinds.tensorboard import body_of
from jobs.kinds.training.commands import preview_command
from jobs.kinds.training.kind import TRAINING
from jobs.models import Bundle, Workload
from jobs.pod.protocol import placeholders
from jobs.workloads import actions, forms, training_form
from jobs.workloads.examples import find_example
from jobs.workloads.fit import fit
from jobs.workloads.preview import preview_documents
from jobs.workloads.usage import spec_totals, usage_lines, with_request
from portal import room
from portal.catalog import get_catalog
from portal.cluster.manifests import to_yaml
from portal.errors import Refused
from portal.web.refusals import DISK_FULL
from portal.web.request import PageRequest, signed_in
from portal.web.uploads import find_upload
from tenants.models import Tenant


def find_own_tenant(request: PageRequest) -> Tenant | None:
    """Where the person runs things; None for an admin without a namespace."""
    tenant: Tenant | None = Tenant.objects.current_tenant_of(request.user)
    return tenant


def _trainings(request: PageRequest) -> QuerySet[Workload]:
    """Those that the person may see."""
    trainings: QuerySet[Workload] = Workload.objects.visible_to(request.user)
    return trainings.filter(kind=TRAINING.key)


def _form_page(
    request: PageRequest, form: forms.ServiceForm, tenant: Tenant | None
) -> HttpResponse:
    context = {
        "form": form,
        "kind": form.kind.key,
        "tenant": tenant,
        "catalog": get_catalog(),
        "jobs": form.offered_jobs(tenant) if tenant else [],
    }
    return render(request, f"services/new_{form.kind.key}.html", context)


def _first_form(request: PageRequest, kind: str) -> forms.ServiceForm:
    """A blank form, or one like a service that the address names."""
    for pk in forms.ids_of([request.GET.get("like", "")]):
        like = Workload.objects.visible_to(request.user).filter(pk=pk, kind=kind).first()
        if like is not None:
            return forms.FORMS[kind].like(like)
    return forms.FORMS[kind].of(request.GET.getlist("job"))


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def service_new(request: PageRequest, kind: str) -> HttpResponseBase:
    tenant = find_own_tenant(request)
    if request.method != "POST" or tenant is None:
        return _form_page(request, _first_form(request, kind), tenant)
    form = forms.FORMS[kind](request.POST)
    spec = form.read(tenant, request.user)
    if spec is None:
        return _form_page(request, form, tenant)
    made = form.attempt(
        lambda: actions.submit(by=request.user, tenant=tenant, kind=form.kind, spec=spec)
    )
    if made is None:
        return _form_page(request, form, tenant)
    return redirect(kind, pk=made.pk)


@require_POST
@signed_in
def service_fit(request: PageRequest, kind: str) -> HttpResponseBase:
    """Whether what is chosen so far fits, and what of the quota is left."""
    tenant = find_own_tenant(request)
    if tenant is None:
        raise Http404("no namespace")
    draft = forms.FORMS[kind](request.POST)
    draft.name_if_blank()
    wanted = draft.read(tenant, request.user)
    lines = usage_lines(tenant)
    asked = wanted and spec_totals(kind, wanted)
    context = {
        "problems": draft.told,
        "fit": fit(draft.kind, wanted, tenant) if wanted else None,
        "lines": with_request(lines, asked) if asked else lines,
        "form_id": "service-form",
    }
    return render(request, "_fit.html", context)


@require_POST
@signed_in
def tensorboard_of(request: PageRequest) -> HttpResponseBase:
    """TensorBoard on the trainings named; the browser sends this from a form into a new tab."""
    tenant = find_own_tenant(request)
    if tenant is None:
        raise Http404("no namespace")
    ids = request.POST.getlist("jobs")
    own = _trainings(request).filter(tenant=tenant, pk__in=forms.ids_of(ids))
    jobs = list(own.order_by("-queued_at", "pk"))
    form = forms.TensorBoardForm.of(ids)
    if not jobs or len(jobs) < len(set(ids)):
        form.errors["jobs"] = [_("One of the selected trainings was deleted.")]
        return _form_page(request, form, tenant)

    def of_these() -> Workload:
        spec = form.kind.read(body_of(jobs), tenant=tenant, user=request.user)
        return actions.start_or_submit(by=request.user, tenant=tenant, kind=form.kind, spec=spec)

    board = form.attempt(of_these)
    if board is None:
        return _form_page(request, form, tenant)
    return redirect("tensorboard-open", pk=board.pk)


# --- trainings ---
def _training_page(
    request: PageRequest,
    form: training_form.TrainingForm,
    tenant: Tenant | None,
    *,
    status: int = 200,
) -> HttpResponse:
    context = {
        "form": form,
        "tenant": tenant,
        "catalog": get_catalog(),
        "bundle": form.bundle(Bundle.objects.filter(tenant=tenant)),
        "bundle_max_bytes": settings.BUNDLE_MAX_BYTES,
        "flag_names": placeholders.FLAGS,
        "lines": usage_lines(tenant) if tenant else [],
    }
    return render(request, "jobs/new.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def job_new(request: PageRequest) -> HttpResponseBase:
    tenant = find_own_tenant(request)
    if request.method != "POST" or tenant is None:
        form = training_form.blank_form(find_example(request.GET.get("example", "")))
        return _training_page(request, form, tenant)
    form = training_form.posted_form(request.POST)
    file = find_upload(request)
    if file is not None and form.values["source_kind"] == "bundle":
        # Without JavaScript the file comes with the form instead of before it.
        try:
            bundle = uploads.add(by=request.user, tenant=tenant, file=file)
        except Refused as refusal:
            form.error_at("source.bundle", str(refusal))
        else:
            form.values["source.bundle"] = str(bundle.pk)
    wanted = form.read(tenant, request.user)
    if wanted is not None:
        try:
            job = actions.submit(by=request.user, tenant=tenant, kind=TRAINING, spec=wanted)
        except Refused as refusal:
            form.take_errors(refusal.errors)
        except room.NoRoomError:
            form.error_at("", str(DISK_FULL.text))
            return _training_page(request, form, tenant, status=DISK_FULL.status)
        else:
            return redirect("job", pk=job.pk)
    return _training_page(request, form, tenant)


@require_POST
@signed_in
def job_fit(request: PageRequest) -> HttpResponseBase:
    """Whether what is typed so far fits, what is missing, and the command lines it makes."""
    tenant = find_own_tenant(request)
    if tenant is None:
        raise Http404("no namespace")
    form = training_form.posted_form(request.POST)
    draft = form.with_fallbacks()
    wanted = draft.read(tenant, request.user)
    lines = usage_lines(tenant)
    context = {
        "form": form,
        "form_id": "training",
        "problems": draft.problems,
        "fit": fit(TRAINING, wanted, tenant) if wanted else None,
        "lines": with_request(lines, spec_totals(TRAINING.key, wanted)) if wanted else lines,
        "preview": preview_command(wanted) if wanted and not form.is_command_blank else None,
        "shows_manifests": bool(request.POST.get("show_manifests")),
    }
    if wanted and context["shows_manifests"]:
        context["manifests"] = to_yaml(preview_documents(wanted, tenant))
    return render(request, "jobs/_fit.html", context)


@require_safe
@signed_in
def job_again(request: PageRequest, pk: UUID) -> HttpResponseBase:
    job = get_object_or_404(_trainings(request), pk=pk)
    return _training_page(
        request, training_form.form_of_job(job, request.user), find_own_tenant(request)
    )


@require_POST
@signed_in
def bundle_upload(request: PageRequest) -> HttpResponseBase:
    """Takes the file that was dropped on the form; says what is inside."""
    tenant = find_own_tenant(request)
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
