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

from portal.errors import Refused
from portal.web.format import amount_text as shown_amount
from portal.web.forms import SpecForm
from portal.web.request import PageRequest, next_page, signed_in
from portal.web.rest import read
from tenants.models import BUDGET_COLUMNS, QUOTA_COLUMNS, Tenant, User
from tenants.quota.rules import (
    CONFIRM,
    BudgetLine,
    amount_text,
    budget_lines,
    change_quota,
    part_text,
)
from tenants.quota.serializers import QuotaChangeSerializer, QuotaSerializer
from tenants.quota.weights import Share, preview, share_of


def quota_form(user: User, tenant: Tenant, posted: Mapping[str, Any] | None) -> SpecForm:
    """The amounts as they are now, or as they were typed.

    Raises:
        NotAllowedError: neither an admin nor a lead of the tenant's team.
    """
    user.require("change_quota", tenant)
    now = {kind: amount_text(kind, amount) for kind, amount in tenant.quota.items()}
    fields = {**QuotaSerializer().fields}
    if user.may("administer"):
        more = QuotaChangeSerializer().fields
        fields |= {name: more[name] for name in ("quota_by_weight", "weight")}
        now |= {
            "quota_by_weight": str(tenant.quota_by_weight).lower(),
            "weight": str(tenant.weight),
        }
    return SpecForm(fields, posted, shown=now, path="quota.")


def _body(form: SpecForm) -> dict[str, Any]:
    """What was typed over, as a body of REST."""
    quota = {kind: text for kind, text in form.typed.items() if kind in QUOTA_COLUMNS}
    chosen = {name: text for name, text in form.typed.items() if name not in QUOTA_COLUMNS}
    return chosen | ({"quota": quota} if quota else {})


def hints(tenant: Tenant, user: User, share: Share | None) -> dict[str, str]:
    """Kind -> what is held now, and how much the team's budget leaves for this tenant, or of what it
    has a part by weight."""
    # No budget binds an admin, and a tenant without a team has none.
    bound = None if user.may("exceed_budget") else tenant.team
    lines = {line.kind: line for line in budget_lines(bound)} if bound else {}
    return {kind: _hint(tenant, kind, lines.get(kind), share) for kind in tenant.quota}


def _hint(tenant: Tenant, kind: str, line: BudgetLine | None, share: Share | None) -> str:
    used = tenant.observed_used.get(kind, 0)
    words = [_("%(amount)s in use.") % {"amount": shown_amount(used, kind)}]
    if tenant.quota_by_weight and kind in BUDGET_COLUMNS:
        if over := max(0, used - tenant.quota[kind]):
            words.append(_("Over by %(amount)s.") % {"amount": shown_amount(over, kind)})
        if share is not None:
            parts = (tenant.quota[kind], share.of_team[kind], share.whole[kind])
            own, team, whole = (shown_amount(amount, kind) for amount in parts)
            texts = {"own": own, "team": team, "whole": whole}
            words.append(
                _("By weight %(own)s of %(team)s of the team, of %(whole)s in all.") % texts
                if tenant.team_id
                else _("By weight %(own)s of %(whole)s in all.") % texts
            )
    elif line is not None and line.budget is not None:
        most = max(0, line.budget - (line.total - tenant.quota[kind]))
        shown = shown_amount(most, kind)
        words.append(_("At most %(most)s within the team's budget.") % {"most": shown})
    return " ".join(words)


def weight_text(tenant: Tenant, share: Share | None) -> str:
    """How the quota comes about by weight, in a sentence; empty where it is fixed."""
    if not tenant.quota_by_weight:
        return ""
    if share is None:
        return _("By weight. While the namespace is closed, its quota stays as it was.")
    words = {
        "weight": share.weight,
        "weights": share.weights,
        "team_weight": share.team_weight,
        "team_weights": share.team_weights,
    }
    if tenant.team_id:
        text = _(
            "By weight: %(weight)s of %(weights)s in the team, whose weight is %(team_weight)s of "
            "%(team_weights)s."
        )
    else:
        text = _("By weight: %(team_weight)s of %(team_weights)s.")
    found = text % words
    if not any(share.whole.values()):
        found += " " + _("Nothing is left to split: fixed quotas take all that the nodes have.")
    return found


def part_hint(user: User, tenant: Tenant, form: SpecForm) -> str:
    """What the namespace would have by weight with the weight that is typed, for who may choose it;
    empty: it has that, it is to be fixed, what is typed cannot be, or it is not known."""
    if not user.may("administer"):
        return ""
    chosen = {name: text for name, text in _body(form).items() if name != "quota"}
    try:
        typed = read(QuotaChangeSerializer(data=chosen)) if chosen else {}
    except Refused:
        return ""  # said when it is sent
    weight = typed.get("weight", tenant.weight)
    if tenant.quota_by_weight and (
        weight == tenant.weight or not typed.get("quota_by_weight", True)
    ):
        return ""
    found = preview(tenant, by_weight=True, weight=weight)
    if found is None or found.part is None:
        return ""
    return _("That would be %(part)s now.") % {"part": part_text(found.part)}


@require_http_methods(["GET", "HEAD", "POST"])
@signed_in
def tenant_quota(request: PageRequest, pk: UUID) -> HttpResponseBase:
    """Asks for the amounts, in a dialog or on a page of its own, and sets them.

    A page sends what is typed also by GET, to show what would come of it.
    """
    tenant: Tenant = Tenant.objects.find(request.user, pk)
    back = next_page(request)
    typed = request.POST if request.method == "POST" else request.GET
    form = quota_form(request.user, tenant, typed)
    if request.method == "POST":
        given = _body(form)
        if given and "confirm" in request.POST:
            given["confirm"] = "true"

        def change() -> Tenant:
            wanted = read(QuotaChangeSerializer(data=given)) if given else {}
            return change_quota(by=request.user, tenant=tenant, **wanted)

        changed = form.attempt(change)
        if changed is not None:
            name = tenant.owner.shown_name
            messages.success(request, _("The quota of %(name)s is changed.") % {"name": name})
            if request.htmx:
                answer: HttpResponseBase = HttpResponseClientRefresh()
                return answer
            return redirect(back)
    template = "tenants/_quota_form.html" if request.htmx else "tenants/quota.html"
    share = share_of(tenant)
    context = {
        "form": form,
        "hints": hints(tenant, request.user, share),
        "by_weight": weight_text(tenant, share),
        "part": part_hint(request.user, tenant, form),
        "asks_to_confirm": CONFIRM in form.codes,
        "tenant": tenant,
        "back": back,
    }
    return render(request, template, context)
