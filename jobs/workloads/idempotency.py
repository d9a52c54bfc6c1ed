"""Requests that may be sent again: one with an `Idempotency-Key` is carried out once, however often it comes.

What a request does and that its key did it are committed together. So a process that dies has done
nothing, and of two at once one is undone. After the draft of the IETF:
https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

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
_ASK_AGAIN_S = 1

PARAMETER = OpenApiParameter(
    HEADER,
    location=OpenApiParameter.HEADER,
    description="1 to 255 printable characters: sent again within 24 h, the same request is carried "
    f"out once, and answered with what it created, as it is now, and `{REPLAYED}: true`",
)

Keep = Callable[[int, UUID], None]


@dataclass(frozen=True)
class _Asked:
    """A person's key, and what it was sent with."""

    by: User
    key: str
    sha256: str

    def find(self) -> IdempotentRequest | None:
        """What was carried out under the key; None: nothing yet.

        Raises:
            Refused: 422, another request was.
        """
        mine = IdempotentRequest.objects.filter(user=self.by, key=self.key)
        mine.filter(created_at__lt=timezone.now() - KEPT).delete()
        found = mine.first()
        if found is not None and found.request_sha256 != self.sha256:
            text = f"This {HEADER} was sent with another request; use a new one."
            raise Refused([FieldError(HEADER, "key_reused", text)], status=422)
        return found

    def keep(self, status: int, created_id: UUID) -> None:
        """Keeps how it is answered; called in the transaction of what was asked for.

        Raises:
            Refused: 409, another one with the same key came first; the transaction must end.
        """
        values = {"request_sha256": self.sha256, "created_at": timezone.now()}
        values |= {"status": status, "created_id": created_id}
        rows = IdempotentRequest.objects
        # Of two at once the second waits here until the first is committed, or undone.
        _row, is_new = rows.get_or_create(user=self.by, key=self.key, defaults=values)
        if not is_new:
            text = "Another request with this key was carried out just now. Send it again for its answer."
            raise Refused(text, "in_progress", 409, retry_after_s=_ASK_AGAIN_S)
        newest_first = rows.filter(user=self.by).order_by("-created_at", "-pk")
        if too_many := list(newest_first.values_list("pk", flat=True)[MOST_KEPT:]):
            rows.filter(pk__in=too_many).delete()


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
            another one came first at the same moment; 404, what the first created has been deleted.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return act(lambda _status, _created_id: None)
    if not re.fullmatch(r"[\x21-\x7e]{1,255}", key):
        text = f"{HEADER} has 1 to 255 printable characters without spaces."
        raise Refused([FieldError(HEADER, "invalid", text)])
    said = json.dumps([request.method, request.path, body], sort_keys=True)
    asked = _Asked(by, key, hashlib.sha256(said.encode()).hexdigest())
    first = asked.find()
    if first is None:
        return act(asked.keep)
    return Response(_shown(first, show), status=first.status, headers={REPLAYED: "true"})


def _shown(found: IdempotentRequest, show: Callable[[UUID], object]) -> object:
    try:
        return show(found.created_id)
    except Http404 as error:
        text = "This request was carried out, and what it created has been deleted since."
        step = f"Send it with another {HEADER} to create it again."
        raise Refused(text, "not_found", 404, next_step=step) from error
