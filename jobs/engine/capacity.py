"""What quotas and nodes have left, and who holds what of them: read of the cache, on the event loop."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.conf import settings

from jobs.engine.rows import Admitted, Queue, TenantQueue
from jobs.rules import reasons
from jobs.rules.admission import in_order_of_filling, reserve, without
from jobs.rules.amounts import NO_LIMIT, RESOURCES, Amount, NodeCapacity, ReplicaRequest, total_of
from jobs.rules.nodes import capacity_of, is_selected
from jobs.rules.queue.holds import closed, held_before
from jobs.rules.queue.look import QuotaHeadroom, size_of
from jobs.rules.queue.state import NOTHING, RunningWorkload, Size, add, total
from jobs.rules.queue.times import seconds_of
from portal.cluster import objects, resources
from portal.cluster.cache import ClusterCache
from portal.cluster.resources import Resources
from portal.pools import Pool
from tenants.manifests import QUOTA, observed

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class Capacity:
    """What quotas and nodes have left; tenants by their ids."""

    tenants: Mapping[str, QuotaHeadroom]
    nodes: tuple[NodeCapacity, ...]
    running: tuple[RunningWorkload, ...] = ()


def read_capacity(
    cache: ClusterCache,
    queue: Queue,
    planned: Mapping[str, Mapping[str, Amount]],
    pools: Sequence[Pool],
) -> Capacity:
    """Quotas and nodes, less what is admitted but not there yet.

    Args:
        planned: by workload: what of which node it was admitted to.
        pools: of the catalog.
    """
    invisible: dict[str, Amount] = {}
    # Where what is still to come will come is a guess; what is kept or held it does not take.
    kept = {name for one in queue.kept.reservations for name, _ in one.room} | queue.holds.keys()
    nodes = in_order_of_filling(node_capacities(cache, pools, queue.guards.avoided), kept)
    running = []
    for admitted in queue.admitted:
        missing, unbound = _outstanding(cache, admitted)
        held = invisible.get(admitted.namespace, Amount())
        seen = node_ports(cache.services.of_owner(admitted.workload_id))
        ports = max(0, total_of(admitted.requests).nodeports - seen)
        pods = total_of(missing).on_node
        invisible[admitted.namespace] = held + pods + Amount(nodeports=ports)
        there = _held_by(cache, admitted.workload_id)
        on = {name: size_of(amount) for name, amount in there.items()}
        if coming := [*missing, *unbound]:
            shut = queue.guards.avoided | held_before(queue.holds, seconds_of(admitted.ends_by))
            plan = planned.get(admitted.workload_id)
            taken = {name: of.less(there.get(name)) for name, of in (plan or {}).items()}
            # The next attempt does not start where it was admitted to, once that is held or avoided.
            if plan is None or any(taken[name] != Amount() for name in taken.keys() & shut):
                _, taken = reserve(coming, closed(nodes, shut))
            nodes = without(nodes, taken)
            for name, amount in taken.items():
                on[name] = add(on.get(name, NOTHING), size_of(amount))
        if on:
            running.append(_running(admitted, on))
    tenants = {
        tenant.tenant_id: _quota_headroom(cache, tenant, invisible.get(tenant.namespace, Amount()))
        for tenant in queue.tenants
    }
    return Capacity(tenants, tuple(nodes), tuple(running))


def _held_by(cache: ClusterCache, workload_id: str) -> dict[str, Amount]:
    """What its pods hold of which node."""
    found: dict[str, Amount] = defaultdict(Amount)
    for pod in cache.pods.of_owner(workload_id):
        if pod.spec.node_name and pod.status.phase not in _ENDED:
            found[pod.spec.node_name] += amount_of(resources.of_pod(pod.spec))
    return found


def _running(admitted: Admitted, on: Mapping[str, Size]) -> RunningWorkload:
    return RunningWorkload(
        workload_id=admitted.workload_id,
        namespace=admitted.tenant_id,
        nodes=tuple(on.items()),
        total=total(on.values()),
        admitted_at_s=0 if admitted.admitted_at is None else seconds_of(admitted.admitted_at),
        ends_by_s=seconds_of(admitted.ends_by),
        is_low=admitted.is_low,
        grace_s=admitted.grace_s,
        gone_by_s=seconds_of(admitted.gone_by),
    )


def _outstanding(
    cache: ClusterCache, admitted: Admitted
) -> tuple[list[ReplicaRequest], list[ReplicaRequest]]:
    """Replicas without a pod, and replicas whose pod has no node."""
    live = [p for p in cache.pods.of_owner(admitted.workload_id) if p.status.phase not in _ENDED]
    roles = Counter(pod.metadata.labels.role for pod in live)
    free = Counter(pod.metadata.labels.role for pod in live if not pod.spec.node_name)
    missing, unbound = [], []
    for request in admitted.requests:
        count = request.count - roles[request.role] - admitted.ended.get(request.role, 0)
        if count > 0:
            missing.append(replace(request, count=count))
        if free[request.role]:
            unbound.append(replace(request, count=min(free[request.role], request.count)))
    return missing, unbound


def _quota_headroom(cache: ClusterCache, tenant: TenantQueue, invisible: Amount) -> QuotaHeadroom:
    if tenant.closed:
        code = "tenant_deleting" if tenant.closed == "deleting" else "tenant_suspended"
        return QuotaHeadroom(None, None, reasons.make(code).text, code)
    if not tenant.is_active:
        return QuotaHeadroom(None, None, reasons.make("tenant_not_ready").text, "tenant_not_ready")
    quota = cache.quotas.get(tenant.namespace, QUOTA)
    if quota is None or not quota.status.hard:
        return QuotaHeadroom(None, None)
    hard = _limits(observed(quota.status.hard))
    used = _amount(observed(quota.status.used))
    # A pod may be in the cache before the quota's count of it, or the other way round.
    seen = _held_in(cache, tenant.namespace)
    held = used.largest(seen) + invisible
    if tenant.quota is None:
        return QuotaHeadroom(hard, hard - held, by_weight=tenant.by_weight)
    own = hard.smallest(tenant.quota)
    return QuotaHeadroom(own, own - held, by_weight=tenant.by_weight, low_left=hard - held)


def _limits(counted: Mapping[str, int]) -> Amount:
    # A quota that does not name a resource does not limit it.
    return Amount(**{resource: counted.get(resource, NO_LIMIT) for resource in RESOURCES})


def _amount(counted: Mapping[str, int]) -> Amount:
    return Amount(**{resource: counted.get(resource, 0) for resource in RESOURCES})


def node_ports(services: Iterable[objects.KubeService]) -> int:
    """How many NodePorts they hold."""
    return sum(len(seen.spec.ports) for seen in services if seen.spec.type == "NodePort")


def amount_of(held: Resources) -> Amount:
    """The same numbers under admission's names."""
    return Amount(held.cpu_millicores, held.memory_bytes, held.gpu_count, held.pods)


