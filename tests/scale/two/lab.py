"""A cluster that runs pods, and Homeport beside it in processes of its own, each of which can be replaced.

Web servers stand behind a proxy. Each reconciler has a host name of its own, so that another one cannot
see that it is dead, as on another node.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import requests

from deploy.child import Child
from deploy.testcluster.cluster import TestCluster
from deploy.testcluster.controlplane import Options
from deploy.testcluster.node import NodeOptions
from deploy.testcluster.ports import free_port
from tests.bench.fakelogs import LINE_BYTES
from tests.e2e.portal import ROOT, Portal, Rest
from tests.scale.stacked import Stacked
from tests.scale.two.crowd import Seat
from tests.scale.two.proxy import Proxy
from tests.tools import servers
from tests.tools.waiting import wait_for
from tests.upstream.journal import POD_RULES, Journal

RECONCILER = "homeport-reconciler"
VIEWERS_EACH = 5  # a person may have ten websockets, but all may come to one web server
IMAGE = "python:3.11-slim"
SMALL = {"cpu": "10m", "memory": "64Mi"}
_READY_S = 60.0
# A line comes at any moment of the first three quarters of its turn: of trainings that keep step, two write at the same
# moment in all turns of a run, or in none.
PROGRAM = f"""
import random, sys, time
def line(n):
    head = '#%09d INFO train step loss=0.1234 lr=1e-4 ' % n
    return head + 'x' * ({LINE_BYTES} - len(head) - 2) + '~'
began, per_s, n = time.monotonic(), float(sys.argv[1]), 0
while True:
    print(line(n), flush=True)
    n += 1
    time.sleep(max(0, began + (n + 0.75 * random.random()) / per_s - time.monotonic()))
