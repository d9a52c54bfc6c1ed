"""A cluster of real nodes on this machine: control plane, network, DNS, a shared volume and two nodes.

    with NodeCluster(home) as cluster:
        ... cluster.kubeconfig, cluster.nodes[0].cut_power()

The machine itself gets one device and two routes, and one such cluster at a time.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import yaml

from deploy.child import Child
from deploy.testcluster import binaries
from deploy.testcluster.controlplane import ControlPlane, Options
from deploy.testcluster.node import ROOT, NodeError, is_ready
from deploy.testcluster.nodes import gluster, network, sweep
from deploy.testcluster.nodes.network import Network
from deploy.testcluster.nodes.node import Node, cgroup_of, parts

MANIFEST = Path(__file__).with_name("cluster.yaml")
COUNT = 2
READY_S = 120.0
_STOP_S = 5.0
_PATHS = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Service": "/api/v1/namespaces/kube-system/services",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices",
    "Node": "/api/v1/nodes",
}


class NodeCluster:
    """See the module.

    Args:
        home: a folder for everything.
        count: of nodes, two at most; a single one has no GlusterFS.
        is_overlay: pods' traffic between nodes is carried by devices with addresses of their own.
        is_thrown_away: the folder goes in the end, even when this process is killed.

    Raises (on entering):
        binaries.NoBinariesError, ControlPlaneError, NodeError, gluster.GlusterError, network.NetworkError: it does not start.
    """

    def __init__(
        self,
        home: Path,
        options: Options | None = None,
        *,
        count: int = COUNT,
        is_overlay: bool = False,
        is_thrown_away: bool = False,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.home = home.absolute()
        self.nodes: list[Node] = []
        given = options or Options()
        self.control_plane = ControlPlane(
            self.home / "cluster",
            Options(**{**vars(given), "address": network.HOST}),
            say,
        )
        self._say = say
        self._count = count
        self._is_overlay = is_overlay
        self._is_thrown_away = is_thrown_away
        self._stack = ExitStack()

    @property
    def kubeconfig(self) -> Path:
        """Of a cluster administrator."""
        return self.control_plane.kubeconfig

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.home.mkdir(parents=True, exist_ok=True)
            began_s = time.monotonic()
            made_of = parts(self.home / "images", self._say)
            prepared_s = time.monotonic() - began_s
            stack.enter_context(_alone(self._say))
            began_s = time.monotonic() - prepared_s  # waiting for another cluster is not its time
            for number in range(1, COUNT + 1):
                sweep.remove(cgroup_of(number))  # of a run whose sweeper was killed with it
            stack.enter_context(self._swept())
            net = stack.enter_context(Network(self.home, is_overlay=self._is_overlay))
            plane = stack.enter_context(self.control_plane)
            for body in yaml.safe_load_all(MANIFEST.read_text()):
                plane.create(_PATHS[body["kind"]], body)
            dns = self._dns(made_of.programs["coredns"])
            stack.callback(dns.stop, lambda: False)
            dns.start()
            for number in range(1, self._count + 1):
                home = self.home / f"node-{number}"
                node = Node(number, home, plane, net, made_of)
                plane.create(_PATHS["Node"], node.body)
                stack.callback(node.cut_power)
                self.nodes.append(node)
                self.start(node)
            if self._count > 1:
                gluster.create(self.nodes[0].enter, [node.brick for node in self.nodes])
            for node in self.nodes:
                self.wait_until_ready(node)
            if not dns.is_running:
                raise NodeError(f"{dns.name} ended:\n{dns.last_words()}")
            took_s = time.monotonic() - began_s
            self._say(f"nodes that are Ready: {self._count}, after {took_s:.1f} s")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_ended: object) -> None:
        self._stack.close()

    def start(self, node: Node) -> None:
        """Switch a node on (again)."""
        node.start([number for number in range(1, self._count + 1) if number != node.number])

    def wait_until_ready(self, node: Node) -> None:
        """
        Raises:
            NodeError: it ended, or the cluster schedules no pods onto it in time, or it has no images for them.
        """
        deadline = time.monotonic() + READY_S
        while not (node.has_images and is_ready(self.control_plane, node.name)):
            if not node.is_running or time.monotonic() > deadline:
                raise NodeError(f"{node.name} is not ready:\n{node.last_words()}")
            time.sleep(0.2)

    @contextmanager
    def _swept(self) -> Iterator[None]:
        """What remains of nodes is removed when this process has ended, however it ends."""
        fate = "remove" if self._is_thrown_away else "keep"
        names = [cgroup_of(number) for number in range(1, COUNT + 1)]
        sweeper = subprocess.Popen(
            [sys.executable, "-m", "deploy.testcluster.nodes.sweep", str(self.home), fate, *names],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            yield
        finally:
            sweeper.communicate()

    def _dns(self, program: Path) -> Child:
        kubeconfig = self.control_plane.keys.client_kubeconfig("coredns", "homeport:coredns")
        file = self.home / "Corefile"
        file.write_text(
            f".:53 {{\n  bind {network.HOST}\n  errors\n  cache 5\n"
            "  kubernetes cluster.local in-addr.arpa ip6.arpa {\n"
            f"    kubeconfig {kubeconfig}\n  }}\n}}\n"
        )
        log = self.home / "coredns.log"
        argv = (str(program), "-conf", str(file))
        return Child("coredns", argv, os.environ, ROOT, log=log, grace_s=_STOP_S)


@contextmanager
def _alone(say: Callable[[str], None]) -> Iterator[None]:
    """Addresses and names of nodes are this machine's only ones: a second cluster waits."""
    place = binaries.cache_root() / "nodes.lock"
    with place.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another cluster of nodes on this machine ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
