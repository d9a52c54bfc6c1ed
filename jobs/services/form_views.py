"""Pages on which notebooks and TensorBoards are asked for: the form, what fits, TensorBoard on trainings."""

from uuid import UUID

from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from jobs.models import Job, Service
from jobs.quota_usage import service_totals, usage_lines, with_request
from jobs.services import actions, forms
from jobs.services.boards import board_for
from jobs.services.fit import fit
from jobs.services.submission import ServiceRequest
from portal.catalog import get_catalog
from portal.errors import Refused
from portal.web.request import PageRequest, signed_in
from portal.web.rest import source_address
from tenants.models import Tenant

MAX_TRAININGS = 50  # offered on the form of a TensorBoard; others are reached from their own pages


def find_own_tenant(request: PageRequest) -> Tenant | None:
    """Where the person runs things; None for an admin without a namespace."""
    tenant: Tenant | None = Tenant.objects.current_tenant_of(request.user)
    return tenant


def _offered_jobs(form: forms.ServiceForm, tenant: Tenant) -> list[Job]:
    """The latest trainings, those that are ticked first."""
    own = Job.objects.visible_to(tenant.owner).filter(tenant=tenant).order_by("-queued_at", "pk")
    ticked = list(own.filter(pk__in=_ids(form.jobs)))
    others = own.exclude(pk__in=[job.pk for job in ticked])
    return ticked + list(others[: max(0, MAX_TRAININGS - len(ticked))])


def _ids(texts: list[str]) -> list[UUID]:
    """Those that are ids; the others are told by the rules of REST."""
    found = []
    for text in texts[:MAX_TRAININGS]:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found


def _form_page(
    request: PageRequest, form: forms.ServiceForm, tenant: Tenant | None
) -> HttpResponse:
    context = {
        "form": form,
        "kind": form.kind,
        "tenant": tenant,
        "offered": get_catalog().notebooks,
        "asked": get_catalog().tensorboards,
        "jobs": [],
    }
    if tenant and form.kind == Service.Kind.TENSORBOARD:
        context["jobs"] = _offered_jobs(form, tenant)
    return render(request, f"services/new_{form.kind}.html", context)


def _first_form(request: PageRequest, kind: str) -> forms.ServiceForm:
    """A blank form, or one like a service that the address names."""
    for pk in _ids([request.GET.get("like", "")]):
        like = Service.objects.visible_to(request.user).filter(pk=pk, kind=kind).first()
        if like is not None:
            return forms.form_of_service(like)
    return forms.blank_form(kind, jobs=request.GET.getlist("job"))


def _create(
    request: PageRequest, tenant: Tenant, form: forms.ServiceForm, wanted: ServiceRequest
) -> HttpResponseBase:
    """Asks for it; a request that could never start stays on the form, with the reason."""
    room = fit(wanted, tenant)
    if room.kind == "never":
        at = "size" if room.field in {"cpu", "memory"} else room.field
        form.errors[at] = [room.text]
        return _form_page(request, form, tenant)
    try:
        service = actions.create(
            by=request.user, tenant=tenant, request=wanted, source_address=source_address(request)
        )
    except Refused as refusal:
        form.take_errors(refusal.errors)
        return _form_page(request, form, tenant)
    return redirect(form.kind, pk=service.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def service_new(request: PageRequest, kind: str) -> HttpResponseBase:
    tenant = find_own_tenant(request)
    if request.method != "POST" or tenant is None:
        return _form_page(request, _first_form(request, kind), tenant)
    form = forms.posted_form(kind, request.POST)
    wanted = form.read(tenant, request.user)
    if wanted is None:
        return _form_page(request, form, tenant)
    return _create(request, tenant, form, wanted)


@require_POST
@signed_in
def service_fit(request: PageRequest, kind: str) -> HttpResponseBase:
    """Whether what is chosen so far fits, and what of the quota is left."""
    tenant = find_own_tenant(request)
    if tenant is None:
        raise Http404("no namespace")
    draft = forms.posted_form(kind, request.POST).with_fallbacks()
    wanted = draft.read(tenant, request.user)
    lines = usage_lines(tenant)
    asked = wanted and service_totals(
        wanted.kind, wanted.cpu_millicores, wanted.memory_bytes, wanted.gpu_count
    )
    context = {
        "problems": draft.problems,
        "fit": fit(wanted, tenant) if wanted else None,
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
    own = Job.objects.visible_to(request.user).filter(tenant=tenant, pk__in=_ids(ids))
    jobs = list(own.order_by("-queued_at", "pk"))
    form = forms.blank_form(Service.Kind.TENSORBOARD, jobs=ids)
    if not jobs or len(jobs) < len(set(ids)):
        form.errors["jobs"] = [_("One of the trainings ticked is not there any more.")]
        return _form_page(request, form, tenant)
    try:
        board = board_for(
            by=request.user, tenant=tenant, jobs=jobs, source_address=source_address(request)
        )
    except Refused as refusal:
        form.take_errors(refusal.errors)
        return _form_page(request, form, tenant)
    return redirect("tensorboard-open", pk=board.pk)
