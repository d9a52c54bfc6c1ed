"""Keeps uploads of code; deletes them on somebody's behalf, and by themselves when nothing uses them any more.

Uploads of the same bytes by one namespace share an object of the store; it goes with the last of
them. Both sides take the namespace's row, so that no upload is kept whose bytes go at that moment.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs import limits
from jobs.bundle_listing import list_bundle
from jobs.kinds.registry import TAKE_CODE
from jobs.models import Bundle, Workload, WorkloadQuerySet
from jobs.rules.code_addresses import cannot_be_unpacked
from portal.errors import FieldError, Refused
from portal.storage import get_store
from portal.web.uploads import WaitingFile
from tenants.audit.record import record
from tenants.models import Tenant, User

# No training names it: it was sent and not used, or its trainings are deleted.
_UNNAMED_DAYS = 7


def check(*, by: User, file: WaitingFile) -> list[str]:
    """Refuses an archive that no pod unpacks, damaged or too large for one; what else will fail, in sentences.

    Raises:
        Refused: it is one.
    """
    waiting = file.waiting
    return list_bundle(waiting.path, file.name or "", waiting.size_bytes, person=by.pk).notes


def add(
    *, by: User, tenant: Tenant, file: WaitingFile, then: Callable[[Bundle], None] | None = None
) -> Bundle:
    """Keeps an upload, content-addressed.

    Args:
        then: called with it in the transaction that keeps it.

    Raises:
        Refused: nothing in it, more than BUNDLE_MAX_BYTES, no room in the namespace, too many
            changes in a minute, or the namespace is being deleted.
    """
    size_bytes = file.waiting.size_bytes
    if size_bytes > settings.BUNDLE_MAX_BYTES:
        text = (
            f"The upload has {size_bytes:,} bytes; at most {settings.BUNDLE_MAX_BYTES:,} are "
            "taken. Put large data on the data volume instead."
        )
        raise Refused([FieldError("file", "too_large", text)], status=413)
    if size_bytes == 0:
        raise Refused([FieldError("file", "empty", "The upload is empty.")])
    if cannot_be_unpacked(file.name or ""):
        text = _(
            "%(name)s is an archive of a kind that cannot be unpacked here. Create a .zip or .tar.gz."
        )
        raise Refused([FieldError("file", "invalid", text % {"name": file.name})])
    limits.check_pace(by)
    limits.check_room(tenant, size_bytes)
    bundle = Bundle(
        tenant=tenant,
        file_name=(file.name or "bundle").rsplit("/", 1)[-1][-255:],
        sha256=file.waiting.sha256,
        size_bytes=size_bytes,
    )
    store = get_store()
    if not store.exists(bundle.storage_key):
        store.take(bundle.storage_key, file.waiting)
    with transaction.atomic():
        # The same content or the namespace may be deleted at this moment.
        row = Tenant.objects.select_for_update().only("desired").get(pk=tenant.pk)
        if row.desired in {Tenant.Desired.DELETED, Tenant.Desired.PURGED}:
            _remove(bundle)  # which was not saved: its bytes
            text = _("Your namespace has been deleted, so no upload is kept.")
            step = _("Ask your admin to restore it, or for a new one once it is purged.")
            raise Refused(text, "tenant_deleted", 409, next_step=step)
        if not store.exists(bundle.storage_key):
            text = _("The same upload was deleted just now. Upload it again.")
            raise Refused([FieldError("file", "deleted", text)], status=409)
        bundle.save()
        record(by=by, verb="upload", target=bundle)
        if then is not None:
            then(bundle)
    return bundle


def _users_of(bundle: Bundle) -> WorkloadQuerySet:
    """The trainings that start from this upload."""
    rows: WorkloadQuerySet = Workload.objects.filter(kind__in=TAKE_CODE)
    return rows.filter(spec__source__bundle=str(bundle.pk))


def unfinished_users(bundle: Bundle) -> int:
    """How many trainings that have not ended start from this upload."""
    return _users_of(bundle).unfinished().count()


@transaction.atomic
def delete(*, by: User, bundle: Bundle) -> None:
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
    record(by=by, verb="delete", target=bundle)
    _remove(bundle)


def _remove(bundle: Bundle) -> None:
    """The row, then its bytes unless another upload has the same. Under the namespace's lock."""
    key = bundle.storage_key
    same = Bundle.objects.filter(tenant_id=bundle.tenant_id, sha256=bundle.sha256)
    is_last = not same.exclude(pk=bundle.pk).exists()
    bundle.delete()
    if is_last:
        get_store().delete(key)


def _last_used_at(trainings: QuerySet[Workload], now: datetime) -> dict[str, datetime]:
    """Id of an upload -> when one of these trainings last needed it; one query."""
    found: dict[str, datetime] = {}
    rows = trainings.filter(spec__source__bundle__isnull=False).order_by()
    for identity, ended in rows.values_list("spec__source__bundle", "finished_at").iterator():
        found[identity] = max(found.get(identity, ended or now), ended or now)
    return found


def unnamed_keep_days() -> int:
    """Days that an upload is kept which no training names; 0: for good."""
    return min(_UNNAMED_DAYS, int(settings.BUNDLE_KEEP_DAYS))


def _is_unused(bundle: Bundle, used_at: datetime | None, now: datetime) -> bool:
    """
    Args:
        used_at: when a training last needed it; None: none that is there names it.
    """
    if used_at is None:
        return bundle.created_at < now - timedelta(days=unnamed_keep_days())
    return used_at < now - timedelta(days=settings.BUNDLE_KEEP_DAYS)


def unused(now: datetime) -> list[Bundle]:
    """Uploads that no training has needed for BUNDLE_KEEP_DAYS, or that none names; none when that is 0."""
    if not settings.BUNDLE_KEEP_DAYS:
        return []
    before = now - timedelta(days=unnamed_keep_days())
    old = Bundle.objects.filter(created_at__lt=before).order_by("created_at", "pk")
    used_at = _last_used_at(Workload.objects.filter(kind__in=TAKE_CODE), now)
    return [bundle for bundle in old if _is_unused(bundle, used_at.get(str(bundle.pk)), now)]


def remove_unused(bundle: Bundle) -> None:
    """Removes one of `unused`, unless it has come into use meanwhile."""
    with transaction.atomic():
        Tenant.objects.select_for_update().only("pk").get(pk=bundle.tenant_id)
        row = Bundle.objects.filter(pk=bundle.pk).first()
        now = timezone.now()
        used_at = _last_used_at(_users_of(bundle), now).get(str(bundle.pk))
        if row is not None and _is_unused(row, used_at, now):
            _remove(row)
