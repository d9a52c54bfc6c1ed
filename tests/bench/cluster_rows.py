"""What rows about logs are measured with where pods are real: onebox, or upstream Kubernetes with our node.

The rows are those of `log_rows`, with fewer viewers: a person may have ten, and three of the demo accounts
may see one training. Each pod is a training whose program waits for what to write (`gate`). The
portal reads logs as an account whose API server is a port that counts connections; the raw relay and
kubectl go through the same port.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import yaml

from deploy.image import offer_image
from deploy.testcluster.ports import free_port
from onebox.testing.processes import command_line, descendants
from tests.bench.fakelogs import LINE_BYTES, Work
from tests.bench.processes import running
from tests.bench.relay import Api
from tests.bench.viewers import Target
from tests.bench.world import Logs, Side, Size, World, relay
from tests.e2e.portal import PASSWORD, ROOT, Portal, Rest
from tests.tools.servers import answers

PEOPLE = ("ada", "lee", "root")  # whose training it is, who leads the team, who may see everything
# 10 MB at most: less than the runner shows at once, so that nothing is left out by it.
SIZE = Size(pods=3, viewers=27, flood=Work(50_000), single=Work(100_000))
GATE_POD_PORT = 9100
_IMAGE_S = 300.0
PROGRAM = f"""
import json, sys, time, urllib.request
def line(n):
    head = '#%09d INFO train step loss=0.1234 lr=1e-4 ' % n
    return head + 'x' * ({LINE_BYTES} - len(head) - 2) + '~\\n'
def write(first, end):
    sys.stdout.write(''.join(map(line, range(first, end))))
    sys.stdout.flush()
write(0, 1)
gate = 'http://10.244.0.1:{GATE_POD_PORT}/share/' + sys.argv[1]
work = json.load(urllib.request.urlopen(gate))
lines, per_s = work['lines'], work['per_s']
began, written = time.monotonic(), 0
while written < lines:
    due = written + 100 if not per_s else int((time.monotonic() - began) * per_s) + 1
    due = min(due, lines)
    if due > written:
        write(1 + written, 1 + due)
        written = due
    if per_s:
        time.sleep(0.01)
time.sleep(600)
"""


class NoClusterError(RuntimeError):
    """There is no such cluster here; the text says why."""


@dataclass(frozen=True)
class Ports:
    """Of this machine: the portal's two, and the gate's with the one that it forwards from."""

    portal: int = field(default_factory=free_port)
    pods_door: int = field(default_factory=free_port)
    gate: int = field(default_factory=free_port)
    forward: int = field(default_factory=free_port)

    @property
    def for_pods(self) -> tuple[str, str]:
        return str(self.pods_door), f"{self.gate}:{GATE_POD_PORT}"


@contextmanager
def onebox(folder: Path, ports: Ports) -> Iterator[Path]:
    """The kubeconfig of an embedded cluster, which the launcher would not let us read by another port."""
    home = folder / "cluster"
    kubeconfig = home / "kubeconfig"
    offer_image(home / "node")
    arguments = ["-m", "onebox", "--home", str(home), "--egress", "on"]
    for port in ports.for_pods:
        arguments += ["--forward", port]
    with running(arguments, folder / "cluster.log", kubeconfig.exists):
        yield kubeconfig


@contextmanager
def upstream(folder: Path, ports: Ports) -> Iterator[Path]:
    """The kubeconfig of upstream's control plane, with our node half.

    Raises:
        NoClusterError: it is not built, and there is no Go to build it.
    """
    from deploy.testcluster import binaries
    from deploy.testcluster.cluster import TestCluster
    from deploy.testcluster.node import NodeOptions

    if why_not := binaries.why_not(binaries.KUBERNETES, binaries.ETCD):
        raise NoClusterError(why_not)
    node = NodeOptions(forwards=ports.for_pods, has_egress=True)
    with TestCluster(folder / "cluster", node=node, say=lambda _: None) as cluster:
        yield cluster.kubeconfig


CLUSTERS: dict[str, Callable[[Path, Ports], Any]] = {"onebox": onebox, "upstream": upstream}


@dataclass
class Trainings:
    """The set of pods that is there: a training for each, whose program waits for its work."""

    rest: Rest
    namespace: str
    jobs: list[dict[str, Any]] = field(default_factory=list)
    pods: list[str] = field(default_factory=list)

    def begin(self, turn: int, pods: int) -> None:
        """Ends the set before and waits until this one's programs run."""
        self.end()
        self.jobs = [
            self.rest.submit(
                name=f"writes {turn}",
                command=["python", "-c", PROGRAM, str(number)],
                replicas={"worker": {"cpu": "500m", "memory": "256Mi"}},
            )
            for number in range(pods)
        ]
        seen = [self.rest.wait(job, "running", timeout_s=_IMAGE_S) for job in self.jobs]
        self.pods = [job["replicas"][0]["pod"] for job in seen]

    def end(self) -> None:
        for job in self.jobs:
            assert self.rest.call("POST", f"jobs/{job['id']}/stop/").ok
        for job in self.jobs:
            self.rest.wait(job, "stopped")
        self.jobs = []

    def pod(self, turn: int, number: int) -> str:
        return f"{self.namespace}/{self.pods[number]}"


