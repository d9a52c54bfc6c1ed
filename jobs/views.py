"""Pages of trainings: the list, the form, one training, and what one can do with it.

Every view looks up what its person may see (404 for everything else), calls one action, answers.
"""

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    JsonResponse,
)
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from jobs import forms, uploads
from jobs.archive.logs import which_of
from jobs.bundle_listing import list_bundle
from jobs.command_preview import preview_command
from jobs.detail import JobPage
from jobs.examples import EXAMPLES, find_example
from jobs.kinds.training.kind import TRAINING
from jobs.kinds.training.spec import TrainingSpec
from jobs.listing import JobListing
from jobs.logs import downloads
from jobs.models import Bundle, Workload
from jobs.pod.protocol import placeholders
from jobs.preview import preview_documents
from jobs.workloads import actions
from jobs.workloads.fit import fit
from jobs.workloads.usage import spec_totals, usage_lines, with_request
from portal import room
from portal.catalog import get_catalog
from portal.cluster.manifests import to_yaml
from portal.errors import Refused
from portal.web.refusals import DISK_FULL
from portal.web.request import PageRequest, is_unchanged, signed_in, wants_fragment
from portal.web.uploads import find_upload
from tenants.models import Tenant

PARTS = frozenset({"header", "replicas", "events", "artifacts", "manifests"})


def find_job(request: HttpRequest, pk: UUID) -> Workload:
    """A training that the person may see.

    Raises:
        Http404: there is none, or it is somebody else's.
    """
    related = Workload.objects.select_related("tenant__owner", "owner", "stop_requested_by")
    jobs = related.filter(kind=TRAINING.key).visible_to(request.user)
    job: Workload = get_object_or_404(jobs, pk=pk)
    return job


def find_own_tenant(request: PageRequest) -> Tenant | None:
    """Where the person runs things; None for an admin without a namespace."""
    tenant: Tenant | None = Tenant.objects.current_tenant_of(request.user)
    return tenant


@require_safe
@signed_in
def job_list(request: PageRequest) -> HttpResponseBase:
    listing = JobListing(request.user, request.GET)
    if is_unchanged(request, listing.fingerprint):
        return HttpResponse(status=204)
    template = "jobs/_list.html" if wants_fragment(request) else "jobs/list.html"
    return render(request, template, {"listing": listing, "examples": EXAMPLES})


def _form_page(
    request: PageRequest, form: forms.TrainingForm, tenant: Tenant | None, *, status: int = 200
) -> HttpResponse:
    bundles = Bundle.objects.filter(tenant=tenant)
    bundle = forms.find_bundle(form, bundles)
    context = {
        "form": form,
        "tenant": tenant,
        "catalog": get_catalog(),
        "bundle": bundle,
        "bundle_max_bytes": settings.BUNDLE_MAX_BYTES,
        "flag_names": placeholders.FLAGS,
        "lines": usage_lines(tenant) if tenant else [],
    }
    return render(request, "jobs/new.html", context, status=status)


def _read(request: PageRequest, form: forms.TrainingForm, tenant: Tenant) -> TrainingSpec | None:
    """The checked request, or None with the errors in the form."""
    body = form.body()
    try:
        wanted = TRAINING.read(body, tenant=tenant, user=request.user)
    except Refused as refusal:
        form.take_errors(refusal.errors)
        return None
    assert isinstance(wanted, TrainingSpec)
    return None if form.errors else wanted


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def job_new(request: PageRequest) -> HttpResponseBase:
    tenant = find_own_tenant(request)
    if request.method != "POST" or tenant is None:
        form = forms.blank_form(find_example(request.GET.get("example", "")))
        return _form_page(request, form, tenant)
    form = forms.posted_form(request.POST)
    _keep_upload(request, form, tenant)
    wanted = _read(request, form, tenant)
    if wanted is not None:
        try:
            job = actions.submit(by=request.user, tenant=tenant, kind=TRAINING, spec=wanted)
        except Refused as refusal:
            form.take_errors(refusal.errors)
        except room.NoRoomError:
            form.error_at("", str(DISK_FULL.text))
            return _form_page(request, form, tenant, status=DISK_FULL.status)
        else:
            return redirect("job", pk=job.pk)
    return _form_page(request, form, tenant)


