"""The admin's pages of teams: all of them with their budgets, and one with its people."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from portal.errors import Refused
from portal.web.forms import SpecForm
from portal.web.request import PageRequest, admins_only, wants_fragment
from portal.web.rest import source_address
from tenants.models import Team, User
from tenants.people import actions, page_forms, teams
from tenants.people.submission import TeamBody, parse
from tenants.quota import rules as quota

PAGE_SIZE = 50


@dataclass(frozen=True)
class TeamRow:
    team: Team
    leads: list[User]
    lines: list[quota.BudgetLine]


def _rows(listed: list[Team]) -> list[TeamRow]:
    sums = quota.quota_sums([team.pk for team in listed])
    return [
        TeamRow(
            team,
            sorted(team.leads.all(), key=lambda person: person.username),
            [
                quota.BudgetLine(kind, getattr(team, column), sums.get(team.pk, {}).get(kind, 0))
                for kind, column in quota.BUDGET_COLUMNS.items()
            ],
        )
        for team in listed
    ]


@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def team_list(request: PageRequest) -> HttpResponseBase:
    """All teams; POST makes one."""
    form = page_forms.team_form(posted=request.POST if request.method == "POST" else None)
    if request.method == "POST":
        made = form.attempt(
            lambda: teams.create(
                by=request.user,
                changes=parse(TeamBody, page_forms.team_body(form)),
                source_address=source_address(request),
            )
        )
        if made is not None:
            messages.success(request, _("The team is made. Now choose who belongs to it."))
            return redirect("team-admin", pk=made.pk)
    found = (
        Team.objects.annotate(member_count=Count("members", distinct=True))
        .prefetch_related("leads")
        .order_by("name")
    )
    page = Paginator(found, PAGE_SIZE).get_page(request.GET.get("page", "1"))
    context = {"page": page, "rows": _rows(list(page.object_list)), "form": form}
    template = "people/_teams.html" if wants_fragment(request) else "people/teams.html"
    return render(request, template, context, status=400 if form.is_wrong else 200)


def _find(pk: UUID) -> Team:
    return get_object_or_404(Team, pk=pk)


@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def team_admin(request: PageRequest, pk: UUID) -> HttpResponseBase:
    """One team; POST changes name and budget."""
    team = _find(pk)
    if request.method != "POST":
        return _team_page(request, team, page_forms.team_form(team))
    form = page_forms.team_form(team, request.POST)
    changed = form.attempt(
        lambda: teams.change(
            by=request.user,
            team=team,
            changes=parse(TeamBody, page_forms.team_body(form)),
            source_address=source_address(request),
        )
    )
    if changed is None:
        return _team_page(request, team, form, status=400)
    messages.success(request, _("Saved."))
    return redirect("team-admin", pk=pk)


def _team_page(request: PageRequest, team: Team, form: SpecForm, status: int = 200) -> HttpResponse:
    members = team.members.order_by("username")
    page = Paginator(members, PAGE_SIZE).get_page(request.GET.get("page", "1"))
    [row] = _rows([team])
    context: dict[str, Any] = {
        "team": team,
        "row": row,
        "form": form,
        "page": page,
        "lead_ids": {person.pk for person in row.leads},
        "outside_leads": [person for person in row.leads if person.team_id != team.pk],
        "people_elsewhere": User.objects.filter(is_active=True)
        .exclude(team=team)
        .select_related("team")
        .order_by("username")[:1000],
    }
    return render(request, "people/team.html", context, status=status)


def _answer(request: PageRequest, team: Team, act: Callable[[], str]) -> HttpResponseBase:
    """Does it, says what `act` says of it, and shows the team again."""
    try:
        done = act()
    except Refused as refusal:
        messages.error(request, " ".join(error.text for error in refusal.errors))
    else:
        messages.success(request, done)
    return redirect("team-admin", pk=team.pk)


def _named(request: PageRequest) -> User:
    """The person whose user name was sent."""
    return get_object_or_404(User, username=request.POST.get("username", "").replace("\0", ""))


@require_POST
@admins_only
def team_member_add(request: PageRequest, pk: UUID) -> HttpResponseBase:
    team, person = _find(pk), _named(request)
    words = _("%(name)s is in %(team)s now.") % {"name": person.shown_name, "team": team.name}
    return _answer(request, team, lambda: _move(request, person, team, words))


@require_POST
@admins_only
def team_member_remove(request: PageRequest, pk: UUID) -> HttpResponseBase:
    team = _find(pk)
    person = get_object_or_404(User, username=request.POST.get("username", ""), team=team)
    words = _("%(name)s has no team now.") % {"name": person.shown_name}
    return _answer(request, team, lambda: _move(request, person, None, words))


def _move(request: PageRequest, person: User, team: Team | None, done: str) -> str:
    actions.change(
        by=request.user,
        person=person,
        changes={"team": team},
        source_address=source_address(request),
    )
    return done


@require_POST
@admins_only
def team_lead(request: PageRequest, pk: UUID) -> HttpResponseBase:
    """Gives somebody a role of the team, or takes it."""
    team, person = _find(pk), _named(request)
    role, has_it = teams.asked_role(request.POST)
    return _answer(
        request,
        team,
        lambda: teams.set_role(
            by=request.user,
            team=team,
            person=person,
            role=role,
            has_it=has_it,
            source_address=source_address(request),
        ),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def team_delete(request: PageRequest, pk: UUID) -> HttpResponseBase:
    team = _find(pk)
    if request.method != "POST":
        context = {"team": team, "name": team.name, "question": "delete_team"}
        template = "people/_delete_team.html" if wants_fragment(request) else "people/confirm.html"
        return render(request, template, context)
    try:
        teams.delete(by=request.user, team=team, source_address=source_address(request))
    except Refused as refusal:
        messages.error(request, " ".join(error.text for error in refusal.errors))
        return redirect("team-admin", pk=pk)
    messages.success(request, _("The team %(name)s is deleted.") % {"name": team.name})
    return redirect("teams")
