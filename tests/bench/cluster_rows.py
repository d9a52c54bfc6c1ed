"""What rows are measured with where pods are real: onebox, upstream Kubernetes with our node, or real nodes.

The rows about logs are those of `log_rows`, with fewer viewers: a person may have ten, and three of the demo
accounts may see one training. Each pod is a training whose program waits for what to write (`gate`). The
portal reads logs as an account whose API server is a port that counts connections; the raw relay and
kubectl go through the same port. Real nodes have an audit log as well, and with it a row about pages.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import yaml

from deploy.image import offer_image
from deploy.testcluster.ports import free_port
from onebox.testing.processes import command_line, descendants
from tests.bench import page_rows
from tests.bench.fakelogs import LINE_BYTES, Work
from tests.bench.processes import running
from tests.bench.relay import Api
from tests.bench.requests_side import Page, RealPages
from tests.bench.viewers import Target
from tests.bench.world import Logs, Side, Size, World, relay
from tests.e2e.portal import PASSWORD, ROOT, Portal, Rest
from tests.tools.kubectls import current_kubectl
from tests.tools.servers import answers
from tests.upstream.journal import Journal

WEB = "system:serviceaccount:homeport:web"
PEOPLE = ("ada", "lee", "root")  # whose training it is, who leads the team, who may see everything
# 10 MB at most: less than the runner shows at once, so that nothing is left out by it.
SIZE = Size(pods=3, viewers=27, flood=Work(50_000), single=Work(100_000))
GATE_POD_PORT = 9100
_FORWARDED = "10.244.0.1"  # where pods of our own nodes find what is forwarded to this machine
_IMAGE_S = 300.0
_NAMESPACE_S = 120.0
PROGRAM = f"""
import json, sys, time, urllib.request
def line(n):
    head = '#%09d INFO train step loss=0.1234 lr=1e-4 ' % n
    return head + 'x' * ({LINE_BYTES} - len(head) - 2) + '~\\n'
def write(first, end):
    sys.stdout.write(''.join(map(line, range(first, end))))
    sys.stdout.flush()
write(0, 1)
work = json.load(urllib.request.urlopen(sys.argv[1]))
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


@dataclass(frozen=True)
class Place:
    """A cluster, and how its pods reach this machine.

    Attributes:
        kubeconfig: with which the portal works.
        web_kubeconfig: with which it reads logs.
        environment: what else the portal is told.
        portal_url: where pods find the portal.
        gate: address and port at which pods find the gate.
        listen: the gate's own address.
        let_out: lets the pods of this namespace reach the gate.
        journal: of the cluster's audit log, where it has one.
    """

    kubeconfig: Path
    web_kubeconfig: Path
    portal_url: str = f"http://{_FORWARDED}:8000"
    gate: str = f"{_FORWARDED}:{GATE_POD_PORT}"
    listen: str = "127.0.0.1"
    environment: Mapping[str, str] = field(default_factory=dict)
    let_out: Callable[[str], None] = lambda namespace: None
    journal: Journal | None = None


@contextmanager
def onebox(folder: Path, ports: Ports) -> Iterator[Place]:
    """An embedded cluster, which the launcher would not let us read by another port."""
    home = folder / "cluster"
    kubeconfig = home / "kubeconfig"
    offer_image(home / "node")
    arguments = ["-m", "onebox", "--home", str(home), "--egress", "on"]
    for port in ports.for_pods:
        arguments += ["--forward", port]
    with running(arguments, folder / "cluster.log", kubeconfig.exists):
        yield Place(kubeconfig, kubeconfig)


