"""Slows guessing of passwords down: per user name and address, and per address.

Counts lie in the database, so they hold for all processes and survive a restart. A try is counted
before the password is looked at, so a burst of tries at once is counted too; one that succeeds is
taken back. Names are counted as they were typed, whether somebody has them or not: the answer tells
nothing about who exists. A name alone is never locked, or anybody could lock anybody out.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv6Address, ip_address

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import ngettext

from portal.errors import Refused
from tenants.audit.record import SOMEBODY, UNKNOWN_PERSON, record
from tenants.models import AuditEntry, User
from tenants.people.models import SignInCount

WINDOW = timedelta(minutes=10)
MAX_PER_PAIR = 10  # of one user name from one address in a window
MAX_PER_ADDRESS = 100  # people behind one address share it


@dataclass(frozen=True)
class SignInAttempt:
    """One try to sign in.

    Attributes:
        is_last: if this one fails, the next has to wait.
    """

    name: str
    address: str
    is_last: bool


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _network(address: str) -> str:
    """IPv6 hands out a /64 at a time, so that much counts as one address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return parsed.exploded[:19]
    return address


def _keys(name: str, address: str) -> dict[str, int]:
    """Key -> most tries. In this order everywhere, so that two tries never wait for each other."""
    network = _network(address)
    return {
        _digest(f"address:{network}"): MAX_PER_ADDRESS,
        _digest(f"pair:{name.strip().casefold()}|{network}"): MAX_PER_PAIR,
    }


def begin(*, name: str, address: str) -> SignInAttempt:
    """Counts a try.

    Raises:
        Refused: there were too many (429).
    """
    is_last, wait_s = _count(_keys(name, address))
    if wait_s:
        minutes = -(-wait_s // 60)
        text = ngettext(
            "Too many attempts with a wrong name or password. Try again in %(minutes)s minute.",
            "Too many attempts with a wrong name or password. Try again in %(minutes)s minutes.",
            minutes,
        )
        raise Refused(text % {"minutes": minutes}, "throttled", 429, retry_after_s=wait_s)
    return SignInAttempt(name, address, is_last)


@transaction.atomic
def _count(keys: Mapping[str, int]) -> tuple[bool, int]:
    """Whether this try is the last one for now; seconds until there may be one, if there were too many."""
    now = timezone.now()
    rows = []
    wait_s = 0
    for key, most in keys.items():
        SignInCount.objects.get_or_create(key=key, defaults={"since": now})
        row = SignInCount.objects.select_for_update().get(key=key)
        if now - row.since >= WINDOW:
            row.count, row.since = 0, now
        rows.append((row, most))
        if row.count >= most:
            wait_s = max(wait_s, int((row.since + WINDOW - now).total_seconds()) + 1)
    if wait_s:
        return False, wait_s
    for row, _most in rows:
        row.count += 1
        row.save()
    return any(row.count >= most for row, most in rows), 0


def take_back(tried: SignInAttempt) -> None:
    """Takes the try back: somebody who knows the password is not guessing it."""
    address, pair = _keys(tried.name, tried.address)
    SignInCount.objects.filter(key=pair).delete()
    SignInCount.objects.filter(key=address, count__gt=0).update(count=F("count") - 1)
    # Old counts go here: what has ended says nothing any more.
    SignInCount.objects.filter(since__lt=timezone.now() - WINDOW).delete()


def record_failure(tried: SignInAttempt) -> None:
    """One row in the audit trail; it says so when this was the last try for now.

    A name that nobody has is not written down: it may be a password in the wrong field.
    """
    found = User.objects.filter(username=tried.name).first()
    detail = {} if found else {"name": "nobody has this name"}
    if tried.is_last:
        detail["locked"] = f"for at most {int(WINDOW.total_seconds()) // 60} minutes"
    record(
        by=SOMEBODY,
        verb="sign-in",
        target=found or UNKNOWN_PERSON,
        result=AuditEntry.Result.REFUSED,
        detail=detail,
    )
