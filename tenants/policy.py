"""Who may do what: the one table of permissions, and the only module that knows who has which role.

A role ties a person to a tenant: its owner, by a place in its team, as an admin to all of them. What
may not be seen answers 404, what may be seen and not be done answers 403. This module names models
by their app only, because their `visible_to` asks it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from django.apps import apps
from django.db import connection
from django.db.models import Q, QuerySet, TextChoices
from django.utils.translation import gettext_lazy as _

from portal.errors import NotAllowedError


class TenantRole(StrEnum):
    """In the order in which they are looked for: what costs no query first."""

    OWNER = "owner"
    ADMIN = "admin"
    LEAD = "lead"


OWNER, ADMIN, LEAD = TenantRole.OWNER, TenantRole.ADMIN, TenantRole.LEAD


class AccountRole(TextChoices):
    """What an account is, as it is kept and sent."""

    RESEARCHER = "researcher", _("Researcher")
    ADMIN = "admin", _("Admin")


NEW_ACCOUNT = AccountRole.RESEARCHER


class TeamRole(NamedTuple):
    """A role by a place in a team.

    Attributes:
        field: the relation of `Team` that says who has it.
        given: what is said to whoever gives it.
        taken: likewise.
        left: what the audit trail calls that somebody lost it with their place in the team.
    """

    field: str
    given: Any
    taken: Any
    left: str


TEAM_ROLES: Mapping[TenantRole, TeamRole] = {
    LEAD: TeamRole(
        field="leads",
        given=_("%(name)s now leads %(team)s."),
        taken=_("%(name)s no longer leads %(team)s."),
        left="no longer leads",
    ),
}
TEAMS_LED = "leads_teams"  # the leads' relation from the other side, of `User`
# Scopes of tokens by which an admin is one; no token at all: a session.
_FULL_SCOPES = {"", "admin"}

ALLOWED: Mapping[str, frozenset[TenantRole]] = {
    verb: frozenset(roles)
    for verb, roles in {
        # a namespace, and what runs in it with its logs and files
        "see": {OWNER, LEAD, ADMIN},
        "submit": {OWNER},
        "start": {OWNER},
        "keep_secrets": {OWNER},
        "stop": {OWNER, LEAD, ADMIN},
        "suspend": {OWNER, LEAD, ADMIN},
        "resume": {OWNER, LEAD, ADMIN},
        "prioritize": {OWNER, LEAD, ADMIN},
        "extend": {LEAD, ADMIN},  # a deadline: others may wait for its end
        "prefer": {LEAD, ADMIN},  # to the rest of the team: the priority high
        "delete": {OWNER, ADMIN},  # logs and files go with it
        "read_values": {OWNER},  # values of variables and addresses of code may be secrets
        # a kind names one of these two
        "open_private": {OWNER},
        "open_shared": {OWNER, LEAD, ADMIN},
        # a namespace itself
        "change_quota": {LEAD, ADMIN},
        "exceed_budget": {ADMIN},
        "manage_tenants": {ADMIN},
        "see_history": {ADMIN},  # what was purged
        # a team
        "lead": {LEAD},
        "steer": {LEAD, ADMIN},
        # a template, which has an owner and perhaps a team as a namespace has
        "keep": {OWNER},
        "publish": {LEAD},
        # the installation, its people and teams
        "administer": {ADMIN},
    }.items()
}

# What is said of it on pages, and by REST where that has always said it otherwise: command lines of any
# version print it.
_REFUSALS: Mapping[str, tuple[Any, str]] = {
    "start": (_("Only its owner may start it."), "only its owner may start it"),
    "stop": (
        _("Only its owner, a lead of the team or an admin may stop it."),
        "only its owner, a lead or an admin may stop it",
    ),
    "suspend": (
        _("Only its owner, a lead of the team or an admin may suspend it."),
        "only its owner, a lead or an admin may suspend it",
    ),
    "resume": (
        _("Only its owner, a lead of the team or an admin may resume it."),
        "only its owner, a lead or an admin may resume it",
    ),
    "prioritize": (
        _("Only its owner, a lead of the team or an admin may change its priority."),
        "only its owner, a lead or an admin may change its priority",
    ),
    "prefer": (
        _("Only a lead of the team or an admin may give or take the priority high."),
        "only a lead or an admin may give or take the priority high",
    ),
    "extend": (
        _("Only a lead of the team or an admin may extend its deadline."),
        "only a lead or an admin may extend its deadline",
    ),
    "delete": (
        _("Only its owner or an admin may delete it."),
        "only its owner or an admin may delete it",
    ),
    "read_values": (_("Only its owner may export it."), "only its owner may export it"),
    "open_private": (_("A notebook opens for its owner only."), ""),
    "change_quota": (
        _("Only a lead of the team or an admin may change this quota."),
        "Only a lead of the team or an admin may change a quota.",
    ),
    "manage_tenants": (_("Only an admin may do this."), ""),
    "steer": (_("Only people who lead a team see this page."), ""),
    "keep": (_("Only its owner may change this template."), ""),
    "publish": (_("Only a lead of the team may change its templates."), ""),
    "administer": (_("Only an admin may do this."), "only admins may do this"),
}


def roles_in_teams(user: Any) -> frozenset[TenantRole]:
    """Those that a person has in any team. A query for each role of teams."""
    return frozenset(role for role in TEAM_ROLES if _has_in_any_team(user, role))


def may(user: Any, verb: str, tenant: Any = None) -> bool:
    """Whether somebody may do this.

    Args:
        tenant: on what; None: whether as an admin or in any team, which is asked once for each
            object of a person, that is for a request.
    """
    return any(_has(role, user, tenant) for role in TenantRole if role in ALLOWED[verb])


def allowed(user: Any, tenant: Any, *verbs: str) -> frozenset[str]:
    """Those of the verbs that somebody may do on a tenant: a page's buttons."""
    return frozenset(verb for verb in verbs if may(user, verb, tenant))