"""


@dataclass
class Serving:
    """A process of Homeport.

    Attributes:
        ports: PORT and POD_PORT of a web server, else none.
        probe_port: where it says whether it is ready.
    """

    child: Child
    probe_port: int
    ports: tuple[int, int] | None = None

    @property
    def pid(self) -> int:
        assert self.child.process is not None
        assert self.child.is_running, self.child.last_words(40)
        return self.child.process.pid

    def is_ready(self) -> bool:
        assert self.child.is_running, self.child.last_words(40)
        try:
            url = f"http://127.0.0.1:{self.probe_port}/readyz"
            return requests.get(url, timeout=5).status_code == 200
        except requests.RequestException:
            return False


class Lab(Stacked):
    """See the module. Django must not have been set up yet: its settings are made here.

    Attributes:
        webs, reconcilers: those that work.
        pause_s: between the moment from which nothing new is sent to a web server and its SIGTERM, as `preStop`.
    """

    def __init__(
        self, folder: Path, proxy: str, pause_s: float, say: Callable[[str], None]
    ) -> None:
        super().__init__()
        self.folder, self.pause_s, self._say = folder, pause_s, say
        self.proxy = Proxy(proxy, folder)
        self.portal = Portal(folder / "home", self.proxy.port)
        self.webs: list[Serving] = []
        self.reconcilers: list[Serving] = []
        self.jobs: list[str] = []
        self._count = 0

    def _enter(self) -> None:
        enter = self._stack.enter_context
        node = NodeOptions(gpus="0", forwards=[f"{self.proxy.pod_port}:8000"], has_egress=True)
        options = Options(is_audited=True, audit_rules=POD_RULES)
        cluster = enter(TestCluster(self.folder / "cluster", options, node, self._say))
        self.journal = Journal(cluster.control_plane.audit_log)
        keys = cluster.control_plane.keys
        self._kubeconfigs = {
            name: keys.client_kubeconfig(name, name, "system:masters")
            for name in (RECONCILER, "homeport-web")
        }
        self.postgres, self.postgres_stack = enter(
            servers.running_postgres(self.folder / "postgresql")
        )
        self.redis_stack = enter(ExitStack())
        redis = self.redis_stack.enter_context(servers.redis(self.folder / "redis"))
        self.redis_port = int(redis.rpartition(":")[2].partition("/")[0])
        self._environ = {
            "HOMEPORT_HOME": str(self.folder / "home"),
            "DATABASE_URL": self.postgres.url,
            "REDIS_URL": redis,
            "PUBLIC_URL": self.portal.url,
            "TRUSTED_PROXIES": "127.0.0.1",
            "POD_PORTAL_URL": "http://10.244.0.1:8000",
            "NETWORK_CHECK": "no",
            "WRITES_PER_MINUTE": "1000000",
            "SUBMITS_PER_MINUTE": "1000000",
            "MAX_QUEUED": "1000000",
            "DRAIN_S": "300",
            "DJANGO_SETTINGS_MODULE": "portal.settings",
        }
        (self.folder / "home").mkdir()
        os.environ.update(self._environ)
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        call_command("collectstatic", interactive=False, verbosity=0)
        self._stack.callback(self._end)
        self.webs = [self.web(), self.web()]
        self.reconcilers = [self.reconciler(), self.reconciler()]
        for one in (*self.webs, *self.reconcilers):
            wait_for("it is ready", one.is_ready, timeout_s=_READY_S)
        self.lead()

    def _end(self) -> None:
        from django.db import connections

        connections.close_all()
        children = [one.child for one in (*self.webs, *self.reconcilers)]
        for child in children:
            child.terminate()
        for child in (*children, self.proxy.child):
            child.stop(lambda: False)

    # --- Homeport's processes ---
    def web(self) -> Serving:
        """Starts one more, to which nothing is sent yet."""
        ports = (free_port(), free_port())
        environ = {"PORT": str(ports[0]), "POD_PORT": str(ports[1])}
        return Serving(self._start("homeport-web", "--no-reconciler", **environ), ports[0], ports)

    def reconciler(self) -> Serving:
        """Starts one more."""
        port = free_port()
        return Serving(self._start(RECONCILER, "--no-web", PROBE_PORT=str(port)), port)

    def _start(self, role: str, argument: str, **environ: str) -> Child:
        self._count += 1
        name = f"{role}-{self._count}"
        serve = f"hostname {name} && exec {sys.executable} manage.py serve {argument}"
        child = Child(
            name,
            ["unshare", "--uts", "sh", "-c", serve],
            {**os.environ, **environ, "HOMEPORT_KUBECONFIG": str(self._kubeconfigs[role])},
            ROOT,
            log=self.folder / f"{name}.log",
            grace_s=330,
        )
        child.start()
        return child

    def lead(self, count: int = 2) -> None:
        """Sends what comes from now on to the first so many web servers."""
        self.proxy.lead_to([one.ports for one in self.webs[:count] if one.ports])

    async def replace_all(self) -> None:
        """As Deployments do it: a new one comes, and when it is ready an old one ends, drained, meanwhile the next."""
        ends = []
        for place in range(2):
            old, new = self.webs[place], self.web()
            await _until(new.is_ready)
            self.webs[place] = new
            self.lead()
            ends.append(asyncio.create_task(_end_after(self.pause_s, old)))
        for place in range(2):
            old, new = self.reconcilers[place], self.reconciler()
            await _until(new.is_ready)
            self.reconcilers[place] = new
            ends.append(asyncio.create_task(_end_after(0, old)))
        await asyncio.gather(*ends)

    def active(self) -> Serving:
        """The reconciler that holds the lease."""
        from jobs.models import ReconcilerLease

        holder = ReconcilerLease.objects.get().holder
        return next(one for one in self.reconcilers if f"/{one.pid}/" in holder)

    # --- what there is ---
    def fill(self, pods: int, viewers: int, rate: float) -> None:
        """People with a namespace each, of whom all but the last have a training that writes lines; who looks at them."""
        from tenants.actions import ensure_tenant
        from tenants.models import Tenant, User

        owners = [User.objects.create_user(f"person-{n}") for n in range(pods + 1)]
        for user in owners:
            ensure_tenant(user=user)
        Tenant.objects.update(quota_cpu_millicores=10**6, quota_memory_bytes=2**40, quota_pods=200)
        self.owners = [self.rest_of(user) for user in owners]
        admins = [
            User.objects.create_user(f"admin-{n}", role="admin")
            for n in range(-(-viewers // VIEWERS_EACH))
        ]
        self.tokens = [self.rest_of(user).token for user in admins]

        def all_active() -> bool:
            return not Tenant.objects.exclude(state="active").exists()

        wait_for("all namespaces are active", all_active, timeout_s=300, interval_s=0.5)
        self.write_lines(rate)
        # Of the last one only what is submitted first runs, and the rest waits.
        Tenant.objects.filter(owner=owners[-1]).update(quota_cpu_millicores=10)
        self.owners[-1].submit(**training("runs", "import time; time.sleep(9999)"))

    def write_lines(self, rate: float) -> None:
        """Their trainings write so many lines a second each from now on, which takes new ones."""
        for rest, old in zip(self.owners, self.jobs, strict=False):
            assert rest.call("POST", f"jobs/{old}/stop/").ok
        made = [rest.submit(**training("lines", PROGRAM, str(rate))) for rest in self.owners[:-1]]
        for rest, job in zip(self.owners, made, strict=False):
            rest.wait(job, "running", timeout_s=300)
        self.jobs = [job["id"] for job in made]
        self._say(f"{len(made)} trainings write {rate:g} lines a second each")

    def seats(self, viewers: int) -> list[Seat]:
        """Who looks at what. The proxy gives one after the other to each web server in turn: two in a row see
        the same, so that each web server has all trainings and as many viewers of each."""
        jobs, tokens = self.jobs, self.tokens
        return [Seat(jobs[n // 2 % len(jobs)], tokens[n % len(tokens)]) for n in range(viewers)]

    def rest_of(self, user: object) -> Rest:
        """REST as this person, through the proxy."""
        from tenants.models import ApiToken, User

        assert isinstance(user, User)
        scope = ApiToken.Scope.ADMIN if user.may("administer") else ApiToken.Scope.SUBMIT
        return Rest(self.portal, ApiToken.issue(user=user, name="scale", scope=scope)[1])


def training(name: str, program: str, *words: str) -> dict[str, object]:
    """The body of one of a single small pod."""
    command = ["python", "-c", program, *words]
    return {"name": name, "image": IMAGE, "command": command, "replicas": {"worker": SMALL}}


async def _until(look: Callable[[], bool]) -> None:
    async with asyncio.timeout(_READY_S):
        while not await asyncio.to_thread(look):
            await asyncio.sleep(0.1)


async def _end_after(pause_s: float, old: Serving) -> None:
    await asyncio.sleep(pause_s)
    await asyncio.to_thread(old.child.stop, lambda: False)
