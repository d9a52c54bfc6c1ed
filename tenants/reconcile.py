"""Makes the cluster follow the tenants' rows, and the rows show what the cluster has.

Level-triggered: each pass compares all wanted documents of a tenant with what the view shows, so a
missed event costs a pass, never correctness. The parts of a tenant are done in order (the Namespace
first), several tenants at once. Whatever fails for one part is tried again later, with growing
waits, and stops nothing else. Called by the reconciler once per tick; what blocks runs in threads.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async

from portal import live
from portal.cluster import labels
from portal.cluster.client import Cluster
from portal.cluster.manifests import ManifestError
from portal.cluster.view import ClusterView, Dirty
from tenants import manifests, records
from tenants.models import Tenant
from tenants.parts import State
from tenants.provision import Provisioner
from tenants.records import Outcome, Part, Wanted

log = logging.getLogger(__name__)

T = TypeVar("T")

_AT_ONCE = 8  # tenants; each waits for one call at a time
_AFTER_A_BUG_S = 30.0


class Writer(Protocol):
    """Who may write observed state: the reconciler that holds the lease."""

    async def commit(self, write: Callable[[], T]) -> T:
        """Runs `write` in a thread inside one transaction that also checks our epoch.

        Raises:
            Exception: the epoch is no longer ours; nothing was written.
        """
        ...


class TenantReconciler:
    """Remembers between passes what it has seen and when it wants to try again."""

    def __init__(self, view: ClusterView, cluster: Cluster, writer: Writer) -> None:
        self._view = view
        self._writer = writer
        self._provisioner = Provisioner(view, cluster)
        self._revisions: dict[UUID, int] = {}
        self._due: dict[UUID, float] = {}  # monotonic

    async def run_once(self, dirty: Dirty, *, everything: bool = False) -> float | None:
        """Tends the tenants that changed, are due or have a newer row; all of them on demand.

        Returns:
            Seconds until it wants to be called even if nothing changes; None: not before.
        """
        if not self._view.synced:
            return None  # before the first list, absence means nothing
        now = time.monotonic()
        due = frozenset(pk for pk, at in self._due.items() if at <= now)
        for pk in due:
            del self._due[pk]
        wanted = Wanted(everything, frozenset(dirty.owners), due, dict(self._revisions))
        tenants = await sync_to_async(records.load)(wanted)
        turns = asyncio.Semaphore(_AT_ONCE)
        found = await asyncio.gather(*(self._in_turn(turns, tenant) for tenant in tenants))
        outcomes = [outcome for outcome in found if outcome is not None]
        if outcomes:
            await self._write(outcomes)
        if not self._due:
            return None
        return max(0.0, min(self._due.values()) - time.monotonic())

    async def _write(self, outcomes: list[Outcome]) -> None:
        if any(records.is_news(outcome) for outcome in outcomes):
            changed = dict(await self._writer.commit(partial(records.save, outcomes)))
        else:
            changed = {}
        for outcome in outcomes:
            pk = outcome.tenant.pk
            self._revisions[pk] = changed.get(pk, outcome.tenant.revision)
        for pk, revision in changed.items():
            await live.achanged("tenant", pk, revision, pk)

    async def _in_turn(self, turns: asyncio.Semaphore, tenant: Tenant) -> Outcome | None:
        async with turns:
            try:
                return await self._tend(tenant)
            except Exception:  # the named fence: one odd tenant must not stop the others
                log.exception("tenant %s cannot be tended now", tenant.namespace)
                self._due[tenant.pk] = time.monotonic() + _AFTER_A_BUG_S
                return None

    async def _tend(self, tenant: Tenant) -> Outcome:
        rows = records.rows_of(tenant)
        if tenant.desired != Tenant.Desired.ACTIVE:
            parts = [Part(row.kind, row.name, row.state, row.detail) for row in rows.values()]
            reason = f"asked to be {tenant.desired}, which this version of Homeport does not do"
            return self._outcome(tenant, rows, parts, None, reason)
        try:
            documents = await asyncio.to_thread(manifests.render_tenant, tenant)
        except ManifestError as error:
            parts = [Part(row.kind, row.name, row.state, row.detail) for row in rows.values()]
            return self._outcome(tenant, rows, parts, None, str(error))
        tended = await self._provisioner.tend(tenant, documents, rows)
        if tended.again_at is not None:
            self._due[tenant.pk] = tended.again_at
        late = [part for part in tended.parts if part.state != State.READY]
        state = Tenant.State.PROVISIONING if late else Tenant.State.ACTIVE
        reason = f"{late[0].kind} {late[0].name}: {late[0].detail or late[0].state}" if late else ""
        return self._outcome(tenant, rows, tended.parts, state, reason)

    def _outcome(
        self,
        tenant: Tenant,
        rows: dict[records.PartKey, Any],
        parts: list[Part],
        state: str | None,
        reason_text: str,
    ) -> Outcome:
        seen = self._view.quotas.get(tenant.namespace, manifests.QUOTA)
        is_ours = seen is not None and (seen.metadata.labels.get(labels.OWNER) == str(tenant.pk))
        return Outcome(
            tenant=tenant,
            rows=rows,
            parts=parts,
            state=state,
            reason_text=reason_text,
            observed_hard=manifests.observed(seen.status.hard) if seen and is_ours else {},
            observed_used=manifests.observed(seen.status.used) if seen and is_ours else {},
        )
