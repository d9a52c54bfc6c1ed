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
from jobs.rules.admission import Fit, amount_text
from jobs.rules.amounts import total_of
from jobs.rules.requests import at_once
from jobs.rules.states import HOLDING_STATES
from jobs.workloads.fit import quota_left
from tenants.models import Tenant, User
from tenants.usage import TITLES, UsageLine

RESOURCES = tuple(TITLES)
MAX_HOLDERS = 20
_OF_NODES = {"nodes", "nodes_closed", "over_node", "over_cluster"}


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


def node_lines(found: Fit) -> list[UsageLine]:
    """Of the nodes that an answer is about, the same way; empty: it is not about nodes.

    What is free on nodes that take no pods is in use, as in the answer.
    """
    if found.code not in _OF_NODES or found.whole is None or found.free is None:
        return []
    pairs = [(kind, found.whole.get(kind), found.free.get(kind)) for kind in RESOURCES]
    return [
        UsageLine(kind=kind, used=min(whole, whole - free), hard=whole)
        for kind, whole, free in pairs
        if whole
    ]


@dataclass(frozen=True)
class Holder:
    """A workload that holds some of what lacks in the quota."""

    held: Workload
    amounts: str  # of what lacks; empty: each holds one


def find_holders(waiting: Workload, user: User) -> list[Holder]:
    """Of what a workload waits for in its quota, who holds it: those that hold most first."""
    hard, left = quota_left(waiting.tenant)
    if hard is None or left is None:
        return []
    wanted = total_of(KINDS[waiting.kind].requests(waiting.replicas))
    lacking = left.lacking(wanted)
    rows = Workload.objects.visible_to(user).filter(
        tenant=waiting.tenant_id, state__in=HOLDING_STATES
    )
    found = [(row, held_totals(row.kind, row.replicas)) for row in rows.for_lists()]
    found.sort(key=lambda pair: [-pair[1][kind] for kind in lacking])
    counted = [kind for kind in lacking if kind != "nodeports"]
    return [
        Holder(row, ", ".join(amount_text(kind, held[kind]) for kind in counted if held[kind]))
        for row, held in found
        if any(held[kind] for kind in lacking)
    ][:MAX_HOLDERS]
