"""What a measurement of logs is made of: who has logs, a portal as people start it, a raw relay."""

import json
import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import requests

from deploy.testcluster.ports import free_port
from tests.bench.fakelogs import Work
from tests.bench.processes import ROOT, running
from tests.bench.relay import Api
from tests.bench.requests_side import RealPages
from tests.bench.viewers import Target
from tests.tools.kubeconfigs import write_kubeconfig
from tests.tools.servers import answers

DELIVERIES_PER_S, PACED_S = 10_000, 5


@dataclass(frozen=True)
class Size:
    """How much of everything a world is measured with.

    Attributes:
        flood: what each pod writes as fast as it is read.
        single: the same, where one viewer looks at one pod.
    """

    pods: int
    viewers: int
    flood: Work
    single: Work

    @property
    def paced(self) -> Work:
        """All viewers together are sent 10,000 lines each second."""
        per_s = DELIVERIES_PER_S // self.viewers
        return Work(per_s * PACED_S, per_s=float(per_s))


FAKE = Size(pods=20, viewers=200, flood=Work(15_000), single=Work(300_000))


@dataclass(frozen=True)
class Logs:
    """Who has the logs, as its control is asked: `fakelogs`, or `gate` where pods are real."""

    port: int
    pid: int
    address: str = "127.0.0.1"

    def control(self, what: str) -> dict[str, int]:
        """`open?lines=N&per_s=R&loud=K`, `close` or `stats`; what it has counted."""
        answer = requests.get(f"http://{self.address}:{self.port}/bench/{what}", timeout=30)
        counted: dict[str, int] = answer.json()
        return counted


@dataclass(frozen=True)
class Side(ABC):
    """One of the two that are compared: its process and where its viewers look.

    Attributes:
        shows_the_past: who comes later is shown what was there before.
    """

    title: str
    pid: int
    port: int
    shows_the_past: ClassVar[bool] = False

    @abstractmethod
    def targets(self, turn: int, pods: int, viewers: int) -> list[Target]:
        """`viewers` of the first `pods` pods of a set."""


@dataclass(frozen=True)
class Portal(Side):
    """A portal with its rows; each repeat has a set of jobs of its own."""

    shows_the_past = True
    cookies: list[str]
    jobs: list[list[str]]

    def targets(self, turn: int, pods: int, viewers: int) -> list[Target]:
        """`viewers` of the first `pods` pods of a set, each signed in as the pod's owner."""
        jobs = self.jobs[turn]
        return [
            Target(
                self.port,
                f"/ws/jobs/{jobs[n % pods]}/logs/?replica=worker-0",
                (
                    f"Origin: http://localhost:{self.port}",
                    f"Cookie: {self.cookies[n % pods]}",
                ),
            )
            for n in range(viewers)
        ]


@dataclass(frozen=True)
class Relay(Side):
    """A raw relay; `pod` is the `NAMESPACE/NAME` of a pod of a set."""

    pod: Callable[[int, int], str]

    def targets(self, turn: int, pods: int, viewers: int) -> list[Target]:
        return [Target(self.port, f"/{self.pod(turn, n % pods)}") for n in range(viewers)]


def fake_pod(turn: int, number: int) -> str:
    """The `NAMESPACE/NAME` of a pod that does not exist."""
    return f"x/pod-{turn}-{number}"


@contextmanager
def fake_logs(folder: Path) -> Iterator[Logs]:
    port = free_port()
    arguments = ["-m", "tests.bench.fakelogs", str(port)]
    with running(arguments, folder / "fakelogs.log", lambda: answers(port)) as pid:
        yield Logs(port, pid)


@contextmanager
def relay(
    folder: Path, api: Api, mode: str, pod: Callable[[int, int], str] = fake_pod
) -> Iterator[Relay]:
    port = free_port()
    arguments = ["-m", "tests.bench.relay", str(port), mode, json.dumps(asdict(api))]
    with running(arguments, folder / f"relay-{mode}.log", lambda: answers(port)) as pid:
        yield Relay(f"raw relay ({mode})", pid, port, pod)


def kubeconfig(folder: Path, api_port: int, token: str = "of-the-portal") -> Path:
    """A kubeconfig of an API server on this machine; the token tells who asks."""
    path = folder / f"kubeconfig-{token}"
    return write_kubeconfig(path, f"http://127.0.0.1:{api_port}", {"token": token})


def seeded(module: str, *arguments: str, environment: dict[str, str]) -> Any:
    """What a seeding program prints; it fills the database that the environment names."""
    made = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr[-2000:]
    return json.loads(made.stdout)


def portal_environment(home: Path, api_port: int, token: str = "of-the-portal") -> dict[str, str]:
    """Environment of a portal of its own, on this API server."""
    kept = {k: os.environ[k] for k in ("PATH", "HOME", "LANG") if k in os.environ}
    return {
        **kept,
        "HOMEPORT_HOME": str(home),
        "HOMEPORT_KUBECONFIG": str(kubeconfig(home, api_port, token)),
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "ACCEPT_INSECURE": "no-redis",
        "POD_PORTAL_URL": "http://10.244.0.1:8000",  # no pod comes
    }


def is_served(port: int) -> bool:
    try:
        return requests.get(f"http://localhost:{port}/readyz", timeout=2).status_code == 200
    except requests.RequestException:
        return False


@contextmanager
def web(folder: Path, api_port: int, people: int, sets: int) -> Iterator[Portal]:
    """`manage.py serve` without a reconciler: the rows are ours, and nothing may change them."""
    home = folder / "home"
    home.mkdir()
    environment = portal_environment(home, api_port)
    rows = seeded("tests.bench.seed", str(people), str(sets), environment=environment)
    port = free_port()
    arguments = ["manage.py", "serve", "--no-reconciler"]
    environment |= {"PORT": str(port), "POD_PORT": str(free_port())}
    log = folder / "portal.log"
    with running(arguments, log, lambda: is_served(port), environment) as pid:
        yield Portal("portal", pid, port, rows["cookies"], rows["jobs"])


@dataclass(frozen=True)
class World:
    """Everything that rows about logs are measured with.

    Attributes:
        pod: `NAMESPACE/NAME` of a pod of a set.
        begin: has the first so many pods of a set there; called before anybody looks at them.
        pages: of the same portal, where it is told what they ask of the cluster.
    """

    api: Logs
    portal: Side
    batch: Relay
    line: Relay
    kubeconfig: Path
    size: Size
    pod: Callable[[int, int], str]
    begin: Callable[[int, int], None]
    pages: RealPages | None = None


@contextmanager
def world(folder: Path, sets: int) -> Iterator[World]:
    """Many viewers, and pods of an API server that costs nothing."""
    with ExitStack() as stack:
        api = stack.enter_context(fake_logs(folder))
        portal = stack.enter_context(web(folder, api.port, FAKE.pods, sets))
        batch = stack.enter_context(relay(folder, Api(api.port), "batch"))
        line = stack.enter_context(relay(folder, Api(api.port), "line"))
        config = kubeconfig(folder, api.port, "of-kubectl")
        yield World(api, portal, batch, line, config, FAKE, fake_pod, lambda turn, pods: None)
