"""The admin's pages of people: the list, inviting, one person and what can be done with them."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from portal.errors import Refused
from portal.web.forms import SpecForm
from portal.web.request import PageRequest, admins_only, done_or_told, page_or_fragment
from portal.web.rest import read
from tenants.models import AuditEntry, Tenant, User
from tenants.people import actions, forms, passwords, sessions
from tenants.people.api import join_url
from tenants.people.listing import NO_TEAM, PeopleListing
from tenants.people.serializers import InvitationBody, PersonBody

MAX_ENTRIES = 10


@require_safe
@admins_only
def people(request: PageRequest) -> HttpResponseBase:
    listing = PeopleListing(request.GET)
    context = {"listing": listing, "no_team": NO_TEAM, "roles": forms.role_choices()}
    page, revision = ("people/list.html", "people/_list.html"), listing.fingerprint
    return page_or_fragment(request, *page, context, revision=revision)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def person_invite(request: PageRequest) -> HttpResponseBase:
    """The form; its answer shows the link, this once."""
    form = forms.invitation_form(request.POST if request.method == "POST" else None)
    if request.method == "POST":
        made = form.attempt(
            lambda: actions.invite(by=request.user, given=read(InvitationBody(data=form.values)))
        )
        if made is not None:
            return _show_link(request, *made)
    context = {"form": form, **_choices()}
    return render(request, "people/invite.html", context, status=400 if form.is_wrong else 200)


def _choices() -> dict[str, Any]:
    return {"roles": forms.role_choices(), "teams": forms.team_choices()}


def _show_link(request: PageRequest, person: User, link: passwords.JoinLink) -> HttpResponse:
    context = {
        "person": person,
        "link": join_url(request, link),
        "expires_at": link.expires_at,
    }
    return render(request, "people/link.html", context)


def _find(pk: UUID) -> User:
    return get_object_or_404(User.objects.select_related("team"), pk=pk)


@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def person(request: PageRequest, pk: UUID) -> HttpResponseBase:
    """One person; POST changes name, role and team."""
    found = _find(pk)
    if request.method != "POST":
        return _person_page(request, found, forms.person_form(found))
    form = forms.person_form(found, request.POST)
    changed = form.attempt(
        lambda: actions.change(
            by=request.user, person=found, changes=read(PersonBody(data=form.values))
        )
    )
    if changed is None:
        return _person_page(request, found, form, status=400)
    messages.success(request, _("Saved."))
    return redirect("person", pk=pk)


def _person_page(
    request: PageRequest, found: User, form: SpecForm, status: int = 200
) -> HttpResponse:
    entries = AuditEntry.objects.filter(kind="user", object_id=str(found.pk))
    context = {
        "person": found,
        "form": form,
        "tenant": Tenant.objects.current_tenant_of(found),
        "session_count": sessions.existing(found).count(),
        "token_count": found.api_tokens.filter(expires_at__gt=now()).count(),
        "entries": entries[:MAX_ENTRIES],
        "is_self": found.pk == request.user.pk,
        **_choices(),
    }
    return render(request, "people/person.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def person_disable(request: PageRequest, pk: UUID) -> HttpResponseBase:
    found = _find(pk)
    if request.method != "POST":
        return _ask(request, "disable", found)
    return _set_active(request, found, is_active=False)


@require_POST
@admins_only
def person_enable(request: PageRequest, pk: UUID) -> HttpResponseBase:
    return _set_active(request, _find(pk), is_active=True)


def _ask(request: PageRequest, question: str, found: User) -> HttpResponse:
    """In a dialog, or on a page of its own where there is no JavaScript."""
    context = {"person": found, "name": found.shown_name}
    context["question"] = question
    return page_or_fragment(request, "people/confirm.html", f"people/_{question}.html", context)


def _set_active(request: PageRequest, found: User, *, is_active: bool) -> HttpResponseBase:
    def change() -> str:
        actions.change(by=request.user, person=found, changes={"is_active": is_active})
        words = (
            _("%(name)s can sign in again.")
            if is_active
            else _(
                "%(name)s is disabled: they are signed out everywhere, and their tokens no longer "
                "work."
            )
        )
        return words % {"name": found.shown_name}

    return done_or_told(request, change, "person", pk=found.pk)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def person_reset(request: PageRequest, pk: UUID) -> HttpResponseBase:
    found = _find(pk)
    if request.method != "POST":
        return _ask(request, "reset", found)
    try:
        link = actions.reset(
            by=request.user, person=found, revoke_tokens=bool(request.POST.get("revoke_tokens"))
        )
    except Refused as refusal:
        messages.error(request, refusal.text)
        return redirect("person", pk=pk)
    return _show_link(request, found, link)
