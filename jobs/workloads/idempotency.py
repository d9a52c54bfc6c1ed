"""Requests that may be sent again: one with an `Idempotency-Key` is carried out once, however often it comes.

The first one claims its key; what it did and its answer are committed together, so a process that
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
from typing import Any
from uuid import UUID, uuid4

from django.db import DatabaseError
from django.db.models import Q
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import IdempotentRequest
from portal.errors import FieldError, Refused
from tenants.models import User

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
KEPT = timedelta(hours=24)
# A claim without an answer is of a request that is still worked on, or of a process that died. Taking
# over a living one is harmless: it finds that out when it commits, and does nothing.
_CLAIMED = timedelta(seconds=60)
_ASK_AGAIN_S = 1

PARAMETER = OpenApiParameter(
    HEADER,
    location=OpenApiParameter.HEADER,
    description="1 to 255 printable characters: sent again within 24 h, the same request is answered "
    f"as the first was, with `{REPLAYED}: true`, and carried out once",
)


@dataclass(frozen=True)
class _Claim:
    """This process's right to carry out a request; worth nothing once another one has taken it over."""

    row: Q
    token: UUID

    def keep(self, status: int, data: Any) -> None:
        """Keeps the answer; called in the transaction of what was asked for.

        Raises:
            Refused: 409, another process has taken the request over; the transaction must end.
        """
        answer = json.loads(JSONRenderer().render(data))
        rows = IdempotentRequest.objects.filter(self.row, claim=self.token, status=None)
        if not rows.update(status=status, answer=answer):
            raise _in_progress()

    def give_up(self) -> None:
        """Nothing was done: the request may be sent again under its key, changed or not."""
        IdempotentRequest.objects.filter(self.row, claim=self.token, status=None).delete()


Keep = Callable[[int, Any], None]


def answered(request: Request, by: User, body: object, act: Callable[[Keep], Response]) -> Response:
    """The answer of `act`, or that of the first request with the same key.

    Args:
        by: whose keys they are; those of two people never meet.
        body: what was asked for, as JSON; a key is for one body only.
        act: carries the request out. It calls what it is given with status and data of its answer, in
            the transaction of what it does.

    Raises:
        Refused: what `act` raises; 400, the key is no key; 422, it belongs to another request; 409,
            the first request is still worked on.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return act(lambda _status, _data: None)
    if not re.fullmatch(r"[\x21-\x7e]{1,255}", key):
        text = f"{HEADER} has 1 to 255 printable characters without spaces."
        raise Refused([FieldError(HEADER, "invalid", text)])
    asked = json.dumps([request.method, request.path, body], sort_keys=True)
    found = _claim(by, key, hashlib.sha256(asked.encode()).hexdigest())
    if isinstance(found, IdempotentRequest):
        return Response(found.answer, status=found.status, headers={REPLAYED: "true"})
    try:
        return act(found.keep)
    except BaseException:
        with suppress(DatabaseError):  # which may be why; the claim is taken over then
            found.give_up()
        raise


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


def _in_progress() -> Refused:
    text = "The first request with this key is still worked on. Send it again for its answer."
    return Refused(text, "in_progress", 409, retry_after_s=_ASK_AGAIN_S)
