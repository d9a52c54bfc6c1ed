"""The loop that holds the lease and makes the cluster follow the database.

One tick: what finished steps found out and what the rows say -> observe (on the event loop) -> plan
(pure) -> commit all changed rows in one transaction -> start the steps. Steps of different
workloads run side by side and never hold up a tick. A tick comes at most 100 ms after a change, a message or a
timer, and every 10 s anyway; with nothing to do it costs one small query.

What may fail: one workload (fenced, tried again with growing waits), the cluster (everything waits, and
the health row says why), the lease (everything stops; the supervisor starts the loop anew).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Literal
from uuid import UUID

from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connections
from django.utils import timezone

from jobs.archive.purged import forget_of_tenant
from jobs.engine.admission import AdmissionPass
from jobs.engine.controller import Controller
from jobs.engine.dry_runs import DryRunsPass
from jobs.engine.estimates import EstimatesPass
from jobs.engine.executor import Executor
from jobs.engine.health import HealthReporter
from jobs.engine.metrics import COLLECTOR, Fleet
from jobs.engine.nodes import NodesPass
from jobs.engine.rows import ChangedRow
from jobs.engine.secrets import SecretsPass
from jobs.kinds.registry import KINDS
from jobs.leader.clock import SteadyClock
from jobs.leader.lease import POLL_S, RENEW_S, Lease
from jobs.models import ReconcilerLease
from jobs.retention import Pruned, prune
from jobs.usage.recorder import UsageRecorder
from portal import live, metrics, supervise
from portal.cluster.cache import ClusterCache, ClusterChanges
from portal.cluster.client import Cluster
from portal.cluster.errors import CredentialsError
from portal.database.postgres.patience import patience
from portal.log_lines import note
from portal.process import process
from tenants.reconcile.controller import TenantController

log = logging.getLogger(__name__)

ResyncAt = Literal["", "heard", "safety", "start"]
TICK_S = 0.1  # between two ticks at least
SAFETY_S = 10.0  # between two looks around although nothing was heard
_TENANTS_SAFETY_S = 60.0
_AFTER_DATABASE_ERROR_S = 1.0
_AFTER_LAYER_ERROR_S = 2.0
_HEALTH_S = 1.0  # between two looks at whether the cluster answers
_ANSWER_S = 10.0  # a cluster that has not been listed by then is a problem to tell
_PRUNE_LOOK_S = 600.0  # between two looks at whether it is night
_PRUNE_HOUR = 3  # UTC
_PRUNE_STATEMENT_S = 120.0
_REJOIN_S = 3600.0  # channel layers forget group members that say nothing for a day


class Reconciler:
    """One reconciler; `run` until `stop` is set. Several may run: one works, the others wait."""

    def __init__(
        self,
        *,
        kubeconfig: str | None = None,
        connect: Callable[[str], Awaitable[Cluster]] = Cluster.connect,
        lease: Lease | None = None,
    ) -> None:
        self._kubeconfig = settings.KUBECONFIG if kubeconfig is None else kubeconfig
        self._connect = connect
        self._lease = lease or Lease()
        self.is_active = False

    async def run(self, stop: asyncio.Event) -> None:
        """Waits for the lease, then works until `stop` is set.

        Raises:
            LeaseLostError: another reconciler took over; start again to wait for one's turn.
            CredentialsError: there is no cluster to speak to.
        """
        note(epoch=None)
        if not await self._acquire(stop):
            return
        note(epoch=self._lease.epoch)
        log.info("reconciling, epoch %s", self._lease.epoch)
        try:
            cluster = await self._open_cluster()
            try:
                self.is_active = True
                metrics.RECONCILER_ACTIVE.set(1)
                process.ticked_at, process.is_synced = time.monotonic(), False
                await LeaderRun(cluster, self._lease).run(stop)
            finally:
                self.is_active = False
                metrics.RECONCILER_ACTIVE.set(0)
                process.ticked_at = process.is_synced = None
                await cluster.close()
        finally:
            with suppress(DatabaseError):
                await self._lease.release()

    async def _open_cluster(self) -> Cluster:
        try:
            return await self._connect(self._kubeconfig)
        except CredentialsError as error:
            await self._lease.commit(partial(_write_health, error.message))
            raise

    async def _acquire(self, stop: asyncio.Event) -> bool:
        while not stop.is_set():
            try:
                if await self._lease.try_acquire():
                    return True
            except DatabaseError as error:
                log.warning("the lease cannot be read: %s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), POLL_S)
        return False


def _prune() -> list[Pruned]:
    """`prune` with a connection of its own, which is not kept. Blocking."""
    # This thread is the web's another time, whose few seconds may not do for a year's rows.
    connections.close_all()
    patience.of_thread = _PRUNE_STATEMENT_S
    try:
        return prune()
    finally:
        patience.of_thread = None
        connections.close_all()


class LeaderRun:
    """The time between taking the lease and giving it back: one connection, one cache."""

    def __init__(self, cluster: Cluster, lease: Lease, clock: SteadyClock | None = None) -> None:
        self._lease = lease
        self._clock = clock or SteadyClock()
        self._cache = ClusterCache(cluster)
        self._wanted = asyncio.Event()  # a message, a finished step, a timer of a part
        self._heard = True  # somebody may have changed the database
        pod_groups = self._cache.pod_groups.watch
        executor = Executor(cluster, lease.check, lambda: pod_groups.is_served)
        self._workloads = Controller(self._cache, executor, lease, self._clock, self._wanted.set)
        self._admission = AdmissionPass(self._cache, lease, self._clock)
        self._estimates = EstimatesPass(self._admission, lease, self._clock)
        self._usage = UsageRecorder(self._cache, lease, self._clock)
        self._tenants = TenantController(self._cache, cluster, lease, forget_of_tenant)
        self._tenants_changes = ClusterChanges()
        self._tenants_wanted = asyncio.Event()
        self._secrets = SecretsPass(cluster, lease)
        self._dry_runs = DryRunsPass(cluster, lease)
        self._nodes = NodesPass(self._cache, lease)
        self._nodes_untold = False
        self._health = HealthReporter(cluster, self._cache, self._workloads.report)
        self._fleet = Fleet(
            *(lease.epoch, self._cache, self._workloads, self._admission, self._nodes),
            *(self._tenants, self._health),
        )
        self._problem = ""
        self._has_told: bool | None = None  # that there is a problem; None: nothing yet
        self._began_at = time.monotonic()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set, or a part fails for good."""
        await self._usage.begin()
        await self._health.begin()
        parts: list[Coroutine[Any, Any, None]] = [
            self._cache.run(),
            self._keep_lease(),
            self._listen(),
            self._tend_tenants(),
            self._secrets.run(),
            self._dry_runs.run(),
            self._estimates.run(),
            self._health.run(),
            self._tick_forever(stop),
            self._prune_nightly(),
        ]
        tasks = [asyncio.create_task(part) for part in parts]
        COLLECTOR.fleet = self._fleet
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            if COLLECTOR.fleet is self._fleet:
                COLLECTOR.fleet = None
            await supervise.end(tasks)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._workloads.close(), RENEW_S)

    # --- parts beside the tick ---
    async def _keep_lease(self) -> None:
        """Renews the lease and keeps the health row true.

        Raises:
            LeaseLostError: it is another's, or could not be renewed in time.
        """
        renewed_at = time.monotonic()
        while True:
            # A watch that fails makes no event, and people should hear of an outage soon.
            await asyncio.sleep(_HEALTH_S)
            try:
                await self._note_health()
                is_due = time.monotonic() - renewed_at >= RENEW_S
                if await self._report_health(is_due=is_due):
                    renewed_at = time.monotonic()
                await self._tell_nodes()
            except DatabaseError as error:
                log.warning("the lease cannot be renewed: %s", error)
                self._lease.check()

    async def _listen(self) -> None:
        """Hears that somebody changed the database. What is missed, the safety pass finds."""
        while True:
            try:
                await self._hear()
            except Exception as error:  # noqa: BLE001  the named fence: we are only slower without
                live.tell_away(error)
                await asyncio.sleep(_AFTER_LAYER_ERROR_S)

    async def _hear(self) -> None:
        """Listens on one channel until it has been silent for so long that it may be forgotten."""
        layer = get_channel_layer()
        # A receive that is given up ends its channel (channels_redis), so each turn has its own.
        channel = await layer.new_channel("reconciler")
        await layer.group_add(live.RECONCILER_GROUP, channel)
        try:
            while True:
                await asyncio.wait_for(layer.receive(channel), _REJOIN_S)
                self._heard = True
                self._wanted.set()
        except TimeoutError:
            await layer.group_discard(live.RECONCILER_GROUP, channel)

    async def _tend_tenants(self) -> None:
        """Tenants have a loop of their own: making one may take seconds."""
        whole_at = float("-inf")
        again_s: float | None = None
        while True:
            until_whole_s = max(0.0, whole_at + _TENANTS_SAFETY_S - time.monotonic())
            wait_s = until_whole_s if again_s is None else min(again_s, until_whole_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._tenants_wanted.wait(), wait_s)
            self._tenants_wanted.clear()
            if not self._cache.synced:
                await self._cache.wait_synced()
            everything = time.monotonic() - whole_at >= _TENANTS_SAFETY_S
            changes, self._tenants_changes = self._tenants_changes, ClusterChanges()
            try:
                again_s = await self._tenants.run_once(changes, everything=everything)
            except DatabaseError as error:
                log.warning("tenants cannot be tended: %s", error)
                again_s, everything = _AFTER_DATABASE_ERROR_S, False
                whole_at = float("-inf")
            if everything:
                whole_at = time.monotonic()

    async def _prune_nightly(self) -> None:
        """Removes what is past its time, once a day in the small hours, or soon after a start."""
        done_on = None
        while True:
            await asyncio.sleep(_PRUNE_LOOK_S)
            now = timezone.now()
            if now.hour < _PRUNE_HOUR or done_on == now.date():
                continue
            try:
                # Not in the thread that the ticks share: it may take long.
                removed = await asyncio.to_thread(_prune)
            except Exception as error:  # noqa: BLE001  the named fence: the next look tries again
                log.warning("what is past its time cannot be removed: %r", error)
                continue
            done_on = now.date()
            self._heard = True  # trainings to delete
            self._wanted.set()
            counts = ", ".join(f"{row.count} {row.what}" for row in removed if row.count)
            if counts:
                log.info("removed what was past its time: %s", counts)

    # --- the tick ---
    async def _tick_forever(self, stop: asyncio.Event) -> None:
        safe_at = float("-inf")
        was_synced = False
        while not stop.is_set():
            started_at = time.monotonic()
            is_safety = started_at - safe_at >= SAFETY_S
            is_start = self._cache.synced and not was_synced
            heard: ResyncAt = "heard" if self._heard else ""
            try:
                await self.tick("start" if is_start else "safety" if is_safety else heard)
                was_synced = was_synced or is_start
                safe_at = started_at if is_safety else safe_at
            except DatabaseError as error:
                log.warning("the database cannot be used: %s", error)
                self._heard = True
                await asyncio.sleep(_AFTER_DATABASE_ERROR_S)
            process.ticked_at, process.is_synced = time.monotonic(), self._cache.synced
            await asyncio.sleep(max(0.0, started_at + TICK_S - time.monotonic()))
            await self._wait(stop, safe_at + SAFETY_S - time.monotonic())

    async def tick(self, at: ResyncAt) -> None:
        """One pass over what changed.

        Args:
            at: what is asked of the database, see `Controller.resync`; empty: nothing, only
                what the cache and finished steps reported.
        """
        began_at = time.monotonic()
        self._wanted.clear()
        changes = self._take_changes()
        if at:
            self._heard = False
            await sync_to_async(close_old_connections)()
            await self._workloads.resync(at=at)
            self._admission.note(added=True)
            self._secrets.wanted.set()
            self._dry_runs.wanted.set()
            self._tenants_wanted.set()
        elif changes:
            self._admission.note(added=False)
        changed = await self._workloads.run_once()
        if changed:
            self._admission.note(added=True)
        admitted = await self._admission.run_once()
        self._workloads.enqueue(row.workload_id for row in admitted)
        await self._usage.run_once(everything=at in {"safety", "start"})
        self._nodes.note((), everything=at == "start")
        self._nodes_untold |= await self._nodes.run_once()
        await self._tell([*changed, *admitted])
        await self._note_health()
        self._health.ticks.note(changes.heard_at, began_at)

    def _take_changes(self) -> ClusterChanges:
        changes = self._cache.take_changes()
        owners = [owner for owner in map(_uuid, changes.owners) if owner is not None]
        self._workloads.enqueue(owners)
        self._usage.note(changes.owners)
        self._nodes.note(changes.nodes)
        for pod in self._cache.take_deleted_pods():
            owner = _uuid(pod.metadata.owner)
            if owner is not None:
                self._workloads.note_deleted_pod(owner, pod)
                self._usage.note_deleted_pod(pod)
        # What belongs to no workload may be a tenant's; pods change far more often.
        others = {str(owner) for owner in owners if not self._workloads.knows(owner)}
        if others:
            self._tenants_changes.owners |= others
            self._tenants_wanted.set()
        return changes

    async def _wait(self, stop: asyncio.Event, safety_s: float) -> None:
        """Until something is to be done, at most `safety_s`."""
        waits = [safety_s]
        parts = (self._workloads, self._admission)
        waits += [due_s for one in parts if (due_s := one.next_due_s()) is not None]
        events = (self._cache.changed, self._wanted, stop)
        if min(waits) <= 0 or any(event.is_set() for event in events):
            return
        tasks = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(tasks, timeout=min(waits), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def _tell(self, changed: list[ChangedRow]) -> None:
        """Tells browsers; one that misses it is repaired by the revision."""
        last = {row.workload_id: row for row in changed}
        for row in last.values():
            if row.kind in KINDS:  # a row of a later version may be there
                about = (KINDS[row.kind].record_kind, row.workload_id, row.revision, row.tenant_id)
                await live.achanged(*about, row.kind)

    # --- nodes, health ---
    async def _tell_nodes(self) -> None:
        """Once a second at most: everybody's page of nodes reads them all anew."""
        if self._nodes_untold:
            self._nodes_untold = False
            await live.tell_everybody("nodes", live.revision_now())

    async def _note_health(self) -> None:
        """Writes at once when the cluster was lost or came back; every page has the banner.

        At the beginning, too: pages of before may say that there is no reconciler.
        """
        problem = self._cache.problem
        is_late = time.monotonic() - self._began_at > _ANSWER_S
        if not self._cache.synced and not problem and is_late:
            problem = "The cluster has not answered yet."
        is_known = self._cache.synced or bool(problem)
        if is_known and bool(problem) != self._has_told:
            self._problem = problem
            if self._has_told:
                self._workloads.retry_now()
            await self._lease.commit(partial(_write_health, problem))
            await live.tell_everybody("cluster", live.revision_now())
            self._has_told = bool(problem)
        self._problem = problem

    async def _report_health(self, *, is_due: bool) -> bool:
        """Renews the lease with the report, when that is due or there is news; whether it did."""
        report = self._health.report() if is_due else self._health.news()
        if report is None:
            return False
        await self._lease.commit(partial(_write_health, self._problem, report))
        self._health.wrote(report)
        await live.achanged("health", "", live.revision_now(), "")
        return True


def _write_health(problem: str, report: dict[str, Any] | None = None) -> None:
    """Blocking; inside `Lease.commit`."""
    columns: dict[str, Any] = {"cluster_error": problem}
    if report is not None:
        columns["health"] = report
    if not problem:
        columns["cluster_ok_at"] = timezone.now()
    ReconcilerLease.objects.filter(pk=1).update(**columns)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
