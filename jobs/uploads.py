"""Deletes uploads of code: on somebody's behalf, and by themselves when nothing uses them any more.

Uploads of the same bytes by one namespace share an object of the store; it goes with the last of
them. Both sides take the namespace's row, so that no upload is kept whose bytes go at that moment.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import ngettext

from jobs.models import Bundle, Job
from portal.errors import Refused
from portal.storage import get_store
from tenants.actions import record
from tenants.models import Tenant, User


def unfinished_users(bundle: Bundle) -> int:
    """How many trainings that have not ended start from this upload."""
    return Job.objects.filter(source__bundle=str(bundle.pk)).unfinished().count()


@transaction.atomic
def delete(*, by: User, bundle: Bundle, source_address: str = "") -> None:
    """Removes an upload; trainings that used it keep everything but the code itself.

    Raises:
        Refused: 409, a training that has not ended starts from it.
    """
    Tenant.objects.select_for_update().only("pk").get(pk=bundle.tenant_id)
    count = unfinished_users(bundle)
    if count:
        text = ngettext(
            "%(count)s training that has not ended uses this upload; stop it or wait for its end.",
            "%(count)s trainings that have not ended use this upload; stop them or wait for their "
            "end.",
            count,
        )
        raise Refused(text % {"count": count}, "in_use", 409)
    record(by=by, verb="delete", target=bundle, source_address=source_address)
    _remove(bundle)


def _remove(bundle: Bundle) -> None:
    """The row, then its bytes unless another upload has the same. Under the namespace's lock."""
    key = bundle.storage_key
    same = Bundle.objects.filter(tenant_id=bundle.tenant_id, sha256=bundle.sha256)
    is_last = not same.exclude(pk=bundle.pk).exists()
    bundle.delete()
    if is_last:
        get_store().delete(key)


def _last_used_at(jobs: QuerySet[Job], now: datetime) -> dict[str, datetime]:
    """Id of an upload -> when one of these trainings last needed it; one query."""
    found: dict[str, datetime] = {}
    rows = jobs.filter(source__bundle__isnull=False).order_by()
    for identity, ended in rows.values_list("source__bundle", "finished_at").iterator():
        found[identity] = max(found.get(identity, ended or now), ended or now)
    return found


def unused(now: datetime) -> list[Bundle]:
    """Uploads that no training has needed for BUNDLE_KEEP_DAYS; none when that is 0."""
    if not settings.BUNDLE_KEEP_DAYS:
        return []
    before = now - timedelta(days=settings.BUNDLE_KEEP_DAYS)
    old = Bundle.objects.filter(created_at__lt=before).order_by("created_at", "pk")
    used_at = _last_used_at(Job.objects.all(), now)
    return [bundle for bundle in old if used_at.get(str(bundle.pk), bundle.created_at) < before]


def remove_unused(bundle: Bundle) -> None:
    """Removes one of `unused`, unless it has come into use meanwhile."""
    with transaction.atomic():
        Tenant.objects.select_for_update().only("pk").get(pk=bundle.tenant_id)
        row = Bundle.objects.filter(pk=bundle.pk).first()
        now = timezone.now()
        before = now - timedelta(days=settings.BUNDLE_KEEP_DAYS)
        users = Job.objects.filter(source__bundle=str(bundle.pk))
        used_at = _last_used_at(users, now).get(str(bundle.pk))
        if row is not None and (used_at is None or used_at < before):
            _remove(row)
