"""The page, and the dialog, in which a lead or an admin changes the quota of a tenant."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRefresh

from portal.web.request import PageRequest, next_page, signed_in
from portal.web.rest import read
from tenants.models import Tenant
from tenants.quota.forms import hints, quota_form
from tenants.quota.rules import change_quota
from tenants.quota.serializers import QuotaChangeSerializer


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def tenant_quota(request: PageRequest, pk: UUID) -> HttpResponseBase:
    """Asks for the amounts, in a dialog or on a page of its own, and sets them."""
    tenants = Tenant.objects.visible_to(request.user).select_related("owner", "team")
    tenant: Tenant = get_object_or_404(tenants, pk=pk)
    back = next_page(request)
    form = quota_form(request.user, tenant, request.POST if request.method == "POST" else None)
    if request.method == "POST":
        given = {"quota": form.typed}
        changed = form.attempt(
            lambda: change_quota(
                by=request.user,
                tenant=tenant,
                quota=read(QuotaChangeSerializer(data=given))["quota"] if form.typed else {},
            )
        )
        if changed is not None:
            name = tenant.owner.shown_name
            messages.success(request, _("The quota of %(name)s is changed.") % {"name": name})
            if request.htmx:
                answer: HttpResponseBase = HttpResponseClientRefresh()
                return answer
            return redirect(back)
    template = "tenants/_quota_form.html" if request.htmx else "tenants/quota.html"
    context = {"form": form, "hints": hints(tenant, request.user), "tenant": tenant, "back": back}
    return render(request, template, context)
