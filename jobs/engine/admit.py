"""Admission: the one place where waiting jobs are given room. First come, first served.

Three parts: what the database knows (`store.read_queue`), what the view shows (`look`, on the event
loop), and the verdicts (pure), which `claim.py` writes in one transaction that also checks
the lease's epoch. Nobody but the reconciler that holds the lease admits, so nothing can come in
between but a person's stop or delete, which each claim checks again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from jobs.engine.rows import HoldingJob, Queue, QueuedJob, TenantQueue
from jobs.rules import reasons
from jobs.rules.admission import (
    RESOURCES,
    Amount,
    Fit,
    Need,
    NodeRoom,
    node_room,
    reserve,
    total_of,
)
from jobs.rules.queue import TenantRoom, Verdict, decide
from jobs.rules.reasons import Reason
from portal.cluster import objects, resources
from portal.cluster.cache import ClusterCache
from portal.cluster.resources import Resources
from tenants.manifests import QUOTA, observed

# A quota that does not name a resource does not limit it.
_UNLIMITED = 2**62
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Room:
    """What the view shows."""

    tenants: Mapping[str, TenantRoom]
    nodes: tuple[NodeRoom, ...]


# --- what the view shows ---
def look(view: ClusterCache, queue: Queue) -> Room:
    """Quotas and nodes, less what is admitted but not there yet. On the event loop."""
    invisible: dict[str, Amount] = {}
    unplaced: list[Need] = []
    for job in queue.holding:
        missing, unbound = _outstanding(view, job)
        held = invisible.get(job.namespace, Amount())
        doors = max(0, total_of(job.needs).nodeports - _doors(view.services.of_owner(job.job_id)))
        pods = total_of(missing).on_node
        invisible[job.namespace] = held + pods + Amount(nodeports=doors)
        unplaced += [*missing, *unbound]
    tenants = {
        tenant.tenant_id: _tenant_room(view, tenant, invisible.get(tenant.namespace, Amount()))
        for tenant in queue.tenants
    }
    return Room(tenants, tuple(reserve(unplaced, node_rooms(view))))


def _outstanding(view: ClusterCache, job: HoldingJob) -> tuple[list[Need], list[Need]]:
    """Replicas without a pod, and replicas whose pod has no node."""
    live = [p for p in view.pods.of_owner(job.job_id) if p.status.phase not in _ENDED]
    roles = Counter(pod.metadata.labels.role for pod in live)
    free = Counter(pod.metadata.labels.role for pod in live if not pod.spec.node_name)
    missing, unbound = [], []
    for need in job.needs:
        count = need.count - roles[need.role] - job.ended.get(need.role, 0)
        if count > 0:
            missing.append(replace(need, count=count))
        if free[need.role]:
            unbound.append(replace(need, count=min(free[need.role], need.count)))
    return missing, unbound


def _tenant_room(view: ClusterCache, tenant: TenantQueue, invisible: Amount) -> TenantRoom:
    if tenant.closed:
        code = "tenant_deleting" if tenant.closed == "deleting" else "tenant_suspended"
        return TenantRoom(None, None, reasons.make(code).text, code)
    if not tenant.is_active:
        return TenantRoom(None, None, reasons.make("tenant_not_ready").text, "tenant_not_ready")
    quota = view.quotas.get(tenant.namespace, QUOTA)
    if quota is None or not quota.status.hard:
        return TenantRoom(None, None)
    hard = _limits(observed(quota.status.hard))
    used = _amount(observed(quota.status.used))
    # A pod may be in the view before the quota's count of it, or the other way round.
    seen = _held_in(view, tenant.namespace)
    return TenantRoom(hard, hard - used.largest(seen) - invisible)


def _limits(counted: Mapping[str, int]) -> Amount:
    return Amount(**{resource: counted.get(resource, _UNLIMITED) for resource in RESOURCES})


def _amount(counted: Mapping[str, int]) -> Amount:
    return Amount(**{resource: counted.get(resource, 0) for resource in RESOURCES})


def _doors(services: Iterable[objects.KubeService]) -> int:
    """How many NodePorts they hold."""
    return sum(len(seen.spec.ports) for seen in services if seen.spec.type == "NodePort")


def amount_of(held: Resources) -> Amount:
    """The same numbers under admission's names."""
    return Amount(held.cpu_millicores, held.memory_bytes, held.gpu_count, held.pods)


def _held_in(view: ClusterCache, namespace: str) -> Amount:
    total = resources.NOTHING
    for pod in view.pods.in_namespace(namespace).values():
        if pod.status.phase not in _ENDED:
            total += resources.of_pod(pod.spec)
    doors = _doors(view.services.in_namespace(namespace).values())
    return amount_of(total) + Amount(nodeports=doors)


def node_rooms(view: ClusterCache) -> list[NodeRoom]:
    """Every node with what no pod (foreign ones included) has asked for."""
    found = []
    for (_, name), node in view.nodes.watch.items.items():
        allocatable = amount_of(view.allocatable_of(name))
        free = allocatable - amount_of(view.requested_on(name))
        found.append(
            node_room(
                name,
                allocatable,
                free,
                takes_pods=is_ready(node) and not node.spec.unschedulable,
                taints=((taint.key, taint.effect) for taint in node.spec.taints),
            )
        )
    return found


def is_ready(node: objects.KubeNode) -> bool:
    """Whether the node reports itself fit for pods."""
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


# --- verdicts ---
def verdicts(
    queue: Queue, room: Room, now: datetime, *, most: int
) -> list[tuple[QueuedJob, Verdict]]:
    """One verdict for each queued job, in order, until `most` of them are admitted. Pure."""
    by_id = {job.waiting.job_id: job for job in queue.queued}
    waiting = [job.waiting for job in queue.queued]
    return [(by_id[v.job_id], v) for v in decide(waiting, room.tenants, room.nodes, now, most=most)]


def reason_of(fit: Fit) -> Reason:
    """A verdict's words with the next step from the table."""
    next_step = reasons.ROWS[fit.code][1] if fit.code in reasons.ROWS else ""
    return Reason(fit.code, fit.text, next_step)
