"""What is removed automatically, and when: applied nightly by the reconciler, or by `manage.py prune`.

Each kind of row has its time in one table; docs/operations.md lists the same. What people made stays
until they delete it, but for uploads that nothing uses, and for trainings where RETENTION_DAYS is set.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from jobs import pruning, uploads
from jobs.models import IdempotentRequest, Workload
from jobs.usage.measured import HOURS_KEPT
from jobs.usage.models import UsageHour
from tenants.models import ApiToken, AuditEntry
from tenants.people.models import Session, SignInCount

_TOKENS_DAYS = 30  # after the end of a token its name still says what it was
_COUNTS_DAYS = 1
_REQUESTS_DAYS = 1
_BATCH = 1000


@dataclass(frozen=True)
class Pruned:
    """What of one kind went, or would go."""

    what: str
    count: int
    size_bytes: int = 0


def prune(*, is_dry: bool = False, now: datetime | None = None) -> list[Pruned]:
    """Removes what is past its time. Repeating it is harmless.

    Args:
        is_dry: only counts.
        now: another time than the present one.
    """
    at = now or timezone.now()
    return [rule(at, is_dry) for rule in _RULES]


def _trainings(now: datetime, is_dry: bool) -> Pruned:
    """Deletes them as people do: the reconciler removes what they hold."""
    days = settings.RETENTION_DAYS
    rows = pruning.finished(now - timedelta(days=days)) if days else Workload.objects.none()
    held = pruning.holdings(rows)
    count, size_bytes = held.count, held.size_bytes
    if not is_dry:
        count = size_bytes = 0
        detail = {"older_than": f"{days}d"}
        while (done := pruning.delete(rows, by=None, detail=detail)[1]).count:
            count, size_bytes = count + done.count, size_bytes + done.size_bytes
    return Pruned("finished trainings", count, size_bytes)


def _uploads(now: datetime, is_dry: bool) -> Pruned:
    found = uploads.unused(now)
    if not is_dry:
        for bundle in found:
            uploads.remove_unused(bundle)
    return Pruned("uploads", len(found), sum(bundle.size_bytes for bundle in found))


def _removed(old: QuerySet[Any], is_dry: bool) -> int:
    """How many there are; all are gone then, and no transaction was a long one."""
    count = old.count()
    while not is_dry and (pks := list(old.order_by("pk").values_list("pk", flat=True)[:_BATCH])):
        # The trail's own `delete` refuses: nobody but its age ends a row.
        rows = old.filter(pk__in=pks)
        rows._raw_delete(rows.db)
    return count


def _audit(now: datetime, is_dry: bool) -> Pruned:
    days = settings.AUDIT_KEEP_DAYS
    before = now - timedelta(days=days)
    old = AuditEntry.objects.filter(at__lt=before) if days else AuditEntry.objects.none()
    return Pruned("audit entries", _removed(old, is_dry))


def _tokens(now: datetime, is_dry: bool) -> Pruned:
    old = ApiToken.objects.filter(expires_at__lt=now - timedelta(days=_TOKENS_DAYS))
    return Pruned("expired API tokens", old.count() if is_dry else old.delete()[0])


def _sessions(now: datetime, is_dry: bool) -> Pruned:
    old = Session.objects.filter(expire_date__lt=now)
    return Pruned("expired sessions", old.count() if is_dry else old.delete()[0])


def _sign_in_counts(now: datetime, is_dry: bool) -> Pruned:
    old = SignInCount.objects.filter(since__lt=now - timedelta(days=_COUNTS_DAYS))
    return Pruned("counts of tries to sign in", old.count() if is_dry else old.delete()[0])


def _requests(now: datetime, is_dry: bool) -> Pruned:
    old = IdempotentRequest.objects.filter(created_at__lt=now - timedelta(days=_REQUESTS_DAYS))
    return Pruned("keys of repeated requests", old.count() if is_dry else old.delete()[0])


def _usage(now: datetime, is_dry: bool) -> Pruned:
    """The minutes; what is summed up of them stays."""
    old = UsageHour.objects.filter(hour__lt=now - HOURS_KEPT)
    return Pruned("hours of measured use", _removed(old, is_dry))


_RULES: tuple[Callable[[datetime, bool], Pruned], ...] = (
    _trainings,
    _uploads,
    _audit,
    _tokens,
    _sessions,
    _sign_in_counts,
    _requests,
    _usage,
)
