"""One node: containerd, kubelet, kube-proxy and kube-router in namespaces that one process holds.

Its files lie in a folder of its own, and what a disk would keep over a loss of power is kept there.
https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.child import Child
from deploy.testcluster import binaries
from deploy.testcluster.controlplane import SERVICE_RANGE, ControlPlane
from deploy.testcluster.nodes import gluster, images, network, products, sweep
from deploy.testcluster.nodes.network import Network, tied

INSIDE = Path(__file__).with_name("inside.py")
DNS_ADDRESS = "10.96.0.10"
_SOCKET = "/run/containerd/containerd.sock"
_NAMESPACES = ("--net", "--mount", "--propagation=private", "--pid", "--uts", "--ipc")
_STARTED_S = 15.0


@dataclass(frozen=True)
class Parts:
    """What all nodes of a cluster are made of.

    Attributes:
        programs: name -> path, of those that are built.
        packages: folder with `usr` of Debian's.
        archive: images that each node has before it is ready.
        later: those that it has some seconds afterwards.
    """

    programs: dict[str, Path]
    packages: Path
    archive: Path
    later: Path


def parts(folder: Path, say: Callable[[str], None] = print) -> Parts:
    """Build and fetch what is missing; the archive of images is written into `folder`.

    Raises:
        binaries.NoBinariesError: something cannot be had.
    """
    programs = {
        name: binaries.program(product, name, say)
        for product in products.PRODUCTS
        for name in product.programs
    }
    return Parts(programs, products.packages(say), *images.archives(folder, say))


class Node:
    """A node with a number, from 1; it is started and loses its power, as often as one likes.

    Attributes:
        name: "node-1", as in the cluster.
        address: in the network of nodes.
        home: its folder; `home/log` has a log of each program.
    """

    def __init__(
        self, number: int, home: Path, cluster: ControlPlane, net: Network, made_of: Parts
    ) -> None:
        self.number = number
        self.name = name_of(number)
        self.address = network.address(number)
        self.home = home
        self._gluster: dict[str, list[str]] = {}
        self._cluster, self._network, self._parts = cluster, net, made_of
        command = tied("unshare", *_NAMESPACES, "--fork", "--kill-child=KILL", "--mount-proc")
        command += [sys.executable, "-I", str(INSIDE), str(home / "plan.json")]
        self._child = Child(self.name, command, os.environ, Path("/"), home / "node.log", grace_s=0)

    @property
    def body(self) -> dict[str, object]:
        """The object, with a range of pods that is ours to say; its kubelet fills in the rest."""
        labels = {"kubernetes.io/hostname": self.name}
        range_ = network.pods(self.number)
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {"podCIDR": range_, "podCIDRs": [range_]},
        }

    @property
    def is_running(self) -> bool:
        return self._child.is_running

    @property
    def first_process(self) -> int:
        """The process whose end is the node's, as this machine knows it; 0: there is none."""
        if not self.is_running or self._child.process is None:
            return 0
        pid = self._child.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else 0

    def start(self, others: Sequence[int]) -> None:
        """Switch it on; it is ready some seconds later.

        Args:
            others: numbers of the cluster's other nodes.
        """
        # A volume has a replica on each of several nodes.
        self._gluster = gluster.programs(self._parts.packages, 1 + len(others)) if others else {}
        (self.home / "log").mkdir(parents=True, exist_ok=True)
        (self.home / "joined").unlink(missing_ok=True)
        sweep.make(cgroup_of(self.number))
        self._write(others)
        self._child.start()
        deadline = time.monotonic() + _STARTED_S
        while not (first := self.first_process):
            if not self.is_running or time.monotonic() > deadline:
                raise network.NetworkError(f"{self.name} did not start:\n{self.last_words()}")
            time.sleep(0.01)
        network.wait_for_namespace(first)
        self._network.join(self.number, first, list(others))
        (self.home / "joined").touch()

    def cut_power(self) -> None:
        """One SIGKILL: programs, containers, mounts and network are gone when this returns."""
        first = self.first_process
        if first:
            os.kill(first, signal.SIGKILL)
        if self._child.process is not None:
            self._child.process.wait()
        sweep.remove(cgroup_of(self.number))

    def enter(self, *argv: str) -> list[str]:
        """A command that runs inside the node, as somebody would over SSH."""
        return [
            "nsenter",
            f"--target={self.first_process}",
            "--mount",
            "--net",
            "--uts",
            "--pid",
            *argv,
        ]

    def ctr(self, *words: str) -> list[str]:
        """A command of containerd's client, on the images and containers of Kubernetes."""
        return self.enter(*_ctr(*words))

    def last_words(self) -> str:
        """The ends of its logs."""
        logs = [self.home / "node.log", *sorted((self.home / "log").glob("*.log"))]
        return "\n".join(
            f"--- {log.name}\n{log.read_text()[-1500:]}" for log in logs if log.exists()
        )

    @property
    def has_images(self) -> bool:
        """Whether its first images are imported; they outlive a loss of power."""
        return self._imported.exists()

    @property
    def _imported(self) -> Path:
        return self.home / "imported"

    @property
    def brick(self) -> Path:
        """The folder of its part of the shared volume."""
        return self.home / "brick"

    def _write(self, others: Sequence[int]) -> None:
        home, name = self.home, self.name
        for folder in (
            "cni",
            "kubelet",
            "plugins",
            "pod-logs",
            "containerd",
            "cni-addresses",
            "opt",
        ):
            (home / folder).mkdir(exist_ok=True)
        (home / "resolv.conf").write_text(f"nameserver {network.HOST}\n")
        names = [(network.address(one), name_of(one)) for one in (self.number, *others)]
        rows = [("127.0.0.1", "localhost"), *names]
        (home / "hosts").write_text("".join(f"{address} {name}\n" for address, name in rows))
        (home / "containerd.toml").write_text(_containerd(home))
        (home / "cni" / "10-bridge.conflist").write_text(json.dumps(self._cni()))
        (home / "kubelet.json").write_text(json.dumps(self._kubelet()))
        (home / "kube-proxy.json").write_text(json.dumps(self._kube_proxy()))
        (home / "plan.json").write_text(
            json.dumps(
                {
                    "name": name,
                    "home": str(home),
                    "packages": str(self._parts.packages),
                    "steps": self._steps(),
                }
            )
        )

    def _steps(self) -> list[dict[str, object]]:
        programs, keys, home = self._parts.programs, self._cluster.keys, self.home
        as_node = keys.client_kubeconfig(self.name, f"system:node:{self.name}", "system:nodes")
        router = [
            *(f"--run-{part}=false" for part in ("router", "service-proxy", "loadbalancer")),
            "--run-firewall=true",
            "--enable-cni=false",
            f"--kubeconfig={keys.client_kubeconfig('kube-router', 'homeport:kube-router')}",
            f"--hostname-override={self.name}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
        ]
        kubelet = [
            f"--config={home}/kubelet.json",
            f"--kubeconfig={as_node}",
            f"--root-dir={home}/kubelet",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
        ]
        return [
            *(_kept(name, *argv) for name, argv in self._gluster.items()),
            _kept("containerd", "containerd", f"--config={home}/containerd.toml"),
            _step("images", *_ctr("version")),
            _kept("kubelet", str(programs["kubelet"]), *kubelet),
            _kept("kube-proxy", str(programs["kube-proxy"]), f"--config={home}/kube-proxy.json"),
            _kept("kube-router", str(programs["kube-router"]), *router),
            # While these come up, for they wait for each other most of the time.
            _step("images", *_ctr("images", "import", str(self._parts.archive))),
            _step("images", "touch", str(self._imported)),
            _step("images", *_ctr("images", "import", str(self._parts.later))),
        ]

    def _cni(self) -> dict[str, object]:
        addresses = {
            "type": "host-local",
            "dataDir": str(self.home / "cni-addresses"),
            "ranges": [[{"subnet": network.pods(self.number)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "hairpinMode": True,
            **({"mtu": 1450} if self._network.is_overlay else {}),
            "ipam": addresses,
        }
        ports = {"type": "portmap", "capabilities": {"portMappings": True}}
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}

    def _kubelet(self) -> dict[str, Any]:
        keys, home = self._cluster.keys, self.home
        names = (self.name,), (self.address, "127.0.0.1")
        certificate, key = keys.cluster.server(f"{self.name}-serving", *names)
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "healthzBindAddress": "127.0.0.1",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(keys.cluster.certificate_file)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(certificate),
            "tlsPrivateKeyFile": str(key),
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{cgroup_of(self.number)}",
            "oomScoreAdj": 0,  # less needs CAP_SYS_RESOURCE
            "maxOpenFiles": 20_000,
            "containerRuntimeEndpoint": f"unix://{_SOCKET}",
            "clusterDNS": [DNS_ADDRESS],
            "clusterDomain": "cluster.local",
            "resolvConf": str(home / "resolv.conf"),
            "podLogsDir": str(home / "pod-logs"),
            "volumePluginDir": str(home / "plugins"),
            # Images come from archives; one that was removed could not be pulled again.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {
                "memory.available": "100Mi",
                **{f"{name}.available": "1%" for name in ("nodefs", "imagefs")},
                "nodefs.inodesFree": "1%",
            },
        }

    def _kube_proxy(self) -> dict[str, object]:
        kubeconfig = self._cluster.keys.client_kubeconfig("kube-proxy", "system:kube-proxy")
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "hostnameOverride": self.name,
            "clusterCIDR": network.PODS,
            "oomScoreAdj": 0,
            "conntrack": {"maxPerCore": 0, "min": 0},  # the machine's own stay as they are
        }


def name_of(number: int) -> str:
    return f"node-{number}"


def cgroup_of(number: int) -> str:
    """The name of its cgroup, in every hierarchy."""
    return f"homeport-{name_of(number)}"


def _kept(name: str, *argv: str) -> dict[str, object]:
    return {"name": name, "argv": argv, "is_kept": True}


def _step(name: str, *argv: str) -> dict[str, object]:
    return {"name": name, "argv": argv, "is_kept": False}


def _ctr(*words: str) -> tuple[str, ...]:
    return ("ctr", f"--address={_SOCKET}", "--namespace=k8s.io", *words)


def _containerd(home: Path) -> str:
    return f"""version = 2
root = "{home}/containerd"
state = "/run/containerd"
[grpc]
  address = "{_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{home}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE}"
  stream_server_address = "127.0.0.1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{home}/cni"
"""
