"""Admin pages of namespaces: the list, one of them, a new one, and the questions before each verb."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRedirect

from portal.web.forms import SpecForm
from portal.web.request import PageRequest, admins_only, is_unchanged, wants_fragment
from portal.web.rest import source_address
from tenants.models import Tenant
from tenants.namespaces import actions
from tenants.namespaces.actions import VERBS, verbs_for
from tenants.namespaces.forms import new_namespace_form, possible_owners
from tenants.namespaces.listing import NamespaceListing
from tenants.namespaces.page import NamespacePage
from tenants.namespaces.serializers import VERB_FIELDS, WordsSerializer
from tenants.quota.rules import COLUMNS
from tenants.quota.serializers import QuotaSerializer

_DONE = {
    "suspend": gettext_lazy("%(name)s is suspended: what runs is ended."),
    "resume": gettext_lazy("%(name)s is open again."),
    "delete": gettext_lazy("%(name)s is deleted. It can be restored for seven days."),
    "restore": gettext_lazy("%(name)s is restored, with its data."),
    "purge": gettext_lazy("%(name)s is being removed for ever."),
}


def find_tenant(request: PageRequest, pk: UUID) -> Tenant:
    """A namespace that the person may see.

    Raises:
        Http404: there is none, or it is not theirs to see.
    """
    tenants = Tenant.objects.visible_to(request.user).select_related("owner", "team")
    tenant: Tenant = get_object_or_404(tenants, pk=pk)
    return tenant


@require_safe
@admins_only
def namespace_list(request: PageRequest) -> HttpResponseBase:
    listing = NamespaceListing(request.user, request.GET)
    if is_unchanged(request, listing.fingerprint):
        return HttpResponse(status=204)
    template = "namespaces/_list.html" if wants_fragment(request) else "namespaces/list.html"
    return render(request, template, {"listing": listing})


@require_safe
@admins_only
def namespace_detail(request: PageRequest, pk: UUID) -> HttpResponseBase:
    tenant = find_tenant(request, pk)
    if is_unchanged(request, str(tenant.revision)):
        return HttpResponse(status=204)
    template = "namespaces/_detail.html" if wants_fragment(request) else "namespaces/detail.html"
    return render(request, template, {"page": NamespacePage(tenant), "tenant": tenant})


@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def namespace_new(request: PageRequest) -> HttpResponseBase:
    form = new_namespace_form(request.POST if request.method == "POST" else None)
    tenant = _create(request, form) if request.method == "POST" else None
    if tenant is not None:
        return redirect("namespace", pk=tenant.pk)
    context = {"form": form, "owners": possible_owners()}
    return render(request, "namespaces/new.html", context)


def _create(request: PageRequest, form: SpecForm) -> Tenant | None:
    """The new namespace; None: the form says why not."""
    owner = form.values["owner"]
    if not owner:
        form.errors["owner"] = [_("Whose namespace is it to be?")]
    typed = {kind: text for kind, text in form.typed.items() if kind in COLUMNS}
    quota = form.attempt(lambda: QuotaSerializer(typed).read() if typed else {})
    if quota is None or not owner:
        return None
    address = source_address(request)
    return form.attempt(
        lambda: actions.create(by=request.user, owner=owner, quota=quota, source_address=address)
    )


@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def namespace_verb(request: PageRequest, pk: UUID, verb: str) -> HttpResponseBase:
    """Asks before a verb, in a dialog or on a page of its own, and carries it out."""
    if verb not in VERBS:
        raise Http404(verb)
    tenant = find_tenant(request, pk)
    form = SpecForm(WordsSerializer(VERB_FIELDS[verb]).fields, request.POST)
    if request.method == "POST" and _carry_out(request, tenant, verb, form):
        return _done(request, tenant, verb)
    if verb not in verbs_for(tenant):
        form.problems.append(_("This cannot be done with it now."))
    template = "namespaces/_ask.html" if request.htmx else "namespaces/ask.html"
    context = {"form": form, "tenant": tenant, "verb": verb, "page": NamespacePage(tenant)}
    return render(request, template, context)


def _carry_out(request: PageRequest, tenant: Tenant, verb: str, form: SpecForm) -> bool:
    """Whether it is done; otherwise the form says why not."""
    changed = form.attempt(
        lambda: VERBS[verb](
            by=request.user,
            tenant=tenant,
            source_address=source_address(request),
            **WordsSerializer(VERB_FIELDS[verb], form.values).read(),
        )
    )
    return changed is not None


def _done(request: PageRequest, tenant: Tenant, verb: str) -> HttpResponseBase:
    messages.success(request, str(_DONE[verb]) % {"name": tenant.namespace})
    if request.htmx:
        answer: HttpResponseBase = HttpResponseClientRedirect(
            reverse("namespace", args=[tenant.pk])
        )
        return answer
    return redirect("namespace", pk=tenant.pk)