@contextmanager
def upstream(folder: Path, ports: Ports) -> Iterator[Place]:
    """Upstream's control plane, with our node half.

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
        yield Place(cluster.kubeconfig, cluster.kubeconfig)


@contextmanager
def nodes(folder: Path, ports: Ports) -> Iterator[Place]:
    """Two nodes of kubelet and containerd, volumes on GlusterFS, and the accounts of `deploy/cluster`.

    Raises:
        NoClusterError: this machine gives none.
    """
    from deploy.testcluster import binaries
    from deploy.testcluster.controlplane import Options
    from deploy.testcluster.nodes import images, network, products
    from deploy.testcluster.nodes.cluster import NodeCluster
    from tests.nodes.pods import Pods
    from tests.nodes.volumes import SELECTOR, install_volumes
    from tests.upstream.power import install

    try:
        if why_not := products.why_not():
            raise NoClusterError(why_not)
        products.prepare(lambda _: None)
        images.layers(lambda _: None)
    except binaries.NoBinariesError as error:
        raise NoClusterError(str(error)) from error
    with NodeCluster(folder / "nodes", Options(is_audited=True), is_thrown_away=True) as cluster:
        accounts = install(cluster.kubeconfig, folder)
        pods = Pods(cluster.kubeconfig)
        install_volumes(cluster, pods)
        given = accounts.kubeconfigs
        yield Place(
            given["reconciler"],
            given["web"],
            portal_url=f"http://{network.HOST}:{ports.pods_door}",
            gate=f"{network.HOST}:{ports.gate}",
            listen=network.HOST,
            environment={
                "PURGE_KUBECONFIG": str(given["purge"]),
                "POD_LISTEN": network.HOST,
                "NODE_HOST": network.address(1),
                "NODE_CIDRS": " ".join(network.of_nodes()),
                "CLIENT_CIDRS": network.CLIENTS,
                "NODE_SELECTOR": ",".join(f"{key}={value}" for key, value in SELECTOR.items()),
            },
            let_out=lambda namespace: pods.apply(_way_to(network.HOST, ports.gate, namespace)),
            journal=Journal(cluster.control_plane.audit_log),
        )


def _way_to(address: str, port: int, namespace: str) -> dict[str, Any]:
    """Lets pods reach the gate, as their policy does with the portal."""
    to = [{"ipBlock": {"cidr": f"{address}/32"}}]
    egress = [{"to": to, "ports": [{"protocol": "TCP", "port": port}]}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"namespace": namespace, "name": "bench"},
        "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": egress},
    }


CLUSTERS: dict[str, Callable[[Path, Ports], Any]] = {
    "onebox": onebox,
    "upstream": upstream,
    "nodes": nodes,
}
# These want root and half an hour to be built, so they are measured where they are named.
NAMED_ALONE = ("nodes",)
AUDITED = ("nodes",)  # what pages ask of these is known


@dataclass
class Trainings:
    """The set of pods that is there: a training for each, whose program waits for its work.

    Attributes:
        gate: address and port at which they find it.
    """

    rest: Rest
    namespace: str
    gate: str
    jobs: list[dict[str, Any]] = field(default_factory=list)
    pods: list[str] = field(default_factory=list)

    def begin(self, turn: int, pods: int) -> None:
        """Ends the set before and waits until this one's programs run."""
        self.end()
        self.jobs = [
            self.rest.submit(
                name=f"writes {turn}",
                command=["python3", "-c", PROGRAM, f"http://{self.gate}/share/{number}"],
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
        place = stack.enter_context(CLUSTERS[name](folder, ports))
        logs = stack.enter_context(_gate(folder, ports, place))
        counted = _through(place.web_kubeconfig, ports.forward, folder / "kubeconfig-counted")
        portal = stack.enter_context(_portal(folder, ports, place, counted))
        people = [portal.sign_in(person) for person in PEOPLE]
        namespace = people[0].tenant(timeout_s=_NAMESPACE_S)["namespace"]
        place.let_out(namespace)
        trainings = Trainings(people[0], namespace, place.gate)
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
        yield World(
            *(logs, side, batch, line, counted, SIZE, trainings.pod, trainings.begin),
            pages=_pages(stack, folder, portal, place),
        )
        trainings.end()


def _pages(stack: ExitStack, folder: Path, portal: Portal, place: Place) -> RealPages | None:
    """An admin's pages of a second process, the web server alone, where it is told what they ask of the cluster."""
    journal = place.journal
    if journal is None:
        return None
    cookie = f"homeport_session={portal.session('root').cookies['homeport_session']}"
    environment = {
        **portal.environment,
        "HOMEPORT_HOME": str(portal.home),
        "ACCEPT_INSECURE": "no-redis",
    }
    web = stack.enter_context(page_rows.served(folder, environment, "--no-reconciler"))
    hello = stack.enter_context(page_rows.hello(folder, environment, "django"))
    views = [Page(*web, path, cookie) for path in page_rows.VIEWS]
    who = [current_kubectl(), f"--kubeconfig={place.web_kubeconfig}", "auth", "whoami"]
    return RealPages(
        views,
        Page(*hello, "/hello/"),
        lambda: subprocess.run(who, check=True, capture_output=True, timeout=30),
        lambda: journal.calls(WEB),
    )


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="homeport-bench-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _gate(folder: Path, ports: Ports, place: Place) -> Iterator[Logs]:
    config = yaml.safe_load(place.kubeconfig.read_text())
    server = urlsplit(config["clusters"][0]["cluster"]["server"])
    where = [str(server.hostname), str(server.port)]
    arguments = ["-m", "tests.bench.gate", place.listen, str(ports.gate), str(ports.forward)]
    arguments += where
    log = folder / "gate.log"
    with running(arguments, log, lambda: answers(ports.gate, place.listen)) as pid:
        yield Logs(ports.gate, pid, place.listen)


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
def _portal(folder: Path, ports: Ports, place: Place, counted: Path) -> Iterator[Portal]:
    environment = {
        "HOMEPORT_KUBECONFIG": str(place.kubeconfig),
        "WEB_KUBECONFIG": str(counted),
        "POD_PORTAL_URL": place.portal_url,
        "NETWORK_CHECK": "no",  # only the pods that are measured
        **place.environment,
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
