"""64 threads ask for GPUs of one tenant at once while one reconciler, or two that fight, admit.

Run by `test_quota_race.py` as a process with a database of its own, because the threads need real
connections to one; prints what came of it as JSON. Arguments: how many rounds, how many reconcilers.

The reconcilers are whole ones (`LeaderRun`) on one simulated cluster, each with its own connection. Two
of them fight: each in turn believes that the other was silent for too long and takes the lease, while
the other, which has not noticed, goes on until one of its commits is refused.
"""

import asyncio
import json
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
# One person asks for everything here.
for _name in ("WRITES_PER_MINUTE", "SUBMITS_PER_MINUTE", "MAX_QUEUED"):
    os.environ[_name] = "1000000"
django.setup()

# What is imported below needs models.
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core.management import call_command
from django.db import connection
from django.test import Client

from jobs.engine.loop import LeaderRun
from jobs.kinds.notebook import NOTEBOOK
from jobs.kinds.training.kind import TRAINING
from jobs.leader.clock import SteadyClock
from jobs.leader.lease import TTL_S, Lease, LeaseLostError
from jobs.models import ReconcilerLease, Workload
from jobs.workloads import actions
from tenants.actions import create_token
from tenants.models import Tenant
from tests.factories import make_tenant, submit_body
from tests.jobs.engine.kubelet import START, Life
from tests.jobs.engine.simulation import Sim
from tests.jobs.engine.world import World

T = TypeVar("T")
THREADS = 64
ROOM = 8  # GPUs of the quota; the node has many more
MOST_STEPS = 200  # seconds of the cluster until everything must have settled
ADMITTED = ("starting", "running")


def admitted_gpus() -> int:
    """What the database says has been given away. Blocking."""
    given = 0
    for replicas in Workload.objects.filter(state__in=ADMITTED).values_list("replicas", flat=True):
        given += sum(role["count"] * role["gpu_count"] for role in replicas.values())
    return given


class Found:
    """What came of it, over all rounds."""

    def __init__(self) -> None:
        self.most = 0
        self.most_pods = 0
        self.settled: Counter[int] = Counter()
        self.kinds: Counter[str] = Counter()
        self.commits = 0
        self.lost = 0


class WatchedLease(Lease):
    """Adds up what is given away after each commit, before anything else goes on."""

    def __init__(self, found: Found, **more: Any) -> None:
        super().__init__(**more)
        self._found = found

    def _commit(self, write: Callable[[], T]) -> T:
        result = super()._commit(write)
        self._found.commits += 1
        self._found.most = max(self._found.most, admitted_gpus())
        return result


class Clock:
    """A monotonic clock that is set forward by hand."""

    s = 1000.0

    def __call__(self) -> float:
        return self.s


class Fighter(World):
    """A reconciler that takes the lease from whoever has it, and starts anew when it lost it."""

    def __init__(self, sim: Sim, found: Found, name: str, chance: random.Random) -> None:
        super().__init__(sim=sim)
        self.found, self.name, self.chance = found, name, chance
        self.ticks = 0
        self.patience = 0

    async def start(self) -> None:
        """A new process that believes the other one to be dead."""
        self.starts += 1
        clock = Clock()
        name = f"{self.name}-{self.starts}"
        lease = WatchedLease(self.found, holder=name, monotonic=clock)
        if not await lease.try_acquire():
            clock.s += TTL_S + 1  # nothing was heard of it for so long
            if not await lease.try_acquire():
                return  # it was, just now
        steady = SteadyClock(lambda: self.sim.seconds, lambda: START.timestamp() + self.sim.seconds)
        self.shift = LeaderRun(self.sim, lease, steady)
        self.feed()
        await self.shift.tick("start")
        await self._steps()

    async def turn(self) -> None:
        """One tick of whoever believes to hold the lease."""
        if self.shift is None and self.patience > 0:
            self.patience -= 1
            return
        try:
            if self.shift is None:
                await self.start()
            else:
                self.feed()
                await self.shift.tick("heard")
                await self._steps()
            self.ticks += 1
        except LeaseLostError:
            self.found.lost += 1
            self.shift = None
            # The other one gets on with something before it is robbed again, or hardly so.
            self.patience = self.chance.randint(0, 60)


