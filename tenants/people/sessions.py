"""Browsers that are signed in: beginning a session, when it was last seen, listing and ending it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib import auth
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from portal.web.refusals import if_there_is_room
from portal.web.rest import source_address
from tenants.actions import on_sign_in
from tenants.audit.record import record
from tenants.models import User
from tenants.people.devices import device_text
from tenants.people.models import Session, SessionStore

# Precise enough for "last seen", and keeps reads from writing.
PRECISION = timedelta(minutes=1)


def begin(request: Any, user: User, *, verb: str, how: str) -> None:
    """Signs the person in, in this browser; the first time there may be a namespace to make.

    Args:
        verb: of the audit row: `sign-in` or `join`.
        how: by what they proved who they are, for the audit row.
    """
    with transaction.atomic():
        auth.login(request, user)
        session: SessionStore = request.session
        agent = request.META.get("HTTP_USER_AGENT", "")
        session.remember_device(user_agent=agent, source_address=source_address(request))
        User.objects.filter(pk=user.pk).update(last_seen_at=timezone.now())
        record(by=user, verb=verb, target=user, detail={"with": how})
        on_sign_in(user=user)
    # Nothing else removes what has expired; there are a few rows a day.
    Session.objects.filter(expire_date__lt=timezone.now()).delete()


class LastSeenMiddleware:
    """Behind Django's authentication: notes once a minute that the person is there."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = self.get_response(request)
        # Only a session that was read has a row; who came with a token is seen elsewhere.
        row: Session | None = getattr(request.session, "row", None)
        now = timezone.now()
        if row is not None and row.user_id is not None and now - row.last_seen_at > PRECISION:
            with if_there_is_room():
                Session.objects.filter(pk=row.pk).update(last_seen_at=now)
                User.objects.filter(pk=row.user_id).update(last_seen_at=now)
        return answer


def existing(user: User) -> QuerySet[Session]:
    """The person's sessions, the latest first."""
    return user.sessions.filter(expire_date__gt=timezone.now()).order_by("-last_seen_at", "pk")


@transaction.atomic
def end(*, by: User, session: Session) -> None:
    """Ends one of the person's own sessions; its next request is asked to sign in."""
    # The session's key must not get into the trail, so the row is about its person.
    detail = {"browser": device_text(session.user_agent), "address": session.source_address}
    record(by=by, verb="end-session", target=by, detail=detail)
    Session.objects.filter(user=by, id=session.id).delete()


@transaction.atomic
def end_others(*, by: User, but: str) -> int:
    """Ends all of the person's sessions but one.

    Args:
        but: the key of the session that goes on.

    Returns:
        How many there were.
    """
    others = Session.objects.filter(user=by).exclude(session_key=but)
    count, _rows = others.delete()
    detail = {"sessions": count}
    record(by=by, verb="end-sessions", target=by, detail=detail)
    return count
