"""Reads tenants for the reconciler and writes what it saw; plain ORM, called in threads."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F
from django.utils import timezone

from tenants.audit.record import record
from tenants.models import Tenant, TenantObject

log = logging.getLogger(__name__)

# In the detail of an object that is there, but not as it is wanted.
NOT_CHANGED = "cannot be changed: "

ObjectKey = tuple[str, str]  # kind, name


@dataclass(frozen=True)
class ObjectStatus:
    """One object of a tenant as the pass found or left it.

    Attributes:
        was_repaired: it had been there, somebody removed or changed it, and this pass put it right.
    """

    kind: str
    name: str
    state: str
    detail: str = ""
    was_repaired: bool = False


@dataclass(frozen=True)
class TenantStatus:
    """Where a tenant stands; `state` is None when it is not the reconciler's to change now."""

    state: str | None
    reason_text: str = ""
    reason_next_step: str = ""


@dataclass(frozen=True)
class TenantUpdate:
    """What a pass found of one tenant, beside the row it started from.

    Attributes:
        rows: the tenant's rows at the start of the pass.
        purge_memo: what a purge noted; None: nothing new.
    """

    tenant: Tenant
    rows: Mapping[ObjectKey, TenantObject]
    objects: Sequence[ObjectStatus]
    status: TenantStatus
    observed_hard: Mapping[str, int] = field(default_factory=dict)
    observed_used: Mapping[str, int] = field(default_factory=dict)
    purge_memo: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class TenantQuery:
    """Which tenants a pass needs to look at.

    Attributes:
        ids: as text, of those of which something changed or is due; others than tenants' are ignored.
        known: tenant -> revision at the last look; a row that is newer is looked at.
    """

    everything: bool
    ids: frozenset[str]
    known: Mapping[UUID, int]


def load(wanted: TenantQuery) -> list[Tenant]:
    """The tenants to look at, with their object rows, oldest first."""
    there = Tenant.objects.existing()
    chosen = [
        pk
        for pk, revision in there.values_list("pk", "revision")
        if wanted.everything or str(pk) in wanted.ids or wanted.known.get(pk) != revision
    ]
    if not chosen:
        return []
    # A long list of ids is a long query (SQLite allows 32,766 variables): read all then.
    some = there if len(chosen) > 500 else there.filter(pk__in=chosen)
    picked = set(chosen)
    rows = (
        some.select_related("owner", "team").prefetch_related("objects_seen").order_by("created_at")
    )
    return [tenant for tenant in rows if tenant.pk in picked]


def is_to_be_purged(tenant_id: UUID) -> bool:
    """Whether an admin wants it purged, as the row says at this moment."""
    wanted = Tenant.objects.filter(pk=tenant_id, desired=Tenant.Desired.PURGED)
    return bool(wanted.existing().exists())


def rows_of(tenant: Tenant) -> dict[ObjectKey, TenantObject]:
    """The tenant's object rows, from the prefetched ones where there are any."""
    return {(row.kind, row.name): row for row in tenant.objects_seen.all()}


def is_news(update: TenantUpdate) -> bool:
    """Whether saving would change anything."""
    rows = {key: (row.position, row.state, row.detail) for key, row in update.rows.items()}
    found = {
        (one.kind, one.name): (position, one.state, one.detail)
        for position, one in enumerate(update.objects)
    }
    repaired = any(one.was_repaired for one in update.objects)
    return repaired or rows != found or bool(_tenant_changes(update))


def save(updates: Iterable[TenantUpdate]) -> list[tuple[UUID, int]]:
    """Writes what differs from the rows; the ids and new revisions of tenants that changed.

    All together. When one of them cannot be written, each is written by itself: it stops no other, nothing of
    it is kept, and its id is not among those that are returned.

    Raises:
        OperationalError, InterfaceError: the database itself fails; nothing was written.
    """
    news = [update for update in updates if is_news(update)]
    try:
        with transaction.atomic():
            return [_save(update) for update in news]
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:  # noqa: BLE001  the named fence: whose it was is found below
        log.warning("tenants are written one by one: %r", error)
    changed = []
    for update in news:
        try:
            with transaction.atomic():
                changed.append(_save(update))
        except (OperationalError, InterfaceError):
            raise
        except Exception:  # the named fence: one odd tenant must not stop the others
            log.exception("%s: what was seen cannot be written", update.tenant.namespace)
    return changed


def _save(update: TenantUpdate) -> tuple[UUID, int]:
    _save_objects(update)
    row = Tenant.objects.filter(pk=update.tenant.pk)
    changes = _tenant_changes(update)
    row.update(**changes, revision=F("revision") + 1, changed_at=timezone.now())
    if changes.get("state") == Tenant.State.GONE:
        record(by=None, verb="purged", target=update.tenant)
    return update.tenant.pk, row.values_list("revision", flat=True).get()


def _tenant_changes(update: TenantUpdate) -> dict[str, Any]:
    found: dict[str, Any] = {
        "reason_text": update.status.reason_text,
        "reason_next_step": update.status.reason_next_step,
        "observed_hard": dict(update.observed_hard),
        "observed_used": dict(update.observed_used),
    }
    if update.status.state is not None:
        found["state"] = update.status.state
    if update.status.state == Tenant.State.GONE:
        found["gone_at"] = timezone.now()
    if update.purge_memo is not None:
        found["purge_memo"] = dict(update.purge_memo)
    return {name: value for name, value in found.items() if getattr(update.tenant, name) != value}


def _save_objects(update: TenantUpdate) -> None:
    for position, one in enumerate(update.objects):
        row = update.rows.get((one.kind, one.name))
        shown = (row.position, row.state, row.detail) if row is not None else None
        if shown == (position, one.state, one.detail) and not one.was_repaired:
            continue
        columns: dict[str, Any] = {"position": position, "state": one.state, "detail": one.detail}
        if row is None or row.state != one.state:
            columns["since"] = timezone.now()
        if row is None:
            repaired = int(one.was_repaired)
            TenantObject.objects.create(
                tenant=update.tenant,
                kind=one.kind,
                name=one.name,
                repaired_count=repaired,
                **columns,
            )
        else:
            repaired = row.repaired_count + int(one.was_repaired)
            TenantObject.objects.filter(pk=row.pk).update(repaired_count=repaired, **columns)
    kept = {(one.kind, one.name) for one in update.objects}
    gone = [row.pk for key, row in update.rows.items() if key not in kept]
    if gone:
        TenantObject.objects.filter(pk__in=gone).delete()