def _held_in(cache: ClusterCache, namespace: str) -> Amount:
    total = resources.NOTHING
    for pod in cache.pods.in_namespace(namespace).values():
        if pod.status.phase not in _ENDED:
            total += resources.of_pod(pod.spec)
    ports = node_ports(cache.services.in_namespace(namespace).values())
    return amount_of(total) + Amount(nodeports=ports)


def node_capacities(
    cache: ClusterCache, pools: Sequence[Pool], avoided: Collection[str] = ()
) -> list[NodeCapacity]:
    """Every node with what no pod (foreign ones included) has asked for.

    Args:
        pools: of the catalog.
        avoided: names of nodes on which nothing new starts.
    """
    found = []
    for (_, name), node in cache.nodes.watch.items.items():
        allocatable = amount_of(cache.allocatable_of(name))
        free = allocatable - amount_of(cache.requested_on(name))
        found.append(
            capacity_of(
                NodeCapacity(name, allocatable, free),
                takes_pods=is_ready(node)
                and not node.spec.unschedulable
                and name not in avoided
                and is_selected(node.metadata.labels, settings.NODE_SELECTOR),
                labels=node.metadata.labels,
                taints=((taint.key, taint.value, taint.effect) for taint in node.spec.taints),
                known=pools,
            )
        )
    return found


def is_ready(node: objects.KubeNode) -> bool:
    """Whether the node reports itself fit for pods."""
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
