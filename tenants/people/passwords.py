"""Passwords and the links by which they are set: join links and resets.

No mail server is assumed: whoever invites hands the link over. A link works once (setting the
password changes what it is signed with), for three days, and a new one makes older ones useless.
"""

import base64
from binascii import Error as Base64Error
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.db import transaction
from django.utils import timezone

from tenants.audit.record import record
from tenants.models import ApiToken, User
from tenants.people.models import Session


class _LinkTokens(PasswordResetTokenGenerator):
    key_salt = "homeport.join"


_tokens = _LinkTokens()


@dataclass(frozen=True)
class JoinLink:
    """`key` goes into the address of the page that sets the password."""

    key: str
    expires_at: datetime


def link_for(person: User) -> JoinLink:
    """The one link by which somebody whose password was taken away sets a new one."""
    identity = base64.urlsafe_b64encode(person.pk.bytes).decode().rstrip("=")
    lifetime = timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
    return JoinLink(f"{identity}-{_tokens.make_token(person)}", timezone.now() + lifetime)


def find_person(key: str) -> User | None:
    """Whose link this is; None when it was used, is too old, or the person is disabled."""
    try:
        person_id = UUID(bytes=base64.urlsafe_b64decode(key[:22] + "=="))
    except (Base64Error, ValueError):
        return None
    person = User.objects.filter(pk=person_id, is_active=True).first()
    if person is None or not _tokens.check_token(person, key[23:]):
        return None
    return person


@transaction.atomic
def set_by_link(*, key: str, password: str) -> User | None:
    """Sets the password; None when somebody was quicker with the same link."""
    found = find_person(key)
    if found is None:
        return None
    person = User.objects.select_for_update().get(pk=found.pk)
    if find_person(key) is None:
        return None
    person.set_password(password)
    person.save(update_fields=["password"])
    Session.objects.filter(user=person).delete()
    return person


@transaction.atomic
def change(request: Any, *, password: str, revoke_tokens: bool) -> None:
    """Sets the own password; all browsers but this one are signed out.

    Args:
        revoke_tokens: API tokens end too, as who knew the password may have made one.
    """
    user = User.objects.select_for_update().get(pk=request.user.pk)
    user.set_password(password)
    user.save(update_fields=["password"])
    auth.update_session_auth_hash(request, user)  # a new key for this session
    others = Session.objects.filter(user=user).exclude(session_key=request.session.session_key)
    count, _rows = others.delete()
    detail = {"sessions ended": count}
    if revoke_tokens:
        detail["tokens revoked"] = ApiToken.objects.filter(user=user).delete()[0]
    record(by=user, verb="password", target=user, detail=detail)
