"""How much a tenant holds of what it may hold: one line per kind of resource, for bars and tables."""

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from tenants.models import Tenant

# Kind of resource -> its title; what takes node ports is of an app, which names it when it is ready.
TITLES: dict[str, Any] = {
    "cpu": _("CPU"),
    "memory": _("Memory"),
    "gpu": _("GPU"),
    "pods": _("Pods"),
    "nodeports": _("Open ports"),
}


@dataclass(frozen=True)
class UsageLine:
    """One kind of resource: cpu in millicores, memory in bytes, else pieces."""

    kind: str
    used: int
    hard: int
    queued: int = 0  # asked for by what waits
    asked: int = 0  # asked for by the form that is being filled in

    @property
    def title(self) -> str:
        return str(TITLES[self.kind])

    @property
    def free(self) -> int:
        return max(0, self.hard - self.used)

    @property
    def over(self) -> int:
        """How much more is held than allowed, after the quota was made smaller."""
        return max(0, self.used - self.hard)

    @property
    def is_short(self) -> bool:
        """Whether what the form asks for is more than what is free."""
        return self.asked > self.free

    @property
    def used_percent(self) -> float:
        return self._percent(self.used)

    @property
    def extra_percent(self) -> float:
        """What would come on top: queued, or asked for; never beyond the end of the bar."""
        return min(100 - self.used_percent, self._percent(self.asked or self.queued))

    def _percent(self, amount: int) -> float:
        if self.hard <= 0:
            return 100.0 if amount else 0.0
        return round(min(100.0, amount * 100 / self.hard), 1)


def held_lines(tenant: Tenant) -> list[UsageLine]:
    """What a tenant holds beside the quota that it was given, also while that is closed. No query."""
    quota = tenant.quota
    return [
        UsageLine(kind=kind, used=tenant.observed_used.get(kind, 0), hard=quota[kind])
        for kind in TITLES
    ]
