"""Requests that may be sent again: one with an `Idempotency-Key` is carried out once, however often it comes.

The first one claims its key; what it did and that it did it are committed together, so a process that
dies in between has done nothing and left only a claim, which the next one takes over. After the
draft of the IETF: https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
"""

import hashlib
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from django.db import DatabaseError
from django.db.models import Q
from django.http import Http404
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import IdempotentRequest
from portal.errors import FieldError, Refused
from tenants.models import User

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
KEPT = timedelta(hours=24)
MOST_KEPT = 1000  # of one person; the oldest go
# A claim without an answer is of a request that is still worked on, or of a process that died. Taking
# over a living one is harmless: it finds that out when it commits, and does nothing.
_CLAIMED = timedelta(seconds=60)
_ASK_AGAIN_S = 1

PARAMETER = OpenApiParameter(
    HEADER,
    location=OpenApiParameter.HEADER,
    description="1 to 255 printable characters: sent again within 24 h, the same request is carried "
    f"out once, and answered with what it created, as it is now, and `{REPLAYED}: true`",
)


@dataclass(frozen=True)
class _Claim:
    """This process's right to carry out a request; worth nothing once another one has taken it over."""

    row: Q
    token: UUID

    def keep(self, status: int, created_id: UUID) -> None:
        """Keeps how it is answered; called in the transaction of what was asked for.

        Raises:
            Refused: 409, another process has taken the request over; the transaction must end.
        """
        rows = IdempotentRequest.objects.filter(self.row, claim=self.token, status=None)
        if not rows.update(status=status, created_id=created_id):
            raise _in_progress()

    def give_up(self) -> None:
        """Nothing was done: the request may be sent again under its key, changed or not."""
        IdempotentRequest.objects.filter(self.row, claim=self.token, status=None).delete()


Keep = Callable[[int, UUID], None]


def answered(
    request: Request,
    by: User,
    body: object,
    act: Callable[[Keep], Response],
    show: Callable[[UUID], object],
) -> Response:
    """The answer of `act`, or what the first request with the same key created, as it is now.

    Args:
        by: whose keys they are; those of two people never meet.
        body: what was asked for, as JSON; a key is for one body only.
        act: carries the request out. It calls what it is given with the status of its answer and the
            id of what it creates, in the transaction of what it does.
        show: the data of an answer about what has this id. It raises Http404 when that is gone.

    Raises:
        Refused: what `act` raises; 400, the key is no key; 422, it belongs to another request; 409,
            the first request is still worked on; 404, what it created has been deleted.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return act(lambda _status, _created_id: None)
    if not re.fullmatch(r"[\x21-\x7e]{1,255}", key):
        text = f"{HEADER} has 1 to 255 printable characters without spaces."
        raise Refused([FieldError(HEADER, "invalid", text)])
    asked = json.dumps([request.method, request.path, body], sort_keys=True)
    found = _claim(by, key, hashlib.sha256(asked.encode()).hexdigest())
    if isinstance(found, IdempotentRequest):
        return Response(_shown(found, show), status=found.status, headers={REPLAYED: "true"})
    try:
        return act(found.keep)
    except BaseException:
        with suppress(DatabaseError):  # which may be why; the claim is taken over then
            found.give_up()
        raise


def _shown(found: IdempotentRequest, show: Callable[[UUID], object]) -> object:
    assert found.created_id is not None  # it is answered
    try:
        return show(found.created_id)
    except Http404 as error:
        text = "This request was carried out, and what it created has been deleted since."
        step = f"Send it with another {HEADER} to create it again."
        raise Refused(text, "not_found", 404, next_step=step) from error


def _claim(by: User, key: str, sha256: str) -> _Claim | IdempotentRequest:
    """A claim on a request that is new or was left behind, else the one that has its answer.

    Raises:
        Refused: 422 or 409, see `answered`.
    """
    now, token = timezone.now(), uuid4()
    values = {"request_sha256": sha256, "claim": token, "claimed_at": now, "created_at": now}
    mine = Q(user=by, key=key)
    IdempotentRequest.objects.filter(mine, created_at__lt=now - KEPT).delete()
    row, is_new = IdempotentRequest.objects.get_or_create(user=by, key=key, defaults=values)
    if is_new:
        _forget_oldest(by)
        return _Claim(mine, token)
    if row.request_sha256 != sha256:
        text = f"This {HEADER} was sent with another request; use a new one."
        raise Refused([FieldError(HEADER, "key_reused", text)], status=422)
    if row.status is not None:
        return row
    left = IdempotentRequest.objects.filter(mine, claim=row.claim, status=None)
    if row.claimed_at > now - _CLAIMED or not left.update(claim=token, claimed_at=now):
        raise _in_progress()
    return _Claim(mine, token)


def _forget_oldest(by: User) -> None:
    """Makes room for one more answer."""
    done = IdempotentRequest.objects.filter(user=by, status__isnull=False)
    newest_first = done.order_by("-created_at", "-pk").values_list("pk", flat=True)
    if too_many := list(newest_first[MOST_KEPT - 1 :]):
        IdempotentRequest.objects.filter(pk__in=too_many).delete()


def _in_progress() -> Refused:
    text = "The first request with this key is still worked on. Send it again for its answer."
    return Refused(text, "in_progress", 409, retry_after_s=_ASK_AGAIN_S)
