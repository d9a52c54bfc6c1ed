"""The engine on a simulated cluster and the real database, driven tick by tick."""

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Self

import msgspec
from asgiref.sync import sync_to_async
from django.db.models import F

from jobs.engine.loop import LeaderRun
from jobs.leader.clock import SteadyClock
from jobs.leader.lease import Lease
from jobs.models import ReconcilerLease, ReplicaArchive, Workload
from portal.cluster import labels
from portal.cluster.cache import ClusterChanges
from portal.cluster.informer import Informer
from portal.cluster.listwatch import ListWatch, WatchEvent
from tenants.models import Tenant
from tests.factories import make_job, make_service, make_tenant
from tests.jobs.engine.kubelet import START
from tests.jobs.engine.simulation import Sim

ROLE = {"count": 1, "cpu_millicores": 1000, "memory_bytes": 2**30, "gpu_count": 0}
TF_PS = {"worker": {**ROLE, "count": 2}, "ps": ROLE}


@dataclass
class World:
    """The cluster, the database, and the reconciler's process, which may die and start again.

    Attributes:
        about: the workload that a test is about: the one asked for last.
        tends_tenants: it makes what tenants consist of, too; its cluster begins without any.
    """

    sim: Sim = field(default_factory=Sim)
    shift: LeaderRun | None = None
    starts: int = 0
    is_view_frozen: bool = False
    submitted: int = 0
    rounds: int = 0
    about: Workload | None = None
    tends_tenants: bool = False

    @classmethod
    def with_tenants(cls) -> Self:
        return cls(Sim(namespaces=()), tends_tenants=True)

    # --- the process ---
    async def start(self) -> None:
        """Starts the reconciler as a new process."""
        self.starts += 1
        self.sim.is_killed = False
        lease = Lease(holder=f"test-{self.starts}", ttl_s=1e9)
        await sync_to_async(_free_lease)()
        assert await lease.try_acquire()
        clock = SteadyClock(lambda: self.sim.seconds, lambda: START.timestamp() + self.sim.seconds)
        self.shift = LeaderRun(self.sim, lease, clock)
        self.feed()
        await self.shift.tick("start")
        await self._steps()

    async def _steps(self) -> None:
        """Waits until the steps that were started are done (or died)."""
        assert self.shift is not None
        for _ in range(50):
            tasks = list(self.shift._workloads._tasks.values())
            if not tasks:
                return
            await asyncio.gather(*tasks, return_exceptions=True)

    def feed(self) -> None:
        """Brings the view up to date, as its watches would."""
        assert self.shift is not None
        for informer in self.shift._cache._informers:
            self._feed(informer)

    def _feed(self, informer: Informer[Any]) -> None:
        watch = informer.watch
        kind = watch.options.kind
        watch.is_served = kind != "PodGroup" or self.sim.has_pod_groups
        fresh = {}
        for obj in self.sim.of(kind) if watch.is_served else ():
            marks = obj["metadata"].get("labels", {})
            if watch.options.label_selector and marks.get(labels.MANAGED_BY) != labels.MANAGER:
                continue
            seen = self._decode(watch, obj)
            fresh[seen.metadata.namespace, seen.metadata.name] = seen
        changes = [
            WatchEvent(key, old, None) for key, old in watch.items.items() if key not in fresh
        ]
        changes += [
            WatchEvent(key, watch.items.get(key), seen)
            for key, seen in fresh.items()
            if not watch._has(key, seen)
        ]
        watch.items = fresh
        watch.synced.set()
        if changes:
            informer._take(changes)

    def _decode(self, watch: ListWatch[Any], obj: dict[str, Any]) -> Any:
        return msgspec.json.decode(msgspec.json.encode(obj), type=watch.options.seen)

    async def round(self, seconds: int = 1) -> None:
        """Some seconds of the cluster, then one tick; a killed process is started again."""
        for _ in range(seconds):
            self.sim.step()
        await self._report()
        if self.shift is None or self.sim.is_killed:
            await self.start()
        else:
            if not self.is_view_frozen:
                self.feed()
            self.rounds += 1
            await self.shift.tick("safety" if self.rounds % 10 == 0 else "heard")
            await self._steps()
        if self.tends_tenants and not self.sim.is_killed:
            await self._tend()

    async def _tend(self) -> None:
        """A look at all tenants; twice, as what one look writes the next one sees."""
        assert self.shift is not None
        self.feed()
        for _ in range(2):
            await self.shift._tenants.run_once(ClusterChanges(), everything=True)
            self.feed()

    async def until(
        self,
        what: Callable[[Any], Any],
        *,
        of: Workload | None = None,
        rounds: int = 120,
        seconds: int = 1,
    ) -> Any:
        """Rounds until the workload (the one that the test is about) is as wanted, or gone.

        Raises:
            AssertionError: it never was; the text tells what it was.
        """
        for _ in range(rounds):
            row = await self.row(of)
            if row is None or what(row):
                return row
            await self.round(seconds)
        row = await self.row(of)
        things = self.sim.live_things()
        raise AssertionError(f"{row.state} {row.reason_text} {row.notes} {things}")

    async def rest(self, rounds: int = 3) -> None:
        for _ in range(rounds):
            await self.round()

    # --- the pods' own reports ---
    async def _report(self) -> None:
        """What runners and rescue pods tell the portal at their end."""
        ended, self.sim.ended = self.sim.ended, []
        await sync_to_async(_mark)(ended)

    # --- the database ---
    async def submit(self, kind: str = "training", *, owner: str = "alice", **changes: Any) -> Any:
        """One more training, notebook or TensorBoard of this owner's."""

        def made() -> Workload:
            self.submitted += 1
            at = START + timedelta(seconds=self.sim.seconds, milliseconds=self.submitted)
            tenant = self._tenant(owner)
            if kind == "training":
                return make_job(tenant, queued_at=at, **changes)
            return make_service(tenant, kind=kind, queued_at=at, **changes)

        self.about = await sync_to_async(made)()
        return self.about

    def _tenant(self, owner: str) -> Tenant:
        """That of the owner, made when there is none. Blocking."""
        namespace = f"u-{owner}"
        tenant = Tenant.objects.filter(namespace=namespace).first()
        if tenant is None:
            tenant = make_tenant(owner)
            Tenant.objects.filter(pk=tenant.pk).update(namespace=namespace)
            tenant.refresh_from_db()
        return tenant

    async def row(self, of: Workload | None = None) -> Any:
        """The workload as it is stored now; None when it is gone."""
        about = of or self.about
        assert about is not None
        rows = Workload.objects.filter(pk=about.pk)
        return (
            await rows.select_related("tenant", "owner").prefetch_related("replica_rows").afirst()
        )

    async def intend(self, **columns: Any) -> None:
        """What people (or hands in the database) write."""
        assert self.about is not None
        rows = Workload.objects.filter(pk=self.about.pk)
        await rows.aupdate(**{"revision": F("revision") + 1, **columns})

    async def replicas(self) -> dict[str, Any]:
        about = await self.row()
        rows = about.replica_rows.filter(attempt=about.attempt).order_by("role", "index")
        return {str(row): row async for row in rows}

    async def events(self) -> list[str]:
        """The reconciler's own about it."""
        row = await self.row()
        return [event.reason async for event in row.events.filter(source="homeport")]


