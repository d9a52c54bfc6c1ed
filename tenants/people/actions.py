"""Everything that an admin does with people: inviting, changing, disabling, resetting."""

from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils.translation import gettext as _

from portal import live
from portal.errors import FieldError, Refused
from tenants import policy
from tenants.audit.record import record
from tenants.models import ApiToken, Team, Tenant, User
from tenants.people import passwords
from tenants.people.models import Session


def refuse(field: str, code: str, text: str) -> NoReturn:
    """
    Raises:
        Refused: with this one thing wrong.
    """
    raise Refused([FieldError(field, code, text)])


def _check_may(by: User | None) -> None:
    """Homeport itself, and whoever has the command line of its server, is nobody and may."""
    if by is not None:
        policy.require(by, "administer")


# Invited and has not come yet: there is neither a password nor a first time.
NOT_JOINED = Q(password__startswith="!", last_login=None)


@transaction.atomic
def invite(*, by: User | None, given: Mapping[str, Any]) -> tuple[User, passwords.JoinLink]:
    """A new person, and the link by which they set a password and join.

    Args:
        by: None: whoever has the command line of the server.
        given: as `InvitationBody` has read it.

    Raises:
        PermissionDenied: not an admin.
        Refused: somebody has this user name.
    """
    _check_may(by)
    if User.objects.filter(username__iexact=given["username"]).exists():
        refuse("username", "name_taken", _("This user name is taken; choose another one."))
    person = User(**given)
    person.set_unusable_password()
    person.save(force_insert=True)
    link = passwords.link_for(person)
    detail = {"role": person.role} | ({"team": person.team.name} if person.team else {})
    record(by=by, verb="invite", target=person, detail=detail)
    tell(person)
    return person, link


@transaction.atomic
def change(*, by: User | None, person: User, changes: Mapping[str, Any]) -> User:
    """Changes any of first_name, last_name, email, role, team, is_active; one audit row for all.

    Who is disabled is out at once: no session, no token; sockets and gates find it out within half
    a minute. The tenant of somebody who changes team goes along. Who leaves a team does not lead it
    any more.

    Args:
        by: None: what the OpenID Connect provider said decides.

    Returns:
        The person as they are now.

    Raises:
        PermissionDenied: not an admin.
        Refused: the last admin would be lost, or one would lock oneself out.
    """
    _check_may(by)
    # Admins are locked first and in one order, so that two who demote each other take turns.
    admins = policy.admins(User.objects.all()).order_by("pk").select_for_update()
    list(admins.values_list("pk", flat=True))
    person = User.objects.select_for_update().get(pk=person.pk)
    news = {name: value for name, value in changes.items() if getattr(person, name) != value}
    if not news:
        return person
    before = {name: _shown(getattr(person, name)) for name in news}
    _keep_an_admin(by, person, news)
    left = person.team if "team" in news else None
    for name, value in news.items():
        setattr(person, name, value)
    person.save(update_fields=list(news))
    after = {name: _shown(value) for name, value in news.items()}
    # "disabled" and "enabled" say it all.
    told = set(news) != {"is_active"}
    detail: dict[str, Any] = {"before": before, "after": after} if told else {}
    if news.get("is_active") is False:
        detail["ended"] = _shut_out(person)
    if "role" in news and not policy.makes_admin(news["role"]):
        ApiToken.objects.filter(user=person, scope=ApiToken.Scope.ADMIN).delete()
    if "team" in news:
        detail |= _move(person, left)
    record(by=by, verb=_verb(news), target=person, detail=detail)
    tell(person)
    return person


def _verb(news: Mapping[str, Any]) -> str:
    if set(news) == {"is_active"}:
        return "enable" if news["is_active"] else "disable"
    return "change"


def _shown(value: Any) -> Any:
    return value.name if isinstance(value, Team) else value


def joined_admins() -> QuerySet[User]:
    """Admins who can sign in."""
    return policy.admins(User.objects.filter(is_active=True)).exclude(NOT_JOINED)


def _keep_an_admin(by: User | None, person: User, news: Mapping[str, Any]) -> None:
    """Refuses what would leave Homeport without anybody who can put it right again."""
    if by is not None and person.pk == by.pk and news.get("is_active") is False:
        text = _("You cannot disable yourself; another admin can.")
        refuse("is_active", "own_account", text)
    stays = policy.makes_admin(news.get("role", person.role))
    is_lost = news.get("is_active") is False or not stays
    if not policy.makes_admin(person.role) or not is_lost:
        return
    if not joined_admins().exclude(pk=person.pk).exists():
        text = _("This is the last admin. Make somebody else an admin first.")
        refuse("is_active" if "is_active" in news else "role", "last_admin", text)


def _shut_out(person: User) -> dict[str, int]:
    """Ends sessions and tokens; how many there were."""
    sessions, _rows = Session.objects.filter(user=person).delete()
    tokens, _rows = ApiToken.objects.filter(user=person).delete()
    return {"sessions": sessions, "tokens": tokens}


def _move(person: User, left: Team | None) -> dict[str, Any]:
    """The tenant goes along to the new team; roles in the old one end."""
    detail: dict[str, Any] = {}
    if left is not None:
        for role in policy.TEAM_ROLES.values():
            had = getattr(Team, role.field).through.objects.filter(team=left, user=person)
            if had.delete()[0]:
                detail[role.left] = left.name
    tenants = Tenant.objects.existing().filter(owner=person)
    for pk, namespace in tenants.values_list("pk", "namespace"):
        tenants.filter(pk=pk).update(team=person.team, revision=F("revision") + 1)
        detail["namespace"] = namespace
        revision = tenants.values_list("revision", flat=True).get(pk=pk)
        transaction.on_commit(partial(live.changed, "tenant", pk, revision, pk))
    return detail


@transaction.atomic
def reset(*, by: User | None, person: User, revoke_tokens: bool = False) -> passwords.JoinLink:
    """Takes the password away, ends all sessions; the link sets a new one.

    Also makes a new link for somebody who was invited and lost theirs.

    Raises:
        PermissionDenied: not an admin.
        Refused: oneself, or somebody who is disabled.
    """
    _check_may(by)
    person = User.objects.select_for_update().get(pk=person.pk)
    if by is not None and by.pk == person.pk:
        text = _("Change your own password on your account page.")
        refuse("", "own_account", text)
    if not person.is_active:
        refuse("", "disabled", _("This person is disabled. Enable them first."))
    person.set_unusable_password()
    person.save(update_fields=["password"])
    link = passwords.link_for(person)
    detail = {"sessions": Session.objects.filter(user=person).delete()[0]}
    if revoke_tokens:
        detail["tokens"] = ApiToken.objects.filter(user=person).delete()[0]
    record(by=by, verb="reset", target=person, detail={"ended": detail})
    tell(person)
    return link


def tell(person: User) -> None:
    """After the commit: pages of admins read again, the reconciler looks whose services may run."""
    pk = person.pk

    def send() -> None:
        live.wake_reconciler()
        live.changed("person", pk, 0, "")

    transaction.on_commit(send)
