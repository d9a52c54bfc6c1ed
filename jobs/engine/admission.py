"""Admission: the one place where queued workloads are given room. First come, first served.

Four parts: what the database knows (`store.read_queue`), what the cache shows (`read_capacity`, on the
event loop), the decisions (pure), and their writing, in one transaction that also checks the lease's
epoch. Nobody but the reconciler that holds the lease admits, so nothing can come in between but a
person's stop or delete, for which each row is looked at again as it is written.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeVar
from uuid import UUID

import msgspec
from asgiref.sync import sync_to_async
from django.conf import settings

from jobs.engine import manifests, store
from jobs.engine.rows import Admitted, Change, ChangedRow, Queue, TenantQueue
from jobs.kinds.registry import KINDS
from jobs.kinds.state import Observed, WorkloadRow
from jobs.leader.clock import SteadyClock
from jobs.leader.lease import Lease
from jobs.rules import reasons
from jobs.rules.admission import (
    RESOURCES,
    Amount,
    Fit,
    NodeCapacity,
    ReplicaRequest,
    is_selected,
    node_capacity,
    reserve,
    total_of,
)
from jobs.rules.queue import Decision, QuotaHeadroom, decide
from jobs.rules.reasons import Reason
from portal import metrics
from portal.cluster import objects, resources
from portal.cluster.cache import ClusterCache
from portal.cluster.resources import Resources
from portal.errors import ConfigurationError
from tenants.manifests import QUOTA, observed

log = logging.getLogger(__name__)

T = TypeVar("T")

_GAP_S = 0.5  # between two looks at a queue that nobody has added to
# A look costs what the queue, the nodes and all that runs are many. A costly one is followed by a
# rest of so many times its processor time: it takes a tenth of a core then, and not the whole.
_COSTLY_S = 0.1
_REST_TIMES = 10
_REST_MOST_S = 10.0
_AT_ONCE = 10  # admissions in one transaction: rendering takes its time, and others want to write
_ROWS_AT_ONCE = 500  # in one query
# A quota that does not name a resource does not limit it.
_UNLIMITED = 2**62
_ENDED = frozenset({"Succeeded", "Failed"})


class AdmissionPass:
    """Remembers whether there is a queue, and when it was last looked at."""

    def __init__(self, cache: ClusterCache, lease: Lease, clock: SteadyClock) -> None:
        self._cache = cache
        self._lease = lease
        self._clock = clock
        self._is_empty = False
        self._is_wanted = True
        self._looked_at: datetime | None = None
        self._took_s = 0.0
        self._is_urgent = True
        self._not_before: datetime | None = None
        self._oldest: datetime | None = None  # since when the first of the queue waits

    def note(self, *, added: bool) -> None:
        """Room or the queue changed; `added` when the queue itself may have grown."""
        if added:
            self._is_empty = False
            self._is_urgent = True
        self._is_wanted = True

    def next_due_s(self) -> float | None:
        """Seconds until it wants to be called; None: only after `note`."""
        if self._is_empty:
            return None
        if self._is_wanted and self._looked_at is None:
            return 0.0
        waits = []
        now = self._clock.now()
        if self._is_wanted and self._looked_at is not None:
            waits.append(self._gap_s - (now - self._looked_at).total_seconds())
        if self._not_before is not None:
            waits.append((self._not_before - now).total_seconds())
        return max(0.0, min(waits)) if waits else None

    @property
    def _gap_s(self) -> float:
        is_costly = self._took_s > _COSTLY_S
        rest_s = min(self._took_s * _REST_TIMES, _REST_MOST_S) if is_costly else 0.0
        return rest_s if self._is_urgent else max(_GAP_S, rest_s)

    async def run_once(self) -> list[ChangedRow]:
        """Looks at the queue if that is due; returns the workloads whose rows changed."""
        due_s = self.next_due_s()
        if due_s is None or due_s > 0:
            return []
        self._is_urgent = False
        queue, read_s = await sync_to_async(_measured)(store.read_queue)
        self._is_empty = not queue.queued
        self._oldest = None
        if not queue.queued:
            self._is_wanted, self._took_s = False, 0.0
            return []
        now = self._clock.now()
        times = [queued.not_before for queued in queue.queued]
        self._not_before = min((at for at in times if at is not None and at > now), default=None)
        found, packed_s = await self._decide(queue, now)
        self._looked_at, self._took_s = self._clock.now(), read_s + packed_s
        admissions = admissions_of(found)
        admitted = {one.queued.workload_id for one in found if one.fit.kind == "now"}
        written: list[ChangedRow] = []
        if admissions:
            written = await self._lease.commit(partial(write, admissions, now))
        since = [one.queued_at for one in queue.queued if one.workload_id not in admitted]
        self._oldest = min(since, default=None)
        self._note_waits(queue, {str(row.workload_id) for row in written} & admitted, now)
        self._is_wanted = len(found) < len(queue.queued)
        if self._is_wanted:  # the others are not kept waiting
            self._is_urgent, self._took_s = True, 0.0
        return written

    def oldest_s(self) -> float:
        """For how many seconds the first of the queue has waited; 0: there is none."""
        since = self._oldest
        return 0.0 if since is None else max(0.0, (self._clock.now() - since).total_seconds())

    @staticmethod
    def _note_waits(queue: Queue, admitted: set[str], now: datetime) -> None:
        for one in queue.queued:
            if one.workload_id in admitted:
                metrics.JOB_WAIT_SECONDS.observe(max(0.0, (now - one.queued_at).total_seconds()))

    async def _decide(self, queue: Queue, now: datetime) -> tuple[list[Decision], float]:
        """The decisions, and seconds of processor time."""
        if not self._cache.synced or self._cache.problem:
            words = reasons.make("cluster_unreachable")
            waits = Fit("later", words.code, words.text)
            return [Decision(queued, waits) for queued in queue.queued], 0.0
        capacity, read_s = _measured(partial(read_capacity, self._cache, queue))
        # Packing a long queue takes its time, and the event loop has viewers to serve.
        pack = partial(decide, queue.queued, capacity.tenants, capacity.nodes, now, most=_AT_ONCE)
        found, pack_s = await asyncio.to_thread(_measured, pack)
        return found, read_s + pack_s


def _measured(work: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and the processor time that it took in seconds; other threads do not count."""
    began_s = time.thread_time()
    return work(), time.thread_time() - began_s


