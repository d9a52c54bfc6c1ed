"""Joins this machine to a control plane as a node: onebox's node half, with a kubelet's rights.

    with ControlPlane(home / "cluster") as cluster, JoinedNode(cluster, home / "node") as node:
        ...

The node is system:node:NAME in system:nodes, judged by the Node authorizer and NodeRestriction.
Following Services and making volumes is the work of a second user, with the ClusterRoles that
upstream has for it (node.yaml). Logs are read by the API server with its own certificate.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from deploy.child import Child
from deploy.image import offer_image
from deploy.testcluster.controlplane import ControlPlane, ControlPlaneError

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = Path(__file__).with_name("node.yaml")
_PLURALS = {"ClusterRoleBinding": "clusterrolebindings", "StorageClass": "storageclasses"}
READY_S = 60.0
_GRACE_S = 2.0  # of pods when the node stops


class NodeError(RuntimeError):
    """The node ended or did not become ready; the text has its last words."""


@dataclass(frozen=True)
class NodeOptions:
    """What the node should be.

    Args:
        gpus: "auto" or a number.
        forwards: "PORT" or "PORT:POD_PORT", ports of this machine's loopback that pods reach at
            10.244.0.1 (see `python -m onebox.node --help`).
        extra: further options of `python -m onebox.node`.
    """

    name: str = "onebox"
    gpus: str = "4"
    forwards: Sequence[str] = ()
    has_egress: bool = False
    extra: Sequence[str] = ()


def is_ready(cluster: ControlPlane, name: str) -> bool:
    """Whether the cluster schedules pods onto the node of this name."""
    said = cluster.get(f"/api/v1/nodes/{name}")
    node = json.loads(said or b"{}")
    conditions = node.get("status", {}).get("conditions") or []
    is_true = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    taints = node.get("spec", {}).get("taints") or []
    return is_true and not any("not-ready" in taint["key"] for taint in taints)


class JoinedNode:
    """A node of a control plane, in a folder of its own, until the end of the context.

    Attributes:
        child: its process; `child.log` is its log.

    Raises (on entering):
        NodeError: it does not become ready.
    """

    def __init__(
        self, cluster: ControlPlane, home: Path, options: NodeOptions | None = None
    ) -> None:
        self.home = home.absolute()
        self.options = options or NodeOptions()
        self._cluster = cluster
        self.child: Child

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        offer_image(self.home)
        self.child = Child(
            "node",
            self._command(),
            os.environ,
            ROOT,
            log=self.home.with_name(f"{self.home.name}.log"),
            grace_s=_GRACE_S + 15.0,
        )
        self._grant()
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it (again) and wait until the cluster takes it for ready."""
        self.child.start()
        deadline = time.monotonic() + READY_S
        while not self.is_ready():
            if not self.child.is_running:
                code = self.child.exit_code
                raise NodeError(f"the node ended with {code}:\n{self.child.last_words()}")
            if time.monotonic() > deadline:
                raise NodeError(f"the node is not ready:\n{self.child.last_words()}")
            time.sleep(0.2)

    def stop(self) -> None:
        """End it and its pods' processes; the cluster notices as with any node that goes away."""
        self.child.stop(lambda: False)

    def is_ready(self) -> bool:
        """Whether the cluster schedules pods onto it."""
        return is_ready(self._cluster, self.options.name)

    def _grant(self) -> None:
        for body in yaml.safe_load_all(MANIFEST.read_text()):
            path = f"/apis/{body['apiVersion']}/{_PLURALS[body['kind']]}"
            try:
                self._cluster.create(path, body)
            except ControlPlaneError as error:
                raise NodeError(f"what the node needs could not be granted: {error}") from error

    def _command(self) -> list[str]:
        keys, options = self._cluster.keys, self.options
        name = options.name
        certificate, key = keys.cluster.server(f"{name}-serving", (name,), ("127.0.0.1",))
        first, last = self._cluster.options.node_ports
        given: dict[str, object] = {
            "--kubeconfig": keys.client_kubeconfig(name, f"system:node:{name}", "system:nodes"),
            "--services-kubeconfig": keys.client_kubeconfig(f"{name}-services", "onebox-services"),
            "--tls-cert": certificate,
            "--tls-key": key,
            "--client-ca": keys.cluster.certificate_file,
            "--home": self.home,
            "--node-name": name,
            "--gpus": options.gpus,
            "--egress": "on" if options.has_egress else "off",
            "--node-port-range": f"{first}-{last}",
            "--grace": _GRACE_S,
        }
        words = [str(word) for pair in given.items() for word in pair]
        for forward in options.forwards:
            words += ["--forward", forward]
        return [sys.executable, "-m", "onebox.node", *words, *options.extra]