class Race:
    """One tenant with room for 8 GPUs, and those who want them."""

    def __init__(self, reconcilers: int) -> None:
        self.found = Found()
        self.reconcilers = reconcilers
        self.tenant = make_tenant("alice")
        columns = {"gpu_count": ROOM, "cpu_millicores": 10**6, "memory_bytes": 2**45}
        columns |= {"pods": 1000, "nodeports": 1000}
        Tenant.objects.update(
            namespace="u-alice", **{f"quota_{name}": n for name, n in columns.items()}
        )
        self.tenant.refresh_from_db()
        self.tenant.observed_hard = self.tenant.quota
        self.tenant.save()
        _, self.token = create_token(by=self.tenant.owner, name="race")
        self.start = threading.Barrier(THREADS)

    def _sim(self) -> Sim:
        sim = Sim()
        sim.lives = {"worker-0": [Life("hang")]}
        hard = {"requests.cpu": "1000", "requests.memory": "32Ti", "pods": "1000"}
        hard |= {"requests.nvidia.com/gpu": str(ROOM), "services.nodeports": "1000"}
        sim.store["ResourceQuota", "u-alice", "homeport"]["status"] = {"hard": hard, "used": {}}
        sim.store["Node", "", "node"]["status"]["allocatable"] = {
            "cpu": "1000",
            "memory": "32Ti",
            "pods": "1000",
            "nvidia.com/gpu": "1000",
        }
        return sim

    # --- those who ask ---
    def ask(self, number: int, gpu: int, kind: str) -> None:
        """One of the threads: waits for the others, then asks."""
        owner = self.tenant.owner
        role = {"count": 1, "cpu": "100m", "memory": "256Mi", "gpu": gpu}
        training = submit_body(name=f"t {number}", replicas={"worker": role}, topology="single")
        notebook = {"name": f"n {number}", "cpu": "100m", "memory": "256Mi", "gpu": gpu}
        self.start.wait()
        if number % 8 == 0:
            path, body = ("jobs", training) if kind == "job" else ("notebooks", notebook)
            client = Client(HTTP_HOST="localhost", headers={"Authorization": f"Token {self.token}"})
            answer = client.post(f"/api/v1/{path}/", json.dumps(body), "application/json")
            assert answer.status_code == 201, answer.content
        elif kind == "job":
            wanted = TRAINING.read(training, tenant=self.tenant, user=owner)
            actions.submit(by=owner, tenant=self.tenant, kind=TRAINING, spec=wanted)
        else:
            spec = NOTEBOOK.read(notebook, tenant=self.tenant, user=owner)
            actions.submit(by=owner, tenant=self.tenant, kind=NOTEBOOK, spec=spec)

    # --- a round ---
    async def round(self, pool: ThreadPoolExecutor, number: int) -> None:
        await sync_to_async(_forget)()
        sim = self._sim()
        chance = random.Random(number)
        fighters = [Fighter(sim, self.found, f"r{n}", chance) for n in range(self.reconcilers)]
        # The same for all, or the last GPUs would be too few for the first in the queue.
        gpu = (1, 2, 4, 8)[number % 4]
        loop = asyncio.get_running_loop()
        asked = asyncio.gather(
            *(
                loop.run_in_executor(pool, self.ask, n, gpu, chance.choice(["job", "notebook"]))
                for n in range(THREADS)
            )
        )
        over = asyncio.Event()
        working = [asyncio.create_task(self._work(fighter, over)) for fighter in fighters]
        await asked
        for _ in range(MOST_STEPS):
            await self._ticks(fighters, 1)
            sim.step()
            pods = [p for p in sim.of("Pod") if p["status"]["phase"] == "Running"]
            self.found.most_pods = max(self.found.most_pods, len(pods) * gpu)
            if len(pods) * gpu >= ROOM:
                break
        await self._ticks(fighters, 3)  # what has settled stays so
        over.set()
        await asyncio.gather(*working)
        given, kinds = await sync_to_async(_outcome)()
        self.found.settled[given] += 1
        self.found.kinds += kinds

    @staticmethod
    async def _ticks(fighters: list[Fighter], more: int) -> None:
        """Waits until the reconcilers have done so many more ticks together."""
        until = sum(fighter.ticks for fighter in fighters) + more
        while sum(fighter.ticks for fighter in fighters) < until:
            await asyncio.sleep(0.001)

    async def _work(self, fighter: Fighter, over: asyncio.Event) -> None:
        # A context of its own: its database thread is not that of the other one.
        async with ThreadSensitiveContext():
            while not over.is_set():
                await fighter.turn()
                await asyncio.sleep(0.001)
            await sync_to_async(_hang_up)()


def _hang_up() -> None:
    connection.close()


def _forget() -> None:
    Workload.objects.all().delete()
    ReconcilerLease.objects.all().update(holder="")


def _outcome() -> tuple[int, Counter[str]]:
    kinds = Counter(Workload.objects.filter(state__in=ADMITTED).values_list("kind", flat=True))
    kinds["queued"] = Workload.objects.filter(state="queued").count()
    return admitted_gpus(), kinds


def main(rounds: int, reconcilers: int) -> None:
    call_command("migrate", verbosity=0)
    race = Race(reconcilers)
    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(rounds):
            asyncio.run(race.round(pool, number))
        # Each thread has its own connection, and closes it at its end.
        list(pool.map(lambda _: (race.start.wait(), connection.close()), range(THREADS)))
    found = race.found
    print(
        json.dumps(
            {
                "vendor": connection.vendor,
                "most": found.most,
                "most_pods": found.most_pods,
                "settled": dict(found.settled),
                "kinds": dict(found.kinds),
                "commits": found.commits,
                "lost": found.lost,
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
