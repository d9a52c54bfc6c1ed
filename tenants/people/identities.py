"""Who comes from an OpenID Connect provider is whom here: accounts made, joined and refused."""

import re
import unicodedata
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from portal import characters
from portal.errors import Refused
from tenants import policy
from tenants.audit.record import record
from tenants.models import User
from tenants.people import actions
from tenants.people.serializers import RESERVED_NAMES


def find_or_create(person: User | None, *, claims: dict[str, Any], provider: str) -> User:
    """The person to sign in: the known one, or a new one at the first time.

    Raises:
        Refused: disabled, not in the group that may come, or the user name or e-mail
            address is that of an account which has not been connected.
    """
    groups = _groups(claims)
    if settings.OIDC_ALLOWED_GROUP and settings.OIDC_ALLOWED_GROUP not in groups:
        text = _("Your account of %(name)s may not use Homeport. Ask your admin.")
        raise Refused(text % {"name": settings.OIDC_NAME}, "not_allowed")
    if person is not None and not person.is_active:
        raise Refused(_("This account is disabled. Ask your admin."), "disabled")
    with transaction.atomic():
        if person is None:
            person = _make(claims, provider)
        if settings.OIDC_ADMIN_GROUP:
            role = policy.account_role(of_admin=settings.OIDC_ADMIN_GROUP in groups)
            person = _follow(person, role=role)
    return person


def _groups(claims: dict[str, Any]) -> list[str]:
    found = claims.get(settings.OIDC_GROUPS_CLAIM)
    if isinstance(found, str):
        return [found]
    return [str(group) for group in found] if isinstance(found, list) else []


def _follow(person: User, *, role: str) -> User:
    """The provider's group decides on the role; the last admin stays one, whatever it says."""
    try:
        return actions.change(by=None, person=person, changes={"role": role})
    except Refused:
        return person


def _make(claims: dict[str, Any], provider: str) -> User:
    name = user_name(claims)
    email = _email(claims)
    taken = User.objects.filter(username__iexact=name).exists()
    if taken or (email and User.objects.filter(email__iexact=email).exists()):
        text = _(
            "This user name or e-mail address is taken. If it is yours, sign in with your "
            "password and connect %(name)s on your account page; otherwise ask your admin."
        )
        raise Refused(text % {"name": settings.OIDC_NAME}, "name_taken")
    person = User(
        username=name,
        email=email,
        first_name=_text(claims, "given_name"),
        last_name=_text(claims, "family_name"),
    )
    person.set_unusable_password()
    try:
        with transaction.atomic():
            person.save(force_insert=True)
            SocialAccount.objects.create(user=person, provider=provider, uid=claims["sub"])
    except IntegrityError as error:
        text = _("You are signing in twice at the same time. Try again.")
        raise Refused(text, "busy") from error
    detail = {"from": settings.OIDC_NAME}
    record(by=None, verb="create", target=person, detail=detail)
    actions.tell(person)
    return person


def user_name(claims: dict[str, Any]) -> str:
    """A user name out of what the provider says: its own, the front of the e-mail address, or a
    part of the subject."""
    for said in (claims.get("preferred_username"), claims.get("email"), claims["sub"]):
        said_name = str(said or "").partition("@")[0]
        # The alphabet of user names (UnicodeUsernameValidator), in the form that they are kept in.
        name = re.sub(r"[^\w.+-]", "-", unicodedata.normalize("NFKC", said_name)).strip("-.")[:60]
        if name and name.lower() not in RESERVED_NAMES and characters.is_one_script(name):
            return name
    return "person"


def _text(claims: dict[str, Any], key: str) -> str:
    found = claims.get(key)
    return characters.replace_hidden(found, "")[:150] if isinstance(found, str) else ""


def _email(claims: dict[str, Any]) -> str:
    found = claims.get("email")
    if not isinstance(found, str) or len(found) > 254:
        return ""
    try:
        validate_email(found)
    except ValidationError:
        return ""
    return found


@transaction.atomic
def connect(person: User, *, provider: str, subject: str) -> None:
    """From now on the person can sign in by the provider as well."""
    SocialAccount.objects.create(user=person, provider=provider, uid=subject)
    detail = {"with": settings.OIDC_NAME}
    record(by=person, verb="connect", target=person, detail=detail)
