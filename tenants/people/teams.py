"""Everything that an admin does with teams: making, changing, deleting."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal import live
from tenants import policy
from tenants.audit.record import differences, record
from tenants.models import BUDGET_COLUMNS, Team, Tenant, User
from tenants.people.actions import refuse
from tenants.policy import LEAD, TEAM_ROLES, TenantRole
from tenants.quota.rules import amount_text, check_parts
from tenants.quota.weights import preview_team


@transaction.atomic
def create(*, by: User, changes: Mapping[str, Any]) -> Team:
    """A new team.

    Args:
        changes: as for `change`; `name` is needed.

    Raises:
        PermissionDenied: not an admin.
        Refused: there is a team of this name, or a lead who is disabled.
    """
    policy.require(by, "administer")
    _check_name(changes["name"])
    columns = {**_columns(changes.get("budget", {})), "weight": changes.get("weight", 1)}
    team = Team.objects.create(name=changes["name"], **columns)
    _place(team, changes)
    detail = {
        name: value
        for name, value in shown(team).items()
        if value and name != "name" and (name, value) != ("weight", 1)
    }
    record(by=by, verb="create", target=team, detail=detail)
    tell(team)
    return team


@transaction.atomic
def change(*, by: User, team: Team, changes: Mapping[str, Any], is_confirmed: bool = False) -> Team:
    """Changes any of name, leads, budget, weight; one audit row for all.

    A budget below what is given already is allowed: nothing is taken away, and leads can only make
    quotas smaller until it fits.

    Args:
        changes: `name`; `leads` and the fields of other rows of `TEAM_ROLES`: all who have it
            from now on; `budget`: kind -> amount or None for no limit, only what changes; `weight`.
        is_confirmed: also where namespaces by weight would have nothing of a kind, or less than they use.

    Raises:
        PermissionDenied: not an admin.
        Refused: there is a team of this name, or a lead who is disabled; 409, it is to be confirmed.
    """
    policy.require(by, "administer")
    team = Team.objects.select_for_update().get(pk=team.pk)
    before = shown(team)
    if changes.get("name", team.name) != team.name:
        _check_name(changes["name"], but=team)
        team.name = changes["name"]
    for column, amount in _columns(changes.get("budget", {})).items():
        setattr(team, column, amount)
    weight = changes.get("weight", team.weight)
    if weight != team.weight and not is_confirmed:
        check_parts(preview_team(team.pk, weight), of_team=True)
    team.weight = weight
    team.save()
    _place(team, changes)
    detail = differences(before, shown(team))
    if "weight" in detail.get("after", {}):
        transaction.on_commit(live.wake_reconciler)  # quotas by weight follow
    if detail:
        record(by=by, verb="change", target=team, detail=detail)
        tell(team)
    return team


def asked_role(form: Mapping[str, Any]) -> tuple[TenantRole, bool]:
    """Which role a form is about (a field named after it), and whether it gives it."""
    role = next((role for role in TEAM_ROLES if f"is_{role}" in form), LEAD)
    return role, form.get(f"is_{role}") == "1"


def set_role(*, by: User, team: Team, person: User, role: TenantRole, has_it: bool) -> str:
    """Gives somebody a role of the team, or takes it; who else has it stays.

    Returns:
        What is different now, to be said.

    Raises:
        Refused: somebody who would have it is disabled.
    """
    row = TEAM_ROLES[role]
    people = [one for one in getattr(team, row.field).all() if one.pk != person.pk]
    changes = {row.field: [*people, person] if has_it else people}
    change(by=by, team=team, changes=changes)
    words = {"name": person.shown_name, "team": team.name}
    return str(row.given if has_it else row.taken) % words


def with_roles(team: Team) -> dict[User, set[TenantRole]]:
    """By user name: all who have a role of the team, members or not."""
    found: dict[User, set[TenantRole]] = {}
    for role, row in TEAM_ROLES.items():
        for person in getattr(team, row.field).all():
            found.setdefault(person, set()).add(role)
    return dict(sorted(found.items(), key=lambda item: item[0].username))


@transaction.atomic
def delete(*, by: User, team: Team) -> None:
    """Deletes a team that nobody and nothing belongs to.

    Raises:
        PermissionDenied: not an admin.
        Refused: it has members or namespaces.
    """
    policy.require(by, "administer")
    team = Team.objects.select_for_update().get(pk=team.pk)
    members = team.members.count()
    if members:
        text = ngettext(
            "%(count)s person is in this team. Move them to another one first.",
            "%(count)s people are in this team. Move them to another one first.",
            members,
        )
        refuse("", "not_empty", text % {"count": members})
    if Tenant.objects.existing().filter(team=team).exists():
        refuse("", "not_empty", _("This team has namespaces. Move their owners first."))
    record(by=by, verb="delete", target=team)
    tell(team)
    team.delete()


def shown(team: Team) -> dict[str, Any]:
    """What can be changed, in words for the audit trail."""
    budget = {
        f"budget {kind}": "no limit" if amount is None else amount_text(kind, amount)
        for kind, amount in team.budget.items()
    }
    people = {
        role.field: getattr(team, role.field)
        .order_by("username")
        .values_list("username", flat=True)
        for role in TEAM_ROLES.values()
    }
    names = {field: ", ".join(found) for field, found in people.items()}
    return {"name": team.name, **names, **budget, "weight": team.weight}


def _columns(budget: Mapping[str, int | None]) -> dict[str, int | None]:
    return {BUDGET_COLUMNS[kind]: amount for kind, amount in budget.items()}


def _check_name(name: str, but: Team | None = None) -> None:
    same = Team.objects.filter(name__iexact=name)
    if (same.exclude(pk=but.pk) if but else same).exists():
        refuse("name", "name_taken", _("There is already a team of this name."))


def _place(team: Team, changes: Mapping[str, Any]) -> None:
    """Gives each role of the team to those who are to have it from now on."""
    for field in {role.field for role in TEAM_ROLES.values()} & changes.keys():
        for person in changes[field]:
            if not person.is_active:
                text = _("%(name)s is disabled and cannot have a role in a team.")
                refuse(field, "disabled", text % {"name": person.username})
        getattr(team, field).set(changes[field])


def tell(team: Team) -> None:
    """After the commit: pages of admins read again."""
    pk = team.pk
    transaction.on_commit(lambda: live.changed("team", pk, 0, ""))
