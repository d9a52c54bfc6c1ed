"""Pages on which notebooks and TensorBoards are asked for: the form, what fits, TensorBoard on trainings."""

from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from jobs.kinds.tensorboard import body_of
from jobs.kinds.training.kind import TRAINING
from jobs.models import Workload
from jobs.services import forms
from jobs.workloads import actions
from jobs.workloads.fit import fit
from jobs.workloads.usage import spec_totals, usage_lines, with_request
from portal.catalog import get_catalog
from portal.web.request import PageRequest, signed_in
from tenants.models import Tenant


def find_own_tenant(request: PageRequest) -> Tenant | None:
    """Where the person runs things; None for an admin without a namespace."""
    tenant: Tenant | None = Tenant.objects.current_tenant_of(request.user)
    return tenant


def _form_page(
    request: PageRequest, form: forms.ServiceForm, tenant: Tenant | None
) -> HttpResponse:
    context = {
        "form": form,
        "kind": form.kind.key,
        "tenant": tenant,
        "offered": get_catalog().notebooks,
        "asked": get_catalog().tensorboards,
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
    own = Workload.objects.visible_to(request.user).filter(
        tenant=tenant, kind=TRAINING.key, pk__in=forms.ids_of(ids)
    )
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
