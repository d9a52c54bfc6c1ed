"""Admission: the one place where queued workloads are given room.

Four parts: what the database knows (`queue_rows`), what the cache shows (`capacity`, on the event
loop), the decisions (`rules.queue`, pure), and their writing, in one transaction that also checks the
lease's epoch. Nobody but the reconciler that holds the lease admits, so nothing can come in between but a
person's stop or delete, for which each row is looked at again as it is written.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import TypeVar
from uuid import UUID

import msgspec
from asgiref.sync import sync_to_async

from jobs.engine import manifests, queue_rows, reservations, store
from jobs.engine.capacity import node_capacities, read_capacity
from jobs.engine.rows import Change, ChangedRow, Kept, Queue, TenantQueue
from jobs.kinds.manifests import Grant
from jobs.kinds.registry import KINDS
from jobs.kinds.state import Observed, WorkloadRow
from jobs.leader.clock import SteadyClock
from jobs.leader.lease import Lease
from jobs.rules import reasons
from jobs.rules.admission import Fit
from jobs.rules.amounts import Amount
from jobs.rules.queue.look import (
    Decision,
    Looked,
    QueueSnapshot,
    QuotaHeadroom,
    backing_off,
    look,
    size_of,
)
from jobs.rules.queue.state import (
    LOW,
    NamespaceState,
    Preemption,
    QueueRules,
    TeamState,
    total,
)
from jobs.rules.reasons import Reason
from jobs.usage.shares import Shares
from portal import metrics
from portal.catalog import get_catalog
from portal.cluster.cache import ClusterCache
from portal.errors import ConfigurationError
from portal.pools import Pool

log = logging.getLogger(__name__)

T = TypeVar("T")

_GAP_S = 0.5  # between two looks at a queue that nobody has added to
# A look costs what the queue, the nodes and all that runs are many. A costly one is followed by a
# rest of so many times its processor time: it takes a tenth of a core then, and not the whole.
_COSTLY_S = 0.1
_REST_TIMES = 10
_REST_MOST_S = 10.0
# Admissions in one transaction: rendering takes its time, and others want to write. Pods in ten seconds:
# the scheduler and the kubelets take their time, too.
RULES = QueueRules(most=10, most_pods=200)
_PODS_FOR = timedelta(seconds=10)
_SHARES_FOR = timedelta(minutes=1)  # so old what was held of late may be
_ROWS_AT_ONCE = 500  # in one query


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
        # The last look; None: there was none (`has_looked` tells), or nothing is queued.
        self.looked: Looked | None = None
        self.has_looked = False
        self._oldest: datetime | None = None  # since when the first of the queue waits
        # By workload, for as long as it may still lack pods: what of which node it was admitted to.
        self._planned: dict[str, Mapping[str, Amount]] = {}
        self._started: list[tuple[datetime, int]] = []  # when, and how many pods
        self._shares = Shares()
        self._shares_at: datetime | None = None

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
        if not self._cache.synced and not self._cache.problem:
            # Nothing is known of the cluster yet, for good or ill; when all is listed, that is noted.
            self._is_wanted = False
            return []
        self._is_urgent = False
        now = self._clock.now()
        try:
            pools, wrong = get_catalog().pools, ""
        except ConfigurationError as error:
            pools, wrong = (), str(error)
        read = partial(queue_rows.read_queue, now, pools)
        queue, read_s = await sync_to_async(measured)(read)
        self._is_empty = not (queue.queued or queue.holds)
        self._oldest = None
        if self._is_empty:
            self._is_wanted, self._took_s, self.looked = False, 0.0, None
            self.has_looked = True
            return []
        if queue.chosen.fair_share and not wrong:
            await self._read_shares(now, pools)
        looked, packed_s = await self._decide(queue, now, pools, wrong)
        self.looked = looked if queue.queued else None
        self.has_looked = True
        found = looked.decisions
        self._not_before = looked.look_at
        self._looked_at, self._took_s = self._clock.now(), read_s + packed_s
        admissions = admissions_of(found)
        admitted = {one.queued.workload_id for one in found if one.fit.kind == "now"}
        kept, stops = newly_kept(queue.kept, looked), looked.preemptions
        written: list[ChangedRow] | None = []
        if admissions or stops or kept is not None:
            ends = {one.workload_id: one.ends_by for one in queue.admitted}
            known = partial(write, admissions, now, kept, stops, ends, queue.holds)
            written = await self._lease.commit(known)
        if written is None:
            self._is_wanted = self._is_urgent = True
            return []
        since = [one.queued_at for one in queue.queued if one.workload_id not in admitted]
        self._oldest = min(since, default=None)
        is_written = {str(row.workload_id) for row in written} & admitted
        holding = {one.workload_id for one in queue.admitted} | is_written
        new = {one.queued.workload_id: one.nodes for one in found if one.fit.kind == "now"}
        self._note_starts(found, is_written, now)
        self._planned = {pk: on for pk, on in (self._planned | new).items() if pk in holding}
        self._note_waits(queue, is_written, now)
        self._is_wanted = len(found) < len(queue.queued)
        is_due = looked.look_at is not None and looked.look_at <= now
        if self._is_wanted and is_due:  # the others are not kept waiting
            self._is_urgent, self._took_s = True, 0.0
        return written

    async def _read_shares(self, now: datetime, pools: Sequence[Pool]) -> None:
        if self._shares_at is None or now - self._shares_at > _SHARES_FOR:
            nodes = node_capacities(self._cache, pools)
            whole = total(size_of(node.allocatable) for node in nodes)
            self._shares = await sync_to_async(queue_rows.read_shares)(now, whole)
            self._shares_at = now

    def _note_starts(
        self, decisions: Sequence[Decision], admitted: set[str], now: datetime
    ) -> None:
        pods = sum(
            asked.count
            for one in decisions
            if one.queued.workload_id in admitted
            for asked in one.queued.requests
        )
        self._started = [one for one in self._started if one[0] > now - _PODS_FOR]
        if pods:
            self._started.append((now, pods))

    def oldest_s(self) -> float:
        """For how many seconds the first of the queue has waited; 0: there is none."""
        since = self._oldest
        return 0.0 if since is None else max(0.0, (self._clock.now() - since).total_seconds())

    @staticmethod
    def _note_waits(queue: Queue, admitted: set[str], now: datetime) -> None:
        for one in queue.queued:
            if one.workload_id in admitted:
                metrics.JOB_WAIT_SECONDS.observe(max(0.0, (now - one.queued_at).total_seconds()))

    async def _decide(
        self, queue: Queue, now: datetime, pools: Sequence[Pool], wrong: str
    ) -> tuple[Looked, float]:
        """The decisions, and seconds of processor time.

        Args:
            pools: of the catalog, which is read once for a look: it may be put aside at any moment.
            wrong: with the catalog; empty: nothing.
        """
        if wrong or self._cache.problem:
            words = reasons.make("cluster_unreachable")
            if wrong:
                words = reasons.make("catalog_wrong", detail=wrong)
            waits = Fit("later", words.code, words.text)
            decisions = [Decision(one, backing_off(one, now) or waits) for one in queue.queued]
            return Looked(decisions, (), queue.kept.reservations, queue.kept.claims, None), 0.0
        capacity, read_s = measured(
            partial(read_capacity, self._cache, queue, self._planned, pools)
        )
        waiting = QueueSnapshot(
            queue.queued,
            capacity.tenants,
            capacity.nodes,
            capacity.running,
            queue.kept.reservations,
            queue.kept.claims,
            queue.recent,
            sum(pods for at, pods in self._started if at > now - _PODS_FOR),
            *whose(queue.tenants, self._shares, capacity.tenants),
            queue.holds,
            guards=queue.guards,
        )
        chosen = queue.chosen
        rules = replace(RULES, fair_share=chosen.fair_share, aging_s=chosen.aging_s)
        # Packing a long queue takes its time, and the event loop has viewers to serve.
        found, pack_s = await asyncio.to_thread(measured, partial(look, waiting, now, rules=rules))
        return found, read_s + pack_s


def measured(work: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and the processor time that it took in seconds; other threads do not count."""
    began_s = time.thread_time()
    return work(), time.thread_time() - began_s


