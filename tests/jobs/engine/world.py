"""One reconciler on a simulated cluster and the real database, driven tick by tick."""

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
from asgiref.sync import sync_to_async

from jobs.engine.loop import LeaderRun
from jobs.leader.clock import SteadyClock
from jobs.leader.lease import Lease
from jobs.models import Job, ReplicaArchive
from portal.cluster import labels
from portal.cluster.informer import Informer
from portal.cluster.listwatch import ListWatch, WatchEvent
from tenants.models import Tenant
from tests.factories import make_job, make_tenant
from tests.jobs.engine.simulation import START, Sim

ROLE = {"count": 1, "cpu_millicores": 1000, "memory_bytes": 2**30, "gpu_count": 0}
TF_PS = {"worker": {**ROLE, "count": 2}, "ps": ROLE}


@dataclass
class World:
    """The cluster, the database, and the reconciler's process, which may die and start again."""

    sim: Sim = field(default_factory=Sim)
    shift: LeaderRun | None = None
    starts: int = 0
    is_view_frozen: bool = False
    submitted: int = 0
    rounds: int = 0

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
        for informer in self.shift._view._informers:
            self._feed(informer)

    def _feed(self, informer: Informer[Any]) -> None:
        watch = informer.watch
        kind = watch.options.kind
        fresh = {}
        for obj in self.sim.of(kind):
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
            return
        if not self.is_view_frozen:
            self.feed()
        self.rounds += 1
        await self.shift.tick("safety" if self.rounds % 10 == 0 else "heard")
        await self._steps()

    async def until(
        self, what: Callable[[Job], Any], *, rounds: int = 120, seconds: int = 1
    ) -> Job:
        """Rounds until the job is as wanted.

        Raises:
            AssertionError: it never was; the text tells what it was.
        """
        for _ in range(rounds):
            job = await self.job()
            if job is None or what(job):
                return job  # type: ignore[return-value]
            await self.round(seconds)
        job = await self.job()
        things = self.sim.live_things()
        raise AssertionError(f"{job.state} {job.reason_text} {job.memo} {things}")

    async def rest(self, rounds: int = 3) -> None:
        for _ in range(rounds):
            await self.round()

    # --- the pods' own reports ---
    async def _report(self) -> None:
        """What runners and rescue pods tell the portal at their end."""
        ended, self.sim.ended = self.sim.ended, []
        await sync_to_async(_mark)(ended)

    # --- the database ---
    job_id: UUID | None = None

    async def submit(self, **changes: Any) -> Job:
        def made() -> Job:
            tenant = Tenant.objects.filter(namespace="u-alice").first()
            if tenant is None:
                tenant = make_tenant("alice")
                Tenant.objects.filter(pk=tenant.pk).update(namespace="u-alice")
                tenant.refresh_from_db()
            self.submitted += 1
            queued_at = START + timedelta(seconds=self.sim.seconds, milliseconds=self.submitted)
            return make_job(tenant, queued_at=queued_at, **changes)

        job = await sync_to_async(made)()
        self.job_id = job.pk
        return job

    async def job(self) -> Job:
        found = await Job.objects.filter(pk=self.job_id).select_related("tenant").afirst()
        return found  # type: ignore[return-value]

    async def intend(self, **columns: Any) -> None:
        await Job.objects.filter(pk=self.job_id).aupdate(**columns)

    async def replicas(self) -> dict[str, Any]:
        job = await self.job()
        return {
            str(row): row
            async for row in job.replica_rows.filter(attempt=job.attempt).order_by("role", "index")
        }

    async def events(self) -> list[str]:
        job = await self.job()
        return [event.reason async for event in job.events.filter(source="homeport")]


def _free_lease() -> None:
    from jobs.models import ReconcilerLease

    ReconcilerLease.objects.update(holder="")


def _mark(ended: list[tuple[dict[str, Any], bool, int]]) -> None:
    for pod, is_marked, code in copy.deepcopy(ended):
        marks = pod["metadata"]["labels"]
        if not is_marked or not Job.objects.filter(pk=marks[labels.OWNER]).exists():
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
        ReplicaArchive.objects.update_or_create(job_id=marks[labels.OWNER], **key, defaults=values)
