"""What a tenant may hold, holds, and waits for: the lines of the quota card, and which workloads hold it.

Reads rows only. The reconciler keeps `observed_*` as the ResourceQuota's status says.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from jobs.kinds.registry import KINDS
from jobs.kinds.spec import WorkloadSpec, columns_of
from jobs.models import Workload
from jobs.rules.amounts import total_of
from jobs.rules.requests import at_once
from jobs.rules.states import HOLDING_STATES
from tenants.models import Tenant, User
from tenants.usage import TITLES, UsageLine

RESOURCES = tuple(TITLES)
MAX_HOLDERS = 20


def totals(replicas: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """What all replicas of a workload that run at a time ask for together, by the resources of the quota.

    Args:
        replicas: role -> count, cpu_millicores, memory_bytes, gpu_count, as a row keeps them.
    """
    sums = dict.fromkeys(RESOURCES, 0)
    for asked in replicas.values():
        count = at_once(asked)
        sums["cpu"] += count * asked["cpu_millicores"]
        sums["memory"] += count * asked["memory_bytes"]
        sums["gpu"] += count * asked["gpu_count"]
        sums["pods"] += count
    return sums


def held_totals(kind: str, replicas: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """What the quota counts of a workload of this kind, with what runs beside its programs."""
    held = total_of(KINDS[kind].requests(replicas))
    return {resource: held.get(resource) for resource in RESOURCES}


def spec_totals(kind: str, spec: WorkloadSpec) -> dict[str, int]:
    """What the quota would count of a request."""
    return held_totals(kind, columns_of(spec)["replicas"])


def queued_by_tenant(tenant_ids: Collection[UUID]) -> dict[UUID, dict[str, int]]:
    """Tenant -> what its workloads wait for together. One query."""
    sums = {tenant_id: dict.fromkeys(RESOURCES, 0) for tenant_id in tenant_ids}
    queued = Workload.objects.queued().filter(tenant__in=tenant_ids).order_by()
    for tenant_id, kind, replicas in queued.values_list("tenant", "kind", "replicas"):
        for resource, amount in held_totals(kind, replicas).items():
            sums[tenant_id][resource] += amount
    return sums


def usage_lines(tenant: Tenant) -> list[UsageLine]:
    """The lines of the quota card, in the order of the card. One query."""
    queued = queued_by_tenant([tenant.pk])[tenant.pk]
    return [
        UsageLine(
            kind=kind,
            used=int(tenant.observed_used.get(kind, 0)),
            hard=int(tenant.counted_hard.get(kind, tenant.quota[kind])),
            queued=queued[kind],
        )
        for kind in RESOURCES
    ]


def with_request(lines: list[UsageLine], asked: dict[str, int]) -> list[UsageLine]:
    """The same lines, with what a form asks for on top of what is used."""
    return [replace(line, asked=asked[line.kind]) for line in lines]


@dataclass(frozen=True)
class Holder:
    """A workload that holds some of the quota."""

    held: Workload
    asked: dict[str, int]  # by the resources of the quota


def find_holders(tenant: Tenant, user: User) -> list[Holder]:
    """Those with the most GPUs first, then with the most CPU."""
    rows = Workload.objects.visible_to(user).filter(tenant=tenant, state__in=HOLDING_STATES)
    found = [Holder(row, held_totals(row.kind, row.replicas)) for row in rows.for_lists()]
    return sorted(found, key=lambda h: (-h.asked["gpu"], -h.asked["cpu"]))[:MAX_HOLDERS]