def _keep_upload(request: PageRequest, form: forms.TrainingForm, tenant: Tenant) -> None:
    """Without JavaScript the file comes with the form instead of before it."""
    file = find_upload(request)
    if file is None or form.values["source_kind"] != "bundle":
        return
    try:
        bundle = uploads.add(by=request.user, tenant=tenant, file=file)
    except Refused as refusal:
        form.error_at("source.bundle", str(refusal))
    else:
        form.values["source.bundle"] = str(bundle.pk)


@require_POST
@signed_in
def job_fit(request: PageRequest) -> HttpResponseBase:
    """Whether what is typed so far fits, what is missing, and the command lines it makes."""
    tenant = find_own_tenant(request)
    if tenant is None:
        raise Http404("no namespace")
    form = forms.posted_form(request.POST)
    draft = form.with_fallbacks()
    wanted = _read(request, draft, tenant)
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
    job = find_job(request, pk)
    return _form_page(request, forms.form_of_job(job, request.user), find_own_tenant(request))


@require_safe
@signed_in
def job_detail(request: PageRequest, pk: UUID) -> HttpResponseBase:
    """One training; `?attempt=` is whose log the pane begins with."""
    job = find_job(request, pk)
    page = JobPage(job, request.user, which_of(job, request.GET.get("attempt", "")))
    return render(request, "jobs/detail.html", {"page": page, "job": job})


@require_safe
@signed_in
def job_fragment(request: PageRequest, pk: UUID, part: str) -> HttpResponseBase:
    if part not in PARTS:
        raise Http404(part)
    job = find_job(request, pk)
    # Artifacts come without a new revision: pods report them, and only the reconciler counts.
    if part != "artifacts" and is_unchanged(request, str(job.revision)):
        return HttpResponse(status=204)
    page = JobPage(job, request.user)
    return render(request, f"jobs/_{part}.html", {"page": page, "job": job})


def _confirm(request: PageRequest, job: Workload, question: str) -> HttpResponse:
    """The question alone for the dialog, or on a page of its own."""
    template = f"jobs/_{question}.html" if request.htmx else "jobs/confirm.html"
    page = JobPage(job, request.user)
    page.require(question)
    context = {"page": page, "job": job, "question": question}
    return render(request, template, context)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def job_stop(request: PageRequest, pk: UUID) -> HttpResponseBase:
    job = find_job(request, pk)
    if request.method != "POST":
        return _confirm(request, job, "stop")
    reason = request.POST.get("reason", "").strip()[:500]
    actions.stop(by=request.user, workload=job, reason=reason)
    if not request.htmx:
        return redirect("job", pk=pk)
    page = JobPage(find_job(request, pk), request.user)
    return render(request, "jobs/_header.html", {"page": page, "job": page.job})


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def job_delete(request: PageRequest, pk: UUID) -> HttpResponseBase:
    job = find_job(request, pk)
    if request.method != "POST":
        return _confirm(request, job, "delete")
    actions.delete(by=request.user, workload=job)
    messages.success(request, _("“%(name)s” is deleted.") % {"name": job.name})
    if request.htmx:
        answer: HttpResponseBase = HttpResponseClientRedirect(reverse("jobs"))
        return answer
    return redirect("jobs")


@require_safe
@signed_in
def job_log_download(request: PageRequest, pk: UUID) -> HttpResponseBase:
    """The whole log as a file: of one replica, or of all with prefixes."""
    job = find_job(request, pk)
    replica = request.GET.get("replica", "")
    if replica and downloads.replica_of(job, replica) is None:
        raise Http404(replica)
    which = which_of(job, request.GET.get("attempt", ""))
    return downloads.log_answer(request, job, downloads.replica_of(job, replica), None, which)


@require_safe
@signed_in
def job_artifact(request: PageRequest, pk: UUID, artifact_id: UUID) -> HttpResponseBase:
    """One file that a training left."""
    job = find_job(request, pk)
    artifact = get_object_or_404(job.artifacts, pk=artifact_id, uploaded_at__isnull=False)
    return downloads.artifact_answer(request, artifact)


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
