"""One namespace as an admin sees it: its standing, what it is made of, and its history."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenants.models import AuditEntry, Tenant, TenantObject
from tenants.namespaces.actions import verbs_for
from tenants.usage import UsageLine, held_lines

HISTORY = 20  # changes that the page shows

# What the audit trail calls it -> how the page says it
_VERB_WORDS = {
    "create": _("created it"),
    "adopt": _("adopted it from the cluster"),
    "quota": _("changed its quota"),
    "suspend": _("suspended it"),
    "resume": _("resumed it"),
    "delete": _("deleted it"),
    "restore": _("restored it"),
    "purge": _("started to purge it"),
    "purged": _("purged it from the cluster"),
}
_DATA_WORDS = {"keep": _("its data is kept"), "delete": _("its data is deleted with it")}


@dataclass(frozen=True)
class HistoryEntry:
    """One change of the namespace."""

    entry: AuditEntry

    @property
    def words(self) -> str:
        return str(_VERB_WORDS.get(self.entry.verb, self.entry.verb))

    @property
    def more(self) -> list[str]:
        """Details as short sentences."""
        detail: dict[str, Any] = self.entry.detail
        found = [f"“{detail['why']}”"] if detail.get("why") else []
        if detail.get("data") in _DATA_WORDS:
            found.append(str(_DATA_WORDS[detail["data"]]))
        if detail.get("early"):
            found.append(str(_("before the grace period ended")))
        before, after = detail.get("before") or {}, detail.get("after") or {}
        found += [f"{kind} {before.get(kind, '?')} → {amount}" for kind, amount in after.items()]
        return found


class NamespacePage:
    """What the page of one namespace shows. Each part reads its rows only when it is rendered."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant

    @property
    def verbs(self) -> tuple[str, ...]:
        return verbs_for(self.tenant)

    @property
    def has_grace_left(self) -> bool:
        after = self.tenant.purge_after
        return after is not None and timezone.now() < after

    @cached_property
    def lines(self) -> list[UsageLine]:
        return held_lines(self.tenant)

    @cached_property
    def objects(self) -> list[TenantObject]:
        return list(self.tenant.objects_seen.all())

    @property
    def objects_ready(self) -> int:
        return sum(row.state == TenantObject.State.READY for row in self.objects)

    @cached_property
    def history(self) -> list[HistoryEntry]:
        """The latest changes, newest first."""
        found = AuditEntry.objects.filter(kind="tenant", object_id=str(self.tenant.pk))
        return [HistoryEntry(entry) for entry in found.order_by("-at", "-pk")[:HISTORY]]

    @cached_property
    def others(self) -> list[Tenant]:
        """Namespaces that the same person had before, or has now."""
        same = Tenant.objects.filter(owner=self.tenant.owner_id).exclude(pk=self.tenant.pk)
        return list(same.order_by("-created_at")[:10])