@dataclass(frozen=True)
class RealPortal(Side):
    """A portal on a real cluster, its reconciler included."""

    shows_the_past: ClassVar[bool] = True
    tokens: list[str]
    trainings: Trainings

    def targets(self, turn: int, pods: int, viewers: int) -> list[Target]:
        jobs = self.trainings.jobs
        return [
            Target(
                self.port,
                f"/ws/jobs/{jobs[n % pods]['id']}/logs/?replica=worker-0",
                (f"Authorization: Token {self.tokens[n // pods % len(self.tokens)]}",),
            )
            for n in range(viewers)
        ]


@contextmanager
def real_world(name: str) -> Iterator[World]:
    """A Homeport on one of the clusters, and what it is compared with.

    Raises:
        NoClusterError: it cannot be had here.
    """
    ports = Ports()
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        kubeconfig = stack.enter_context(CLUSTERS[name](folder, ports))
        logs = stack.enter_context(_gate(folder, ports, kubeconfig))
        counted = _through(kubeconfig, ports.forward, folder / "kubeconfig-counted")
        portal = stack.enter_context(_portal(folder, ports, kubeconfig, counted))
        people = [portal.sign_in(person) for person in PEOPLE]
        trainings = Trainings(people[0], people[0].tenant()["namespace"])
        assert portal.process is not None
        pid = next(
            pid for pid in descendants(portal.process.pid) if "manage.py serve" in command_line(pid)
        )
        tokens = [person.token for person in people]
        side = RealPortal("portal", pid, portal.port, tokens, trainings)
        api = _api(counted, ports.forward)
        batch, line = (
            stack.enter_context(relay(folder, api, mode, trainings.pod))
            for mode in ("batch", "line")
        )
        yield World(logs, side, batch, line, counted, SIZE, trainings.pod, trainings.begin)
        trainings.end()


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="homeport-bench-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _gate(folder: Path, ports: Ports, kubeconfig: Path) -> Iterator[Logs]:
    server = urlsplit(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    where = [str(server.hostname), str(server.port)]
    arguments = ["-m", "tests.bench.gate", str(ports.gate), str(ports.forward), *where]
    with running(arguments, folder / "gate.log", lambda: answers(ports.gate)) as pid:
        yield Logs(ports.gate, pid)


def _through(kubeconfig: Path, port: int, path: Path) -> Path:
    """A kubeconfig of the same account, through another port of this machine."""
    config = yaml.safe_load(kubeconfig.read_text())
    for row in config["clusters"]:
        row["cluster"]["server"] = f"https://127.0.0.1:{port}"
    path.write_text(yaml.safe_dump(config))
    return path


def _api(kubeconfig: Path, port: int) -> Api:
    from portal.cluster import credentials

    account = credentials.load(str(kubeconfig))
    files = account.configuration
    return Api(
        port,
        files.ssl_ca_cert,
        files.cert_file or "",
        files.key_file or "",
        account.authorization() or "",
    )


@contextmanager
def _portal(folder: Path, ports: Ports, kubeconfig: Path, counted: Path) -> Iterator[Portal]:
    environment = {
        "HOMEPORT_KUBECONFIG": str(kubeconfig),
        "WEB_KUBECONFIG": str(counted),
        "POD_PORTAL_URL": "http://10.244.0.1:8000",
        "NETWORK_CHECK": "no",  # only the pods that are measured
    }
    portal = Portal(folder / "home", ports.portal, environment, pod_port=ports.pods_door)
    try:
        _accounts(portal)
        portal.start()
        yield portal
        portal.stop()
    finally:
        portal.kill_everything()


def _accounts(portal: Portal) -> None:
    """The launcher makes demo accounts on its own cluster only."""
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    environment |= {"HOMEPORT_HOME": str(portal.home), "HOMEPORT_DEMO_PASSWORD": PASSWORD}
    command = [sys.executable, "-m", "deploy.prepare", "--demo"]
    subprocess.run(
        command, cwd=ROOT, env=environment, check=True, timeout=120, stdout=subprocess.DEVNULL
    )
