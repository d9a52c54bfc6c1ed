"""Pages of trainings: the list, one training, and what one can do with it.

Every view looks up what its person may see (404 for everything else), calls one action, answers.
"""

from uuid import UUID

from django.contrib import messages
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
)
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRedirect

from jobs.archive.logs import which_of
from jobs.detail import JobPage
from jobs.kinds.training.kind import TRAINING
from jobs.logs import downloads
from jobs.models import Workload
from jobs.workloads import actions
from portal.web.request import PageRequest, is_unchanged, signed_in

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
