"""Reads tenants for the reconciler and writes what it saw; plain ORM, called in threads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from tenants.actions import record
from tenants.models import Tenant, TenantObject

# In the detail of a part that is there, but not as it is wanted.
NOT_CHANGED = "cannot be changed: "

PartKey = tuple[str, str]  # kind, name


@dataclass(frozen=True)
class Part:
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
class Outcome:
    """What a pass found of one tenant, beside the row it started from.

    Attributes:
        rows: the tenant's rows at the start of the pass.
        state: None when it is not the reconciler's to change now.
        purge_memo: what a purge noted; None: nothing new.
    """

    tenant: Tenant
    rows: Mapping[PartKey, TenantObject]
    parts: Sequence[Part]
    state: str | None
    reason_text: str
    observed_hard: Mapping[str, int] = field(default_factory=dict)
    observed_used: Mapping[str, int] = field(default_factory=dict)
    reason_next_step: str = ""
    purge_memo: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Wanted:
    """Which tenants a pass needs to look at.

    Attributes:
        ids: as text, of those of which something changed or is due; others than tenants' are ignored.
        known: tenant -> revision at the last look; a row that is newer is looked at.
    """

    everything: bool
    ids: frozenset[str]
    known: Mapping[UUID, int]


def load(wanted: Wanted) -> list[Tenant]:
    """The tenants to look at, with their object rows, oldest first."""
    there = Tenant.objects.living()
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
    rows = some.select_related("owner").prefetch_related("objects_seen").order_by("created_at")
    return [tenant for tenant in rows if tenant.pk in picked]


def is_to_be_purged(tenant_id: UUID) -> bool:
    """Whether an admin wants it purged, as the row says at this moment."""
    wanted = Tenant.objects.filter(pk=tenant_id, desired=Tenant.Desired.PURGED)
    return bool(wanted.living().exists())


def rows_of(tenant: Tenant) -> dict[PartKey, TenantObject]:
    """The tenant's object rows, from the prefetched ones where there are any."""
    return {(row.kind, row.name): row for row in tenant.objects_seen.all()}


def is_news(outcome: Outcome) -> bool:
    """Whether saving would change anything."""
    rows = {key: (row.position, row.state, row.detail) for key, row in outcome.rows.items()}
    found = {
        (part.kind, part.name): (position, part.state, part.detail)
        for position, part in enumerate(outcome.parts)
    }
    repaired = any(part.was_repaired for part in outcome.parts)
    return repaired or rows != found or bool(_tenant_changes(outcome))


def save(outcomes: Iterable[Outcome]) -> list[tuple[UUID, int]]:
    """Writes what differs from the rows; the ids and new revisions of tenants that changed."""
    changed = []
    for outcome in outcomes:
        if not is_news(outcome):
            continue
        _save_parts(outcome)
        row = Tenant.objects.filter(pk=outcome.tenant.pk)
        changes = _tenant_changes(outcome)
        row.update(**changes, revision=F("revision") + 1, changed_at=timezone.now())
        if changes.get("state") == Tenant.State.GONE:
            record(by=None, verb="purged", target=outcome.tenant)
        changed.append((outcome.tenant.pk, row.values_list("revision", flat=True).get()))
    return changed


def _tenant_changes(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = {
        "reason_text": outcome.reason_text,
        "reason_next_step": outcome.reason_next_step,
        "observed_hard": dict(outcome.observed_hard),
        "observed_used": dict(outcome.observed_used),
    }
    if outcome.state is not None:
        found["state"] = outcome.state
    if outcome.state == Tenant.State.GONE:
        found["gone_at"] = timezone.now()
    if outcome.purge_memo is not None:
        found["purge_memo"] = dict(outcome.purge_memo)
    return {name: value for name, value in found.items() if getattr(outcome.tenant, name) != value}


def _save_parts(outcome: Outcome) -> None:
    for position, part in enumerate(outcome.parts):
        row = outcome.rows.get((part.kind, part.name))
        if row is None:
            row = TenantObject(tenant=outcome.tenant, kind=part.kind, name=part.name)
        shown = (row.position, row.state, row.detail)
        if shown == (position, part.state, part.detail) and row.pk and not part.was_repaired:
            continue
        if row.state != part.state:
            row.since = timezone.now()
        row.position, row.state, row.detail = position, part.state, part.detail
        row.repaired_count += int(part.was_repaired)
        row.save()
    kept = {(part.kind, part.name) for part in outcome.parts}
    for key, row in outcome.rows.items():
        if key not in kept:
            row.delete()
