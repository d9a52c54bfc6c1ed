"""What of a tenant holds its quota now: shown to somebody who waits for it. Two queries."""

from dataclasses import dataclass

from jobs.models import Job, Service, ServiceState
from jobs.quota_usage import service_totals, totals
from jobs.rules.states import HOLDING_STATES
from tenants.models import Tenant, User

MAX_HOLDERS = 20


@dataclass(frozen=True)
class Holder:
    """A training, notebook or TensorBoard; `route` is the name of its page."""

    route: str
    held: Job | Service
    asked: dict[str, int]  # by the kinds of the quota


def find_holders(tenant: Tenant, user: User) -> list[Holder]:
    """Those with the most GPUs first, then with the most CPU."""
    jobs = Job.objects.visible_to(user).filter(tenant=tenant, state__in=HOLDING_STATES)
    services = Service.objects.visible_to(user).filter(tenant=tenant).unfinished()
    found = [Holder("job", job, totals(job.replicas)) for job in jobs[:MAX_HOLDERS]]
    found += [
        Holder(
            row.kind,
            row,
            service_totals(row.kind, row.cpu_millicores, row.memory_bytes, row.gpu_count),
        )
        for row in services.exclude(state=ServiceState.QUEUED)[:MAX_HOLDERS]
    ]
    return sorted(found, key=lambda h: (-h.asked["gpu"], -h.asked["cpu"]))[:MAX_HOLDERS]