def _free_lease() -> None:
    ReconcilerLease.objects.update(holder="")


def _mark(ended: list[tuple[dict[str, Any], bool, int]]) -> None:
    for pod, is_marked, code in copy.deepcopy(ended):
        marks = pod["metadata"]["labels"]
        if not is_marked or not Workload.objects.filter(pk=marks[labels.OWNER]).exists():
            continue
        is_rescue = labels.RESCUED_ROLE in marks
        if is_rescue and pod["status"]["phase"] != "Succeeded":
            continue
        index = marks.get(labels.INDEX) or marks.get(labels.COMPLETION_INDEX, "0")
        key = {
            "role": marks[labels.RESCUED_ROLE if is_rescue else labels.ROLE],
            "index": int(index),
            "attempt": int(marks[labels.RESCUED_ATTEMPT if is_rescue else labels.ATTEMPT]),
        }
        values = {"is_complete": True, "by_rescue": is_rescue}
        if is_rescue:
            environment = pod["spec"]["containers"][0]["env"]
            values["pod_uid"] = next(
                e["value"] for e in environment if e["name"] == "HOMEPORT_RESCUE_POD_UID"
            )
        else:
            values |= {"pod_uid": pod["metadata"]["uid"], "exit_code": code}
        ReplicaArchive.objects.update_or_create(
            workload_id=marks[labels.OWNER], **key, defaults=values
        )