def newly_kept(before: Kept, looked: Looked) -> Kept | None:
    """What is kept from now on; None: the same as before, in whatever order."""
    is_same = set(looked.reservations) == set(before.reservations)
    if is_same and set(looked.claims) == set(before.claims):
        return None
    return Kept(tuple(looked.reservations), tuple(looked.claims))


def whose(
    tenants: Sequence[TenantQueue], shares: Shares, headrooms: Mapping[str, QuotaHeadroom]
) -> tuple[dict[str, NamespaceState], dict[str, TeamState]]:
    """Namespaces and teams by their ids; one without a team is a team of its own."""
    namespaces, teams = {}, {}
    held: dict[str, Amount] = defaultdict(Amount)
    for tenant in tenants:
        pk, name = tenant.tenant_id, tenant.team or tenant.tenant_id
        usage = shares.namespaces.get(UUID(pk), 0)
        namespaces[pk] = NamespaceState(pk, name, weight=tenant.weight, usage=usage)
        if tenant.team:
            usage = shares.teams.get(UUID(name), 0)
        headroom = headrooms.get(pk)
        if headroom is not None and headroom.hard is not None and headroom.left is not None:
            held[name] += headroom.hard - headroom.left
        team = TeamState(name, tenant.team_weight, usage)
        if tenant.budget is not None:
            team = replace(team, low_left=size_of(tenant.budget - held[name]))
        teams[name] = team  # the last of its members has all that they hold
    return namespaces, teams


