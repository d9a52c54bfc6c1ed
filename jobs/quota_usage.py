"""What a tenant may hold, holds, and waits for: the lines of the quota card.

Reads rows only. The reconciler keeps `observed_*` as the ResourceQuota's status says.
"""

from collections.abc import Collection
from dataclasses import replace
from uuid import UUID

from jobs.models import Job, Service, ServiceState
from jobs.rules.requests import request_of
from jobs.rules.states import Desired, JobState
from jobs.submission import Submission
from tenants.models import Tenant
from tenants.usage import TITLES, UsageLine

KINDS = tuple(TITLES)


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
    each = request_of(kind, cpu_millicores, memory_bytes, gpu_count).each
    return {resource: each.get(resource) for resource in KINDS}


def queued_by_tenant(tenant_ids: Collection[UUID]) -> dict[UUID, dict[str, int]]:
    """Tenant -> what its trainings, notebooks and TensorBoards wait for together. Two queries."""
    sums = {tenant_id: dict.fromkeys(KINDS, 0) for tenant_id in tenant_ids}
    jobs = Job.objects.filter(
        tenant__in=tenant_ids, state=JobState.QUEUED, desired=Desired.RUN
    ).order_by()
    asked = [(pk, totals(replicas)) for pk, replicas in jobs.values_list("tenant", "replicas")]
    services = Service.objects.filter(
        tenant__in=tenant_ids, state=ServiceState.QUEUED, desired=Service.Desired.RUN
    ).order_by()
    fields = ("tenant", "kind", "cpu_millicores", "memory_bytes", "gpu_count")
    asked += [(pk, service_totals(*wanted)) for pk, *wanted in services.values_list(*fields)]
    for pk, wanted in asked:
        for kind, amount in wanted.items():
            sums[pk][kind] += amount
    return sums


def usage_lines(tenant: Tenant) -> list[UsageLine]:
    """The lines of the quota card, in the order of the card. Two queries."""
    queued = queued_by_tenant([tenant.pk])[tenant.pk]
    return [
        UsageLine(
            kind=kind,
            used=int(tenant.observed_used.get(kind, 0)),
            hard=int(tenant.counted_hard.get(kind, tenant.quota[kind])),
            queued=queued[kind],
        )
        for kind in KINDS
    ]


def with_request(lines: list[UsageLine], asked: dict[str, int]) -> list[UsageLine]:
    """The same lines, with what a form asks for on top of what is used."""
    return [replace(line, asked=asked[line.kind]) for line in lines]
