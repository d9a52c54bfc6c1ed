"""Makes the cluster follow the tenants' rows, and the rows show what the cluster has.

Level-triggered: each pass compares all wanted documents of a tenant with what the cache shows, so a
missed event costs a pass, never correctness. The objects of a tenant are done in order (the Namespace
first), several tenants at once. Whatever fails for one object or one tenant is tried again later, with
growing waits, and stops nothing else. Called by the reconciler once per tick; what blocks runs in threads.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async
from django.conf import settings
from django.utils import timezone

from portal import live
from portal.catalog import get_catalog
from portal.cluster import labels
from portal.cluster.cache import ClusterCache, ClusterChanges
from portal.cluster.client import Cluster
from portal.cluster.workqueue import WorkQueue
from portal.errors import ConfigurationError
from portal.log_lines import note
from portal.storage import get_store
from tenants import manifests
from tenants.models import Tenant
from tenants.quota import weights
from tenants.reconcile import blockers, purge, status, store
from tenants.reconcile.apply import Provisioner
from tenants.reconcile.capacity import capacity
from tenants.reconcile.objects import State
from tenants.reconcile.store import ObjectStatus, TenantQuery, TenantStatus, TenantUpdate

log = logging.getLogger(__name__)

T = TypeVar("T")

_AT_ONCE = 8  # tenants; each waits for one call at a time
_BACKOFF_S = (1.0, 20.0)  # of a tenant that cannot be looked at, with jitter
_ERASE_WAIT_S = 1.0  # until the next look tells whether the object store has done
_REMOVAL_S = 5.0  # between two looks at a namespace that somebody else is removing


class Writer(Protocol):
    """Who may write observed state: the reconciler that holds the lease."""

    async def commit(self, write: Callable[[], T]) -> T:
        """Runs `write` in a thread inside one transaction that also checks our epoch.

        Raises:
            Exception: the epoch is no longer ours; nothing was written.
        """
        ...


class TenantController:
    """Remembers between passes what it has seen and when it wants to try again."""

    def __init__(
        self,
        cache: ClusterCache,
        cluster: Cluster,
        writer: Writer,
        forget_stored: Callable[[UUID], bool],
    ) -> None:
        """
        Args:
            forget_stored: removes some of the rows that name what a tenant keeps in the object
                store, in a transaction; whether there are more.
        """
        self._cache = cache
        self._cluster = cluster
        self._writer = writer
        self._forget_stored = forget_stored
        self._provisioner = Provisioner(cache, cluster)
        self._revisions: dict[UUID, int] = {}
        self._queue = WorkQueue[str](time.monotonic, *_BACKOFF_S)  # ids as labels have them
        self._quiet_since: dict[UUID, float] = {}  # monotonic; closed tenants without workload
        self._states: dict[UUID, str] = {}
        self._erasing: dict[UUID, asyncio.Task[None]] = {}

    async def run_once(self, changes: ClusterChanges, *, everything: bool = False) -> float | None:
        """Reconciles the tenants that changed, are due or have a newer row; all of them on demand.

        Returns:
            Seconds until it wants to be called even if nothing changes; None: not before.
        """
        if not self._cache.synced:
            return None  # before the first list, absence means nothing
        self._queue.add(*changes.owners)
        keys = self._queue.get()
        is_over = False
        try:
            await self._look_at(TenantQuery(everything, frozenset(keys), dict(self._revisions)))
            is_over = True
        finally:
            if not is_over:
                self._queue.add(*keys)
            for key in keys:
                self._queue.done(key)
        return self._queue.next_s()

    async def _split_by_weight(self) -> None:
        """Gives the namespaces whose quota is by weight their parts of the cluster as it is now."""
        if (
            not (namespaces := await sync_to_async(weights.read_namespaces)())
            or self._cache.problem
        ):
            return
        nodes = self._cache.nodes.watch.items.values()
        try:
            pools = get_catalog().pools
        except ConfigurationError as error:  # the parts stay as they are
            log.warning("quotas by weight are not split anew: %s", error)
            return
        there = capacity(nodes, settings.NODE_SELECTOR, timezone.now(), pools)
        if await asyncio.to_thread(weights.changed_parts, there, namespaces):
            changed = await self._writer.commit(partial(weights.give_parts, there))
            for pk, revision in changed:
                await live.achanged("tenant", pk, revision, pk)

    async def _look_at(self, wanted: TenantQuery) -> None:
        await self._split_by_weight()
        tenants = await sync_to_async(store.load)(wanted)
        states = {tenant.pk: tenant.state for tenant in tenants}
        self._states = states if wanted.everything else self._states | states
        turns = asyncio.Semaphore(_AT_ONCE)
        found = await asyncio.gather(*(self._in_turn(turns, tenant) for tenant in tenants))
        updates = [update for update in found if update is not None]
        if updates:
            await self._write(updates)

    async def _write(self, updates: list[TenantUpdate]) -> None:
        if any(store.is_news(update) for update in updates):
            changed = dict(await self._writer.commit(partial(store.save, updates)))
        else:
            changed = {}
        for update in updates:
            pk, before = update.tenant.pk, update.tenant.revision
            is_kept = pk in changed or not store.is_news(update)
            if is_kept:
                self._queue.forget(str(pk))
            else:
                self._queue.add_rate_limited(str(pk))
            # Not the revision that was written: somebody may have changed the row in between, and
            # that is seen by a revision beyond the one that we know of.
            self._revisions[pk] = before + 1 if pk in changed else before
            found = update.status.state if is_kept else None
            self._states[pk] = found or update.tenant.state
        for pk, revision in changed.items():
            await live.achanged("tenant", pk, revision, pk)

    def counts(self) -> Counter[str]:
        """How many tenants are in each state, as last seen."""
        return Counter(self._states.values())

    async def _in_turn(self, turns: asyncio.Semaphore, tenant: Tenant) -> TenantUpdate | None:
        note(tenant=tenant.namespace)
        async with turns:
            try:
                return await self._reconcile(tenant)
            except Exception:  # the named fence: one odd tenant must not stop the others
                log.exception("tenant %s cannot be reconciled now", tenant.namespace)
                self._queue.add_rate_limited(str(tenant.pk))
                return None

    async def _reconcile(self, tenant: Tenant) -> TenantUpdate:
        rows = store.rows_of(tenant)
        running = self._running(tenant)
        if tenant.desired == Tenant.Desired.PURGED:
            return await self._purge(tenant, rows, running)
        self._watch_quiet(tenant, running)
        quota_closed = self._quota_closed(tenant)
        try:
            documents = await asyncio.to_thread(
                manifests.render_tenant, tenant, quota_closed=quota_closed
            )
        except ConfigurationError as error:
            objects = [ObjectStatus(r.kind, r.name, r.state, r.detail) for r in rows.values()]
            return self._update(tenant, rows, objects, TenantStatus(None, str(error)))
        result = await self._provisioner.sync(tenant, documents, rows)
        if result.again_at is not None:
            self._queue.add_at(str(tenant.pk), result.again_at)
        found = status.status_of(tenant, result.objects, running)
        held_up_by = await self._removal_by_hand(tenant)
        if held_up_by is not None:
            found = replace(
                found,
                reason_text="The namespace is being deleted outside Homeport; it is created again when it is "
                f"gone. {held_up_by.text}",
                reason_next_step=held_up_by.next_step,
            )
        return self._update(tenant, rows, result.objects, found)

    # --- closed tenants ---
    def _running(self, tenant: Tenant) -> int:
        """Pods in the tenant's namespace that have not ended."""
        pods = self._cache.pods.in_namespace(tenant.namespace).values()
        return sum(pod.status.phase not in {"Succeeded", "Failed"} for pod in pods)

    def _watch_quiet(self, tenant: Tenant, running: int) -> None:
        """Notes since when nothing runs in a closed tenant, and asks to be called when that matters."""
        if running or not status.is_closed(tenant):
            self._quiet_since.pop(tenant.pk, None)
        if not status.is_closed(tenant) or self._has_closed_quota(tenant):
            return
        now = time.monotonic()
        if running:
            self._queue.add_after(str(tenant.pk), status.LOOK_AGAIN_S)
            return
        quiet_at = self._quiet_since.setdefault(tenant.pk, now) + status.QUIET_S
        if now < quiet_at:
            self._queue.add_at(str(tenant.pk), quiet_at)

    def _quota_closed(self, tenant: Tenant) -> bool:
        """Whether the quota is down: a closed tenant in which nothing has run for a while."""
        if not status.is_closed(tenant):
            return False
        if self._has_closed_quota(tenant):
            return True  # from before; what it holds up is the jobs' to see to
        quiet_since = self._quiet_since.get(tenant.pk, float("inf"))
        return time.monotonic() >= quiet_since + status.QUIET_S

    def _has_closed_quota(self, tenant: Tenant) -> bool:
        quota = self._cache.quotas.get(tenant.namespace, manifests.QUOTA)
        return quota is not None and quota.spec.hard.get("pods") == "0"

    async def _purge(
        self, tenant: Tenant, rows: dict[store.ObjectKey, Any], running: int
    ) -> TenantUpdate:
        async def confirm() -> bool:
            # In a transaction that checks our epoch: a reconciler that was replaced destroys nothing.
            return await self._writer.commit(partial(store.is_to_be_purged, tenant.pk))

        erase = partial(self._go_on_erasing, tenant.pk)
        done = await purge.step(self._cluster, tenant, running, confirm, erase)
        if done.is_gone:
            return self._update(tenant, rows, [], TenantStatus(Tenant.State.GONE))
        self._queue.add_after(str(tenant.pk), done.again_s)
        found = TenantStatus(Tenant.State.DELETING, done.text, done.next_step)
        objects = list(done.objects) or self._still_there(tenant, rows)
        return self._update(tenant, rows, objects, found, done.memo)

    async def _go_on_erasing(self, pk: UUID) -> bool:
        """Removes what the object store keeps of a tenant; whether that is over.

        It may take long, and other tenants do not wait for it.

        Raises:
            Exception: what the store or the database says; the next call begins anew.
        """
        task = self._erasing.get(pk)
        if task is None:
            task = self._erasing[pk] = asyncio.create_task(self._erase(pk))
        await asyncio.wait({task}, timeout=_ERASE_WAIT_S)
        if not task.done():
            return False
        del self._erasing[pk]
        task.result()
        return True

    async def _erase(self, pk: UUID) -> None:
        """All keys of a tenant begin with its id (`portal/storage/store.py`)."""
        await asyncio.to_thread(get_store().delete_prefix, f"{pk}/")
        while await self._writer.commit(partial(self._forget_stored, pk)):
            pass
        # What was on its way meanwhile: its bytes are put before its row is refused.
        await asyncio.to_thread(get_store().delete_prefix, f"{pk}/")

    def _still_there(self, tenant: Tenant, rows: dict[store.ObjectKey, Any]) -> list[ObjectStatus]:
        """The tenant's objects that the cluster still has."""
        return [
            ObjectStatus(row.kind, row.name, State.WAITING, "is to be removed")
            for row in rows.values()
            if self._provisioner.has(row.kind, tenant.namespace, row.name)
        ]

    async def _removal_by_hand(self, tenant: Tenant) -> blockers.Blockers | None:
        """Why a namespace that somebody deleted past Homeport does not go."""
        seen = self._cache.namespaces.get("", tenant.namespace)
        if seen is None or seen.metadata.deletion_timestamp is None:
            return None
        self._queue.add_after(str(tenant.pk), _REMOVAL_S)
        conditions = [
            {"type": c.type, "status": c.status, "message": c.message}
            for c in seen.status.conditions
        ]
        return await blockers.find(self._cluster, tenant.namespace, conditions)

    def _update(
        self,
        tenant: Tenant,
        rows: dict[store.ObjectKey, Any],
        objects: list[ObjectStatus],
        found: TenantStatus,
        purge_memo: Mapping[str, Any] | None = None,
    ) -> TenantUpdate:
        seen = self._cache.quotas.get(tenant.namespace, manifests.QUOTA)
        is_ours = seen is not None and (seen.metadata.labels.get(labels.OWNER) == str(tenant.pk))
        return TenantUpdate(
            tenant=tenant,
            rows=rows,
            objects=objects,
            status=found,
            observed_hard=manifests.observed(seen.status.hard) if seen and is_ours else {},
            observed_used=manifests.observed(seen.status.used) if seen and is_ours else {},
            purge_memo=purge_memo,
        )
