# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""Tickets, which the portal writes, and cookies, which the gate writes: signed, bound, short.

Both are `payload.signature`, base64url without padding: JSON, and its HMAC-SHA256. A ticket is good
once, for a minute, from the portal to one gate; a cookie for hours, from a browser to that gate.
Both name the service, its start and the person. They are signed by keys that differ, so that
neither passes for the other. What a gate makes of them is its own affair.
"""

import base64
import hashlib
import hmac
import json
import math
from typing import Any, Dict, NamedTuple, Optional

TICKET_S = 60.0
COOKIE_S = 12 * 3600.0
MAX_CHARS = 2048


class Claims(NamedTuple):
    """What a good signature vouches for. Times are seconds since 1970."""

    service_id: str
    subject: str
    start: int
    issued_at: float
    expires_at: float
    identity: str = ""  # `jti`, of tickets only


def cookie_key(ticket_key: bytes) -> bytes:
    """By which the gate signs cookies, made of the key that it shares with the portal."""
    return hmac.new(ticket_key, b"homeport gate cookie", hashlib.sha256).digest()


def write(claims: Claims, key: bytes) -> str:
    """The claims, signed."""
    fields: Dict[str, Any] = {"aud": claims.service_id, "sub": claims.subject}
    if claims.identity:
        fields["jti"] = claims.identity
    fields.update(iat=claims.issued_at, exp=claims.expires_at, start=claims.start)
    payload = encode(json.dumps(fields, separators=(",", ":")).encode())
    return f"{payload}.{_signature(payload, key)}"


def read(text: str, key: bytes) -> Optional[Claims]:
    """What was signed by this key; None for anything else. Times, service and start may be any."""
    payload, _, signature = text.partition(".")
    try:
        text.encode("ascii")  # else it cannot be compared
        is_ours = hmac.compare_digest(_signature(payload, key), signature)
        if len(text) > MAX_CHARS or not is_ours:
            return None
        fields: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        found = Claims(
            service_id=str(fields["aud"]),
            subject=str(fields["sub"]),
            start=int(fields["start"]),
            issued_at=float(fields["iat"]),
            expires_at=float(fields["exp"]),
            identity=str(fields.get("jti", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    if not (math.isfinite(found.issued_at) and math.isfinite(found.expires_at)):
        return None
    return found


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _signature(payload: str, key: bytes) -> str:
    return encode(hmac.new(key, payload.encode(), hashlib.sha256).digest())
