"""The page, and the dialog, in which a lead or an admin changes the quota of a tenant."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRefresh

from portal.web.format import amount_text as shown_amount
from portal.web.forms import SpecForm
from portal.web.request import PageRequest, next_page, signed_in
from portal.web.rest import read
from tenants.models import Tenant, User
from tenants.quota.rules import BudgetLine, amount_text, budget_lines, change_quota
from tenants.quota.serializers import QuotaChangeSerializer, QuotaSerializer


def quota_form(user: User, tenant: Tenant, posted: Mapping[str, Any] | None) -> SpecForm:
    """The amounts as they are now, or as they were typed.

    Raises:
        NotAllowedError: neither an admin nor a lead of the tenant's team.
    """
    user.require("change_quota", tenant)
    now = {kind: amount_text(kind, amount) for kind, amount in tenant.quota.items()}
    return SpecForm(QuotaSerializer().fields, posted, shown=now, path="quota.")


def hints(tenant: Tenant, user: User) -> dict[str, str]:
    """Kind -> what is held now, and how much the team's budget leaves for this tenant."""
    # No budget binds an admin, and a tenant without a team has none.
    bound = None if user.may("exceed_budget") else tenant.team
    lines = {line.kind: line for line in budget_lines(bound)} if bound else {}
    return {kind: _hint(tenant, kind, lines.get(kind)) for kind in tenant.quota}


def _hint(tenant: Tenant, kind: str, line: BudgetLine | None) -> str:
    held = shown_amount(tenant.observed_used.get(kind, 0), kind)
    words = [_("%(amount)s in use.") % {"amount": held}]
    if line is not None and line.budget is not None:
        most = max(0, line.budget - (line.total - tenant.quota[kind]))
        shown = shown_amount(most, kind)
        words.append(_("At most %(most)s within the team's budget.") % {"most": shown})
    return " ".join(words)


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def tenant_quota(request: PageRequest, pk: UUID) -> HttpResponseBase:
    """Asks for the amounts, in a dialog or on a page of its own, and sets them."""
    tenant: Tenant = Tenant.objects.find(request.user, pk)
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
