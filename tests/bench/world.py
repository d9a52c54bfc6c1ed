"""The processes of a measurement of logs: an API server, a portal as people start it, a raw relay."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import requests

from deploy.testcluster.ports import free_port
from tests.bench.processes import ROOT, running
from tests.bench.viewers import Target
from tests.tools.servers import answers


@dataclass(frozen=True)
class FakeLogs:
    """The API server of logs (`fakelogs`)."""

    port: int
    pid: int

    def control(self, what: str) -> dict[str, int]:
        """`open?lines=N&per_s=R`, `close` or `stats`; what it has counted."""
        answer = requests.get(f"http://127.0.0.1:{self.port}/bench/{what}", timeout=30)
        counted: dict[str, int] = answer.json()
        return counted


@dataclass(frozen=True)
class Side:
    """One of the two that are compared: its process and where its viewers look.

    Attributes:
        shows_the_past: who comes later is shown what was there before.
    """

    title: str
    pid: int
    port: int
    shows_the_past: ClassVar[bool] = False


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
    """A raw relay."""

    def targets(self, turn: int, pods: int, viewers: int) -> list[Target]:
        return [Target(self.port, f"/pod-{turn}-{n % pods}") for n in range(viewers)]


@contextmanager
def fake_logs(folder: Path) -> Iterator[FakeLogs]:
    port = free_port()
    arguments = ["-m", "tests.bench.fakelogs", str(port)]
    with running(arguments, folder / "fakelogs.log", lambda: answers(port)) as pid:
        yield FakeLogs(port, pid)


@contextmanager
def relay(folder: Path, api_port: int, mode: str) -> Iterator[Relay]:
    port = free_port()
    arguments = ["-m", "tests.bench.relay", str(port), str(api_port), mode]
    with running(arguments, folder / f"relay-{mode}.log", lambda: answers(port)) as pid:
        yield Relay(f"raw relay ({mode})", pid, port)


def kubeconfig(folder: Path, api_port: int, token: str = "of-the-portal") -> Path:
    """A kubeconfig of an API server on this machine; the token tells who asks."""
    path = folder / f"kubeconfig-{token}"
    cluster = {"name": "fake", "cluster": {"server": f"http://127.0.0.1:{api_port}"}}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fake",
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        "clusters": [cluster],
        "users": [{"name": "fake", "user": {"token": token}}],
    }
    path.write_text(json.dumps(content))
    return path


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
    environment["PORT"] = str(port)
    log = folder / "portal.log"
    with running(arguments, log, lambda: is_served(port), environment) as pid:
        yield Portal("portal", pid, port, rows["cookies"], rows["jobs"])


@dataclass(frozen=True)
class World:
    """Everything that rows about logs are measured with."""

    api: FakeLogs
    portal: Portal
    batch: Relay
    line: Relay
    kubeconfig: Path


@contextmanager
def world(folder: Path, people: int, sets: int) -> Iterator[World]:
    with ExitStack() as stack:
        api = stack.enter_context(fake_logs(folder))
        portal = stack.enter_context(web(folder, api.port, people, sets))
        batch = stack.enter_context(relay(folder, api.port, "batch"))
        line = stack.enter_context(relay(folder, api.port, "line"))
        yield World(api, portal, batch, line, kubeconfig(folder, api.port, "of-kubectl"))