def require(user: Any, verb: str, tenant: Any = None) -> None:
    """The first line of an action.

    Raises:
        NotAllowedError: with a sentence that says who may.
    """
    if not may(user, verb, tenant):
        text, rest_text = _REFUSALS.get(verb, (_("You may not do this."), ""))
        raise NotAllowedError(str(text), rest_text)


# --- the same as filters of rows ---
def tenants(user: Any, verb: str) -> Q:
    """Of `Tenant`: those on which somebody may do this."""
    if ADMIN in ALLOWED[verb] and _is_admin(user):
        return Q()
    found = Q(owner_id=user.pk) if OWNER in ALLOWED[verb] else Q(pk__in=[])
    for role in TEAM_ROLES.keys() & ALLOWED[verb]:
        found |= Q(team_id__in=_teams(user, role))
    return found


def within_tenants(user: Any, verb: str) -> Q:
    """Of rows that belong to a `tenant`: those of tenants on which somebody may do this."""
    found = tenants(user, verb)
    if not found:
        return Q()
    return Q(tenant__in=apps.get_model("tenants", "Tenant").objects.filter(found).values("pk"))


def teams(user: Any, verb: str) -> Q:
    """Of `Team`: those in which somebody may do this."""
    if ADMIN in ALLOWED[verb] and _is_admin(user):
        return Q()
    found = Q(pk__in=[])
    for role in TEAM_ROLES.keys() & ALLOWED[verb]:
        found |= Q(pk__in=_teams(user, role))
    return found


def people(user: Any, verb: str) -> Q:
    """Of `User`: oneself; everybody for those who may do this as admins."""
    return Q() if ADMIN in ALLOWED[verb] and _is_admin(user) else Q(pk=user.pk)


# --- accounts ---
def admins(people: QuerySet[Any]) -> QuerySet[Any]:
    """Those of the people whose account is an admin's."""
    return people.filter(role=AccountRole.ADMIN)


def makes_admin(role: str) -> bool:
    """Whether an account of this stored role is an admin's."""
    return role == AccountRole.ADMIN


def account_role(*, of_admin: bool) -> str:
    """The stored role of an account that somebody else decides on."""
    return AccountRole.ADMIN if of_admin else AccountRole.RESEARCHER


def with_teams_led(people: QuerySet[Any]) -> QuerySet[Any]:
    """Reads along what `teams_led` tells."""
    return people.prefetch_related(TEAMS_LED)


def teams_led(person: Any) -> list[str]:
    """Names of the teams that somebody leads."""
    return sorted(team.name for team in getattr(person, TEAMS_LED).all())


def _is_admin(user: Any) -> bool:
    return makes_admin(user.role) and user.token_scope in _FULL_SCOPES


def _has(role: TenantRole, user: Any, tenant: Any) -> bool:
    if role is ADMIN:
        return _is_admin(user)
    if role is OWNER:
        return tenant is not None and tenant.owner_id == user.pk
    if tenant is None:
        return role in user.team_roles
    if tenant.team_id is None:
        return False
    return bool(_teams(user, role).filter(team_id=tenant.team_id).exists())


def _through(role: TenantRole) -> Any:
    """The model of who has the role in which team."""
    return getattr(apps.get_model("tenants", "Team"), TEAM_ROLES[role].field).through


def _teams(user: Any, role: TenantRole) -> QuerySet[Any]:
    """Ids of the teams in which somebody has the role: a join would find a row once per person."""
    found: QuerySet[Any] = _through(role).objects.filter(user_id=user.pk).values("team_id")
    return found


def _has_in_any_team(user: Any, role: TenantRole) -> bool:
    # Written out, for every page asks it: to compile it costs ten times what the database does.
    table = connection.ops.quote_name(_through(role)._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT 1 FROM {table} WHERE user_id = %s LIMIT 1",
            [user._meta.pk.get_db_prep_value(user.pk, connection)],
        )
        return cursor.fetchone() is not None