# --- what the cache shows ---
@dataclass(frozen=True)
class Capacity:
    """What quotas and nodes have left; tenants by their ids."""

    tenants: Mapping[str, QuotaHeadroom]
    nodes: tuple[NodeCapacity, ...]


def read_capacity(cache: ClusterCache, queue: Queue) -> Capacity:
    """Quotas and nodes, less what is admitted but not there yet. On the event loop."""
    invisible: dict[str, Amount] = {}
    unplaced: list[ReplicaRequest] = []
    for admitted in queue.admitted:
        missing, unbound = _outstanding(cache, admitted)
        held = invisible.get(admitted.namespace, Amount())
        seen = node_ports(cache.services.of_owner(admitted.workload_id))
        ports = max(0, total_of(admitted.requests).nodeports - seen)
        pods = total_of(missing).on_node
        invisible[admitted.namespace] = held + pods + Amount(nodeports=ports)
        unplaced += [*missing, *unbound]
    tenants = {
        tenant.tenant_id: _quota_headroom(cache, tenant, invisible.get(tenant.namespace, Amount()))
        for tenant in queue.tenants
    }
    return Capacity(tenants, tuple(reserve(unplaced, node_capacities(cache))))


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
    return QuotaHeadroom(hard, hard - used.largest(seen) - invisible)


def _limits(counted: Mapping[str, int]) -> Amount:
    return Amount(**{resource: counted.get(resource, _UNLIMITED) for resource in RESOURCES})


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


def node_capacities(cache: ClusterCache) -> list[NodeCapacity]:
    """Every node with what no pod (foreign ones included) has asked for."""
    found = []
    for (_, name), node in cache.nodes.watch.items.items():
        allocatable = amount_of(cache.allocatable_of(name))
        free = allocatable - amount_of(cache.requested_on(name))
        found.append(
            node_capacity(
                name,
                allocatable,
                free,
                takes_pods=is_ready(node)
                and not node.spec.unschedulable
                and is_selected(node.metadata.labels, settings.NODE_SELECTOR),
                taints=((taint.key, taint.effect) for taint in node.spec.taints),
            )
        )
    return found


def is_ready(node: objects.KubeNode) -> bool:
    """Whether the node reports itself fit for pods."""
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)


# --- what is written ---
@dataclass(frozen=True)
class Admission:
    """What is decided of one workload and differs from what its row says."""

    workload_id: UUID
    fit: Fit


def reason_of(fit: Fit) -> Reason:
    """The words of a decision with the next step from the table."""
    next_step = reasons.ROWS[fit.code][1] if fit.code in reasons.ROWS else ""
    return Reason(fit.code, fit.text, next_step)


def admissions_of(decisions: Sequence[Decision]) -> list[Admission]:
    """The decisions that have to be written."""
    return [
        Admission(UUID(one.queued.workload_id), one.fit)
        for one in decisions
        if one.fit.kind == "now" or reason_of(one.fit) != one.queued.shown
    ]


def write(admissions: Sequence[Admission], now: datetime) -> list[ChangedRow]:
    """Writes each; a workload that cannot be rendered fails and stops no other.

    Blocking; called inside `Lease.commit`. A row is not changed when its workload was stopped, deleted,
    started anew or admitted meanwhile.
    """
    queued: dict[UUID, WorkloadRow] = {}
    for first in range(0, len(admissions), _ROWS_AT_ONCE):
        chosen = admissions[first : first + _ROWS_AT_ONCE]
        queued |= store.load_queued([one.workload_id for one in chosen])
    return store.fenced(admissions, partial(_write_one, queued, now))


def _write_one(
    queued: Mapping[UUID, WorkloadRow], now: datetime, admission: Admission
) -> ChangedRow | None:
    row = queued.get(admission.workload_id)
    if row is None:
        return None
    lifecycle = KINDS[row.kind].lifecycle
    documents = None
    if admission.fit.kind != "now":
        made = lifecycle(row, Observed(), now).keep_waiting(reason_of(admission.fit))
    else:
        made = lifecycle(row, Observed(), now).admit()
        try:
            documents = manifests.render(admission.workload_id, row.attempt, made.deadline_s)
        except (ConfigurationError, ValueError, msgspec.ValidationError) as error:
            log.exception("%s %s cannot be rendered", row.kind, row.id)
            reason = reasons.make("refused", detail=str(error))
            made = lifecycle(row, Observed(), now).refuse(reason)
    return store.save_admission(Change(admission.workload_id, made, now), documents)
