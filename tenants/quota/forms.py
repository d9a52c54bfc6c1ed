"""The form that changes a tenant's quota: for leads on the team page, for admins on theirs."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from portal.web.format import amount_text as shown_amount
from portal.web.forms import SpecForm
from tenants import policy
from tenants.models import Tenant, User
from tenants.quota.rules import BudgetLine, amount_text, budget_lines
from tenants.quota.serializers import QuotaSerializer


def quota_form(user: User, tenant: Tenant, posted: Mapping[str, Any] | None) -> SpecForm:
    """The amounts as they are now, or as they were typed.

    Raises:
        NotAllowedError: neither an admin nor a lead of the tenant's team.
    """
    policy.require(user, "change_quota", tenant)
    now = {kind: amount_text(kind, amount) for kind, amount in tenant.quota.items()}
    return SpecForm(QuotaSerializer().fields, posted, shown=now, path="quota.")


def hints(tenant: Tenant, user: User) -> dict[str, str]:
    """Kind -> what is held now, and how much the team's budget leaves for this tenant."""
    # No budget binds an admin, and a tenant without a team has none.
    bound = None if policy.may(user, "exceed_budget") else tenant.team
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
