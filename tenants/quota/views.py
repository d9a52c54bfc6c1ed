"""The page, and the dialog, in which a lead or an admin changes the quota of a tenant."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRefresh

from portal.errors import Refused
from portal.web.request import PageRequest, next_page, signed_in
from portal.web.rest import source_address
from tenants.models import Tenant
from tenants.quota.forms import QuotaForm
from tenants.quota.rules import change_quota, check_may_change


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def tenant_quota(request: PageRequest, pk: UUID) -> HttpResponseBase:
    """Asks for the amounts, in a dialog or on a page of its own, and sets them."""
    tenants = Tenant.objects.visible_to(request.user).select_related("owner", "team")
    tenant: Tenant = get_object_or_404(tenants, pk=pk)
    check_may_change(request.user, tenant)
    back = next_page(request)
    form = QuotaForm(tenant, request.user, request.POST if request.method == "POST" else None)
    if request.method == "POST" and _change(request, form):
        if request.htmx:
            answer: HttpResponseBase = HttpResponseClientRefresh()
            return answer
        return redirect(back)
    template = "tenants/_quota_form.html" if request.htmx else "tenants/quota.html"
    return render(request, template, {"form": form, "tenant": tenant, "back": back})


def _change(request: PageRequest, form: QuotaForm) -> bool:
    """Whether it is done; otherwise the form says why not."""
    amounts = form.read()
    if amounts is None:
        return False
    try:
        change_quota(
            by=request.user,
            tenant=form.tenant,
            quota=amounts,
            source_address=source_address(request),
        )
    except Refused as refusal:
        form.take_errors(refusal)
        return False
    name = form.tenant.owner.shown_name
    messages.success(request, _("The quota of %(name)s is changed.") % {"name": name})
    return True