# --- what is written ---
@dataclass(frozen=True)
class Admission:
    """What is decided of one workload and differs from what its row says."""

    workload_id: UUID
    fit: Fit
    ends_by: datetime | None = None
    avoided_nodes: tuple[str, ...] = ()
    found_nodes: tuple[str, ...] = ()
    had_claim: bool = False
    pools: Mapping[str, str] = field(default_factory=dict)
    is_low: bool = False


def reason_of(fit: Fit) -> Reason:
    """The words of a decision with the next step from the table."""
    next_step = reasons.ROWS[fit.code][1] if fit.code in reasons.ROWS else ""
    return Reason(fit.code, fit.text, next_step)


def admissions_of(decisions: Sequence[Decision]) -> list[Admission]:
    """The decisions that have to be written."""
    return [
        Admission(
            UUID(one.queued.workload_id),
            one.fit,
            one.ends_by,
            one.avoided_nodes,
            tuple(one.nodes),
            one.had_claim,
            one.pools,
            one.fit.kind == "now" and one.queued.priority == LOW,
        )
        for one in decisions
        if one.fit.kind == "now" or reason_of(one.fit) != one.queued.shown
    ]


def write(
    admissions: Sequence[Admission],
    now: datetime,
    kept: Kept | None = None,
    stops: Sequence[Preemption] = (),
    ends: Mapping[str, datetime | None] = MappingProxyType({}),
    holds: Mapping[str, int] = MappingProxyType({}),
) -> list[ChangedRow] | None:
    """Writes each; a workload that cannot be rendered fails and stops no other.

    Blocking; called inside `Lease.commit`. A row is not changed when its workload was stopped, deleted,
    started anew or admitted meanwhile.

    Args:
        kept: what is kept from now on; None: what was before.
        stops: who is stopped from now on, and for whom.
        ends: by workload: when its room is free, as the look saw it.
        holds: name of a node -> from when on it is held, as the look saw it.

    Returns:
        None: something that holds room may stay longer than that by now, or nodes are held otherwise, and
        nothing was written: what would be kept is promised for too early a time, or would start on a held node.
    """
    if reservations.load_holds() != holds or (kept is not None and store.stays_longer(ends)):
        return None
    if kept is not None:
        reservations.save(kept)
    queued: dict[UUID, WorkloadRow] = {}
    for first in range(0, len(admissions), _ROWS_AT_ONCE):
        chosen = admissions[first : first + _ROWS_AT_ONCE]
        queued |= store.load_queued([one.workload_id for one in chosen])
    admitted = store.fenced(admissions, partial(_write_one, queued, now))
    return admitted + [row for one in stops if (row := store.preempt(one, now)) is not None]


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
        row = replace(row, ends_by=admission.ends_by)
        made = lifecycle(row, Observed(), now).admit(
            had_claim=admission.had_claim, pools=admission.pools
        )
        made = replace(made, columns={**made.columns, "ends_by": admission.ends_by})
        try:
            grant = Grant(
                deadline_s=made.deadline_s,
                begins_at=now,
                avoided_nodes=admission.avoided_nodes,
                found_nodes=admission.found_nodes,
                pools=admission.pools,
            )
            documents = manifests.render(admission.workload_id, row.attempt, grant)
        except (ConfigurationError, ValueError, msgspec.ValidationError) as error:
            log.exception("%s %s cannot be rendered", row.kind, row.id)
            reason = reasons.make("refused", detail=str(error))
            made = lifecycle(row, Observed(), now).refuse(reason)
    change = Change(admission.workload_id, made, now)
    return store.save_admission(change, documents, is_low=admission.is_low)
