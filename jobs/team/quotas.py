"""What each tenant of a team holds, waits for and may hold, and how close it is to its limits."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.core.paginator import Page, Paginator
from django.utils.translation import gettext_lazy as _

from jobs.workloads.usage import queued_by_tenant
from portal.web.lists import revision_of
from tenants.models import Team, Tenant
from tenants.quota.rules import BudgetLine, budget_lines
from tenants.usage import UsageLine

PAGE_SIZE = 50
# In the order of the columns.
KINDS = ("gpu", "cpu", "memory")
# key in the address -> title of the choice
SORTS: dict[str, Any] = {
    "pressure": _("Highest usage first"),
    "name": _("By name"),
    "gpu": _("Highest GPU usage first"),
    "cpu": _("Highest CPU usage first"),
    "memory": _("Highest memory usage first"),
}
_NO_ROOM = 1e9  # something is wanted where nothing is allowed


@dataclass(frozen=True)
class TenantUsage:
    """One tenant with the lines of its bars."""

    tenant: Tenant
    lines: tuple[UsageLine, ...]

    def line(self, kind: str) -> UsageLine:
        return next(line for line in self.lines if line.kind == kind)

    def utilisation_of(self, kind: str) -> float:
        """Held and waited for, as a share of what is allowed; 1 is full."""
        line = self.line(kind)
        wanted = line.used + line.queued
        if line.hard > 0:
            return wanted / line.hard
        return _NO_ROOM if wanted else 0.0

    @property
    def utilisation(self) -> float:
        """Of the scarcest kind."""
        return max(self.utilisation_of(kind) for kind in KINDS)

    @property
    def promised_bytes(self) -> int:
        """To its volumes; what is used of that is not known."""
        return int(self.tenant.data_volume_bytes + self.tenant.log_volume_bytes)

    @property
    def name(self) -> str:
        return self.tenant.owner.shown_name


class TeamQuotas:
    """All tenants of a team, sorted, one page of them shown."""

    def __init__(self, team: Team, *, sort: str = "pressure", page: str = "1") -> None:
        self.team = team
        self.sort = sort if sort in SORTS else "pressure"
        self._page_number = page

    @cached_property
    def all(self) -> list[TenantUsage]:
        """Three queries, however many tenants."""
        tenants = list(
            Tenant.objects.existing().filter(team=self.team).select_related("owner", "team")
        )
        queued = queued_by_tenant([tenant.pk for tenant in tenants])
        usages = [TenantUsage(tenant, _lines(tenant, queued[tenant.pk])) for tenant in tenants]
        return sorted(usages, key=self._order)

    def _order(self, usage: TenantUsage) -> tuple[float, str, str]:
        name = (usage.name.casefold(), usage.tenant.namespace)
        if self.sort == "name":
            return (0.0, *name)
        if self.sort == "pressure":
            return (-usage.utilisation, *name)
        return (-usage.utilisation_of(self.sort), *name)

    @cached_property
    def page(self) -> Page[TenantUsage]:
        return Paginator(self.all, PAGE_SIZE).get_page(self._page_number)

    @cached_property
    def budget(self) -> list[BudgetLine]:
        """What the quotas add up to, beside the team's budget."""
        return budget_lines(self.team)

    @property
    def given(self) -> list[UsageLine]:
        """The budget as bars: what has been given of it. Kinds without a budget have no bar."""
        return [
            UsageLine(kind=line.kind, used=line.total, hard=line.budget)
            for line in self.budget
            if line.budget is not None
        ]

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything on these cards changes."""
        rows = [
            (
                str(h.tenant.pk),
                h.tenant.state,
                h.name,
                h.lines,
                h.promised_bytes,
                h.tenant.quota_by_weight,
                h.tenant.weight,
            )
            for h in self.page.object_list
        ]
        shown = (rows, self.budget, len(self.all))
        return revision_of(shown)


def _lines(tenant: Tenant, queued: dict[str, int]) -> tuple[UsageLine, ...]:
    """`hard` is what was given, also in the moments before the cluster has taken it over."""
    used, quota = tenant.observed_used, tenant.quota
    return tuple(
        UsageLine(
            kind=kind,
            used=int(used.get(kind, 0)),
            hard=quota[kind],
            queued=queued.get(kind, 0),
        )
        for kind in KINDS
    )
