"""Ends of what people may store and queue: refusals in words, counted in the database.

Counts are rows, so they hold over all processes and survive a restart. Stopping and deleting are
never limited: they are the way out.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Max, QuerySet, Sum
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.kinds.registry import KINDS
from jobs.models import Artifact, Bundle, LogSegment, Workload
from jobs.questions import DryRun
from portal.errors import FieldError, Refused
from portal.web.format import bytes_text
from tenants.models import AuditEntry, Tenant, User

_MINUTE = timedelta(minutes=1)
# Longer than one waits (WAIT_S of jobs/workloads/dry_run.py): whose process has died asks again after it.
_DRY_RUN_LIFE = timedelta(seconds=30)
_DRY_RUN_RETRY_S = 2
_SUBMITS = {kind.submit_verb for kind in KINDS.values()}


@dataclass(frozen=True)
class Stored:
    """Bytes of a namespace in the object store; uploads of the same content count once."""

    uploads_bytes: int
    logs_bytes: int
    artifacts_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.uploads_bytes + self.logs_bytes + self.artifacts_bytes

    @property
    def limit_bytes(self) -> int:
        """What the namespace may hold; 0: no limit."""
        return int(settings.STORE_MAX_BYTES_PER_TENANT)

    @property
    def arithmetic(self) -> str:
        """The sum in words."""
        amounts = {
            "uploads": bytes_text(self.uploads_bytes),
            "logs": bytes_text(self.logs_bytes),
            "files": bytes_text(self.artifacts_bytes),
            "total": bytes_text(self.total_bytes),
        }
        said = _(
            "%(uploads)s of uploads + %(logs)s of logs + %(files)s of output files = %(total)s"
        )
        return said % amounts


def stored_of(tenant_id: UUID) -> Stored:
    """What a namespace holds now; three queries."""
    contents = Bundle.objects.filter(tenant_id=tenant_id).values("sha256").order_by()
    uploads = contents.annotate(size=Max("size_bytes")).aggregate(total=Sum("size"))
    logs = LogSegment.objects.filter(archive__workload__tenant_id=tenant_id).order_by()
    kept = Artifact.objects.filter(workload__tenant_id=tenant_id, uploaded_at__isnull=False)
    return Stored(
        uploads["total"] or 0,
        logs.aggregate(total=Sum("size_bytes"))["total"] or 0,
        kept.order_by().aggregate(total=Sum("size_bytes"))["total"] or 0,
    )


def lacking_room(tenant_id: UUID, more_bytes: int) -> str:
    """Why so many bytes more are not kept, with the arithmetic; empty: there is room."""
    if not settings.STORE_MAX_BYTES_PER_TENANT:
        return ""
    stored = stored_of(tenant_id)
    if stored.total_bytes + more_bytes <= stored.limit_bytes:
        return ""
    said = _(
        "The namespace keeps %(arithmetic)s, and may keep %(limit)s; %(more)s more do not fit. "
        "Delete uploads or trainings that are no longer needed."
    )
    amounts = {"limit": bytes_text(stored.limit_bytes), "more": bytes_text(more_bytes)}
    return said % {"arithmetic": stored.arithmetic, **amounts}


def check_room(tenant: Tenant, more_bytes: int) -> None:
    """
    Raises:
        Refused: 413, with the arithmetic.
    """
    problem = lacking_room(tenant.pk, more_bytes)
    if problem:
        raise Refused([FieldError("file", "store_full", problem)], status=413)


def check_pace(by: User) -> None:
    """
    Raises:
        Refused: 429, this person has changed things too often within the last minute.
    """
    text = _("That is more than %(most)s changes in a minute. Try again in %(wait)s s.")
    rows = AuditEntry.objects.filter(actor=by)
    _check_minute(rows, settings.WRITES_PER_MINUTE, "too_many_writes", text)


def check_submits(by: User, tenant: Tenant) -> None:
    """One person, or one namespace, does not fill the queue.

    Raises:
        Refused: 429, this person has submitted too often within the last minute; 409, the namespace has
            as much in the queue as it may.
    """
    text = _(
        "That is more than %(most)s submits in a minute. Try again in %(wait)s s, or submit one "
        "training of the topology array for many runs."
    )
    rows = AuditEntry.objects.filter(actor=by, kind__in=KINDS, verb__in=_SUBMITS)
    _check_minute(rows, settings.SUBMITS_PER_MINUTE, "too_many_submits", text)
    most = settings.MAX_QUEUED
    if Workload.objects.filter(tenant=tenant).queued().count() >= most:
        text = _(
            "%(most)s of this namespace are queued, and no more may be. Wait until some have started, "
            "or stop those that are not needed."
        )
        raise Refused(text % {"most": most}, "queue_full", 409)


def check_dry_runs(by: User) -> None:
    """One person's questions to the cluster keep nobody else's waiting: counted apart from submits.

    Raises:
        Refused: 429, one of this person's is not answered yet, or there were too many within the last minute.
    """
    rows = DryRun.objects.filter(asked_by=by)
    if rows.filter(ended_at=None, asked_at__gte=timezone.now() - _DRY_RUN_LIFE).exists():
        text = _(
            "The cluster is still checking what you asked before. Try again when it has answered."
        )
        raise Refused(text, "too_many_dry_runs", 429, retry_after_s=_DRY_RUN_RETRY_S)
    text = _("That is more than %(most)s dry runs in a minute. Try again in %(wait)s s.")
    _check_times(rows, "asked_at", settings.SUBMITS_PER_MINUTE, "too_many_dry_runs", text)


def _check_minute(rows: QuerySet[AuditEntry], most: int, code: str, text: str) -> None:
    _check_times(rows.filter(result=AuditEntry.Result.DONE), "at", most, code, text)


def _check_times(rows: QuerySet[Any], when: str, most: int, code: str, text: str) -> None:
    since = timezone.now() - _MINUTE
    rows = rows.filter(**{f"{when}__gte": since})
    if rows.count() < most:
        return
    oldest = rows.order_by(when).values_list(when, flat=True).first()
    # There is none where none may be at all.
    left = _MINUTE if oldest is None else oldest - since
    wait_s = min(max(1, int(left.total_seconds()) + 1), int(_MINUTE.total_seconds()))
    text %= {"most": most, "wait": wait_s}
    raise Refused(text, code, 429, retry_after_s=wait_s)
