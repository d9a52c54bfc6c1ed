"""The admin's pages of teams: all of them with their budgets, and one with its people."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from portal.errors import Refused
from portal.web.forms import SpecForm
from portal.web.lists import revision_of
from portal.web.request import (
    PageRequest,
    admins_only,
    done_or_told,
    is_unchanged,
    page_or_fragment,
    wants_fragment,
)
from portal.web.rest import read
from tenants.models import Team, User
from tenants.people import actions, forms, teams
from tenants.people.serializers import TeamBody
from tenants.quota import rules as quota

PAGE_SIZE = 50


@dataclass(frozen=True)
class TeamRow:
    team: Team
    leads: list[User]
    lines: list[quota.BudgetLine]

    @property
    def shown(self) -> tuple[Any, ...]:
        """All that the list shows of it."""
        team: Any = self.team  # `listed` counts its members
        leads = [person.shown_name for person in self.leads]
        return (team.pk, team.name, team.member_count, leads, self.lines)


def _rows(listed: list[Team]) -> list[TeamRow]:
    lines = quota.lines_of_teams(listed)
    return [
        TeamRow(team, sorted(team.leads.all(), key=lambda person: person.username), lines[team.pk])
        for team in listed
    ]


@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def team_list(request: PageRequest) -> HttpResponseBase:
    """All teams; POST makes one."""
    form = forms.team_form(posted=request.POST if request.method == "POST" else None)
    if request.method == "POST":
        made = form.attempt(
            lambda: teams.create(
                by=request.user, changes=read(TeamBody(data=forms.team_body(form)))
            )
        )
        if made is not None:
            messages.success(request, _("The team is created. Now add its members."))
            return redirect("team-admin", pk=made.pk)
    page = Paginator(Team.objects.listed(), PAGE_SIZE).get_page(request.GET.get("page", "1"))
    rows = _rows(list(page.object_list))
    revision = revision_of(page.paginator.count, [row.shown for row in rows])
    if request.method != "POST" and is_unchanged(request, revision):
        return HttpResponse(status=204)
    context = {"page": page, "rows": rows, "revision": revision, "form": form}
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
        return _team_page(request, team, forms.team_form(team))
    form = forms.team_form(team, request.POST)
    changed = form.attempt(
        lambda: teams.change(
            by=request.user,
            team=team,
            changes=read(TeamBody(data=forms.team_body(form))),
            is_confirmed="confirm" in request.POST,
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
    roles = teams.with_roles(team)
    context: dict[str, Any] = {
        "team": team,
        "row": row,
        "form": form,
        "asks_to_confirm": quota.CONFIRM in form.codes,
        "page": page,
        "roles": roles,
        "outsiders": [person for person in roles if person.team_id != team.pk],
        "people_elsewhere": User.objects.filter(is_active=True)
        .exclude(team=team)
        .select_related("team")
        .order_by("username")[:1000],
    }
    return render(request, "people/team.html", context, status=status)


def _named(request: PageRequest, **among: Any) -> User:
    """The person whose user name was sent."""
    name = request.POST.get("username", "").replace("\0", "")
    return get_object_or_404(User, username=name, **among)


@require_POST
@admins_only
def team_member_add(request: PageRequest, pk: UUID) -> HttpResponseBase:
    team, person = _find(pk), _named(request)
    words = _("%(name)s is now in %(team)s.") % {"name": person.shown_name, "team": team.name}
    return _move(request, pk, person, team, words)


@require_POST
@admins_only
def team_member_remove(request: PageRequest, pk: UUID) -> HttpResponseBase:
    person = _named(request, team=_find(pk))
    words = _("%(name)s is now in no team.") % {"name": person.shown_name}
    return _move(request, pk, person, None, words)


def _move(
    request: PageRequest, pk: UUID, person: User, team: Team | None, done: str
) -> HttpResponseBase:
    def move() -> str:
        actions.change(by=request.user, person=person, changes={"team": team})
        return done

    return done_or_told(request, move, "team-admin", pk=pk)


@require_POST
@admins_only
def team_lead(request: PageRequest, pk: UUID) -> HttpResponseBase:
    """Gives somebody a role of the team, or takes it."""
    team, person = _find(pk), _named(request)
    role, has_it = teams.asked_role(request.POST)

    def set_role() -> str:
        return teams.set_role(by=request.user, team=team, person=person, role=role, has_it=has_it)

    return done_or_told(request, set_role, "team-admin", pk=pk)


@require_http_methods(["GET", "HEAD", "POST"])
@admins_only
def team_delete(request: PageRequest, pk: UUID) -> HttpResponseBase:
    team = _find(pk)
    if request.method != "POST":
        context = {"team": team, "name": team.name, "question": "delete_team"}
        page = ("people/confirm.html", "people/_delete_team.html")
        return page_or_fragment(request, *page, context)
    try:
        teams.delete(by=request.user, team=team)
    except Refused as refusal:
        messages.error(request, refusal.text)
        return redirect("team-admin", pk=pk)
    messages.success(request, _("The team %(name)s is deleted.") % {"name": team.name})
    return redirect("teams")
