"""Admin pages of namespaces: the list, one of them, a new one, and the questions before each verb."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRedirect

from portal.web.forms import SpecForm
from portal.web.request import PageRequest, admins_only, page_or_fragment
from portal.web.rest import read
from tenants.actions import default_columns
from tenants.models import QUOTA_COLUMNS, Tenant, User
from tenants.namespaces import actions
from tenants.namespaces.actions import VERBS, verbs_for
from tenants.namespaces.listing import NamespaceListing
from tenants.namespaces.page import NamespacePage
from tenants.namespaces.serializers import VERB_FIELDS, NewTenantSerializer, WordsSerializer
from tenants.quota.rules import CONFIRM, amount_text
from tenants.quota.serializers import QuotaSerializer

_MOST_OWNERS = 200  # people that the field suggests
_DONE = {
    "suspend": gettext_lazy("%(name)s is suspended: its workloads are being stopped."),
    "resume": gettext_lazy("%(name)s is resumed."),
    "delete": gettext_lazy("%(name)s is deleted. It can be restored for seven days."),
    "restore": gettext_lazy("%(name)s is restored, with its data."),
    "purge": gettext_lazy("%(name)s is being deleted permanently."),
}


@require_safe
@admins_only
def namespace_list(request: PageRequest) -> HttpResponseBase:
    listing = NamespaceListing(request.user, request.GET)
    page, revision = ("namespaces/list.html", "namespaces/_list.html"), listing.fingerprint
    return page_or_fragment(request, *page, {"listing": listing}, revision=revision)


@require_safe
@admins_only
def namespace_detail(request: PageRequest, pk: UUID) -> HttpResponseBase:
    tenant: Tenant = Tenant.objects.find(request.user, pk)
    context = {"page": NamespacePage(tenant), "tenant": tenant}
    page, revision = ("namespaces/detail.html", "namespaces/_detail.html"), str(tenant.revision)
    return page_or_fragment(request, *page, context, revision=revision)


def _new_form(posted: Mapping[str, Any] | None) -> SpecForm:
    """Whose namespace, and what it may hold: the default unless it is typed over."""
    default = Tenant(**default_columns()).quota
    fields = {"owner": NewTenantSerializer().fields["owner"], **QuotaSerializer().fields}
    shown = {kind: amount_text(kind, amount) for kind, amount in default.items()}
    return SpecForm(fields, posted, shown=shown, path="quota.")


def _new_body(form: SpecForm) -> dict[str, Any]:
    """The form as a body of REST."""
    typed = {kind: text for kind, text in form.typed.items() if kind in QUOTA_COLUMNS}
    return {"owner": form.values["owner"], **({"quota": typed} if typed else {})}


def _possible_owners() -> QuerySet[User]:
    """People without a namespace, to choose from."""
    homes = Tenant.objects.existing().values("owner_id")
    people = User.objects.filter(is_active=True).exclude(pk__in=homes)
    return people.order_by("username")[:_MOST_OWNERS]


@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def namespace_new(request: PageRequest) -> HttpResponseBase:
    form = _new_form(request.POST if request.method == "POST" else None)
    if request.method == "POST":
        if not form.values["owner"]:
            form.errors["owner"] = [_("Choose the owner of the namespace.")]
        given = form.attempt(lambda: read(NewTenantSerializer(data=_new_body(form))))
        if not form.is_wrong and given is not None:
            given["is_confirmed"] = "confirm" in request.POST
            tenant = form.attempt(lambda: actions.create(by=request.user, **given))
            if tenant is not None:
                return redirect("namespace", pk=tenant.pk)
    context = {
        "form": form,
        "owners": _possible_owners(),
        "asks_to_confirm": CONFIRM in form.codes,
    }
    return render(request, "namespaces/new.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def namespace_verb(request: PageRequest, pk: UUID, verb: str) -> HttpResponseBase:
    """Asks before a verb, in a dialog or on a page of its own, and carries it out."""
    if verb not in VERBS:
        raise Http404(verb)
    tenant: Tenant = Tenant.objects.find(request.user, pk)
    form = SpecForm(WordsSerializer(VERB_FIELDS[verb]).fields, request.POST)
    if request.method == "POST":
        changed = form.attempt(
            lambda: VERBS[verb](
                by=request.user,
                tenant=tenant,
                **read(WordsSerializer(VERB_FIELDS[verb], form.values)),
            )
        )
        if changed is not None:
            return _done(request, tenant, verb)
    if verb not in verbs_for(tenant):
        form.problems.append(_("This is not possible in its current state."))
    template = "namespaces/_ask.html" if request.htmx else "namespaces/ask.html"
    context = {"form": form, "tenant": tenant, "verb": verb, "page": NamespacePage(tenant)}
    return render(request, template, context)


def _done(request: PageRequest, tenant: Tenant, verb: str) -> HttpResponseBase:
    messages.success(request, str(_DONE[verb]) % {"name": tenant.namespace})
    if request.htmx:
        answer: HttpResponseBase = HttpResponseClientRedirect(
            reverse("namespace", args=[tenant.pk])
        )
        return answer
    return redirect("namespace", pk=tenant.pk)
