"""Tickets, which the portal writes, and cookies, which the gate writes: signed, bound, short.

Both are `payload.signature`, base64url without padding: JSON, and its HMAC-SHA256. A ticket is good
once, for a minute, from the portal to this gate; a cookie for hours, from a browser to this gate.
Both name the service, its start and the person. They are signed by keys that differ, so that
neither passes for the other.
"""

import base64
import binascii
import hashlib
import hmac
import json
import math
from dataclasses import dataclass
from typing import Any

TICKET_MAX_S = 60.0
COOKIE_MAX_S = 12 * 3600.0
MAX_CHARS = 2048
# A ticket from the future: the clock of the portal may run a little ahead.
SKEW_S = 5.0


class RefusedError(Exception):
    """A ticket or cookie is worth nothing; code and sentence say why."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Pass:
    """What a good signature vouches for. Times are seconds since 1970."""

    service_id: str
    subject: str
    start: int
    issued_at: float
    expires_at: float
    identity: str = ""  # `jti`, of tickets only


@dataclass(frozen=True)
class Signer:
    """Signs and reads the passes of one start of one service."""

    service_id: str
    start: int
    ticket_key: bytes

    def read_ticket(self, text: str) -> Pass:
        """The ticket, if the portal wrote it for this start of this service; not its times.

        Raises:
            RefusedError: it did not.
        """
        found = self._read(text, self.ticket_key)
        if not found.identity:
            raise RefusedError("ticket_invalid", "The link is not one of Homeport's.")
        return found

    def read_cookie(self, text: str) -> Pass:
        """The cookie, if this gate wrote it, before or after a restart; not its times.

        Raises:
            RefusedError: it did not.
        """
        return self._read(text, self._cookie_key)

    def write_cookie(self, subject: str, now: float) -> str:
        fields = {
            "aud": self.service_id,
            "sub": subject,
            "iat": round(now, 3),
            "exp": round(now + COOKIE_MAX_S, 3),
            "start": self.start,
        }
        payload = encode(json.dumps(fields, separators=(",", ":")).encode())
        return f"{payload}.{_signature(payload, self._cookie_key)}"

    @property
    def _cookie_key(self) -> bytes:
        return hmac.digest(self.ticket_key, b"homeport gate cookie", hashlib.sha256)

    def _read(self, text: str, key: bytes) -> Pass:
        payload, _, signature = text.partition(".")
        if len(text) > MAX_CHARS or not text.isascii():
            raise RefusedError("ticket_invalid", "The link is not one of Homeport's.")
        if not hmac.compare_digest(_signature(payload, key), signature):
            raise RefusedError(
                "ticket_invalid", "The link is not one of Homeport's, or of an earlier start."
            )
        found = _parse(payload)
        if found.service_id != self.service_id:
            raise RefusedError("ticket_foreign", "The link belongs to something else.")
        if found.start != self.start:
            raise RefusedError("ticket_of_earlier_start", "The link is of an earlier start.")
        return found


def check_ticket_times(ticket: Pass, *, now: float, began_at: float) -> None:
    """A ticket is good for a minute, and only for the process that can remember it.

    Raises:
        RefusedError: it is too old, from the future, or older than this process.
    """
    if now >= min(ticket.expires_at, ticket.issued_at + TICKET_MAX_S):
        raise RefusedError("ticket_expired", "The link was good for one minute, which is over.")
    if ticket.issued_at > now + SKEW_S:
        raise RefusedError("ticket_invalid", "The link is from the future.")
    if ticket.issued_at < began_at:
        raise RefusedError("ticket_expired", "The link is older than what it leads to.")


def is_cookie_fresh(cookie: Pass, *, now: float) -> bool:
    return now < min(cookie.expires_at, cookie.issued_at + COOKIE_MAX_S)


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _signature(payload: str, key: bytes) -> str:
    return encode(hmac.digest(key, payload.encode(), hashlib.sha256))


def _parse(payload: str) -> Pass:
    """The fields of a payload whose signature is good."""
    try:
        fields: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        found = Pass(
            service_id=str(fields["aud"]),
            subject=str(fields["sub"]),
            start=int(fields["start"]),
            issued_at=float(fields["iat"]),
            expires_at=float(fields["exp"]),
            identity=str(fields.get("jti", "")),
        )
    except (
        binascii.Error,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
    ) as error:
        raise RefusedError("ticket_invalid", "The link is not one of Homeport's.") from error
    if not (math.isfinite(found.issued_at) and math.isfinite(found.expires_at)):
        raise RefusedError("ticket_invalid", "The link is not one of Homeport's.")
    return found
