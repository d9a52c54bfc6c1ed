"""What a tenant may hold, holds, and waits for: the lines of the quota card.

Reads rows only. The reconciler keeps `observed_*` as the ResourceQuota's status says.
"""

from dataclasses import dataclass, replace

from django.utils.translation import gettext_lazy as _

from jobs.models import Job
from jobs.rules.states import Desired, JobState
from jobs.services.manifests import need_of
from jobs.services.models import Service, ServiceState
from jobs.submission import Submission
from tenants.models import Tenant

_TITLES = {
    "cpu": _("CPU"),
    "memory": _("Memory"),
    "gpu": _("GPU"),
    "pods": _("Pods"),
    "nodeports": _("Notebooks and TensorBoards"),
}
KINDS = tuple(_TITLES)


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
        return str(_TITLES[self.kind])

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


def totals(replicas: dict[str, dict[str, int]]) -> dict[str, int]:
    """What all replicas of a job ask for together, by the kinds of the quota.

    Args:
        replicas: role -> count, cpu_millicores, memory_bytes, gpu_count, as a job keeps them.
    """
    sums = dict.fromkeys(KINDS, 0)
    for asked in replicas.values():
        count = asked["count"]
        sums["cpu"] += count * asked["cpu_millicores"]
        sums["memory"] += count * asked["memory_bytes"]
        sums["gpu"] += count * asked["gpu_count"]
        sums["pods"] += count
    return sums


def asked_totals(wanted: Submission) -> dict[str, int]:
    """What a submission asks for, by the kinds of the quota."""
    return totals({role: request.as_json() for role, request in wanted.replicas.items()})


def service_totals(
    kind: str, cpu_millicores: int, memory_bytes: int, gpu_count: int
) -> dict[str, int]:
    """What a notebook or TensorBoard asks for, its gate counted, by the kinds of the quota."""
    each = need_of(kind, cpu_millicores, memory_bytes, gpu_count).each
    return {resource: each.get(resource) for resource in KINDS}


def usage_lines(tenant: Tenant) -> list[UsageLine]:
    """The lines of the quota card, in the order of the card. Two queries."""
    queued = dict.fromkeys(KINDS, 0)
    waiting = Job.objects.filter(tenant=tenant, state=JobState.QUEUED, desired=Desired.RUN)
    for replicas in waiting.values_list("replicas", flat=True):
        for kind, amount in totals(replicas).items():
            queued[kind] += amount
    services = Service.objects.filter(
        tenant=tenant, state=ServiceState.QUEUED, desired=Service.Desired.RUN
    )
    for asked in services.values_list("kind", "cpu_millicores", "memory_bytes", "gpu_count"):
        for kind, amount in service_totals(*asked).items():
            queued[kind] += amount
    return [
        UsageLine(
            kind=kind,
            used=int(tenant.observed_used.get(kind, 0)),
            hard=int(tenant.observed_hard.get(kind, tenant.quota[kind])),
            queued=queued[kind],
        )
        for kind in KINDS
    ]


def with_request(lines: list[UsageLine], asked: dict[str, int]) -> list[UsageLine]:
    """The same lines, with what a form asks for on top of what is used."""
    return [replace(line, asked=asked[line.kind]) for line in lines]
