"""The cluster under test: the one of CONTRACT_KUBECONFIG, else one that is started for it."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from onebox.testing import start
from tests.contract.kube import MERGE, Kube
from tests.contract.tape import CORE, NODE

Side = Literal["onebox", "upstream"]
GIVEN = "CONTRACT_KUBECONFIG"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_RENEW_S = 8.0
COMPACTION_S = 5  # what is older is forgotten soon, which a test waits for


@dataclass(frozen=True)
class Cluster:
    """What the contract is tried on.

    Attributes:
        side: which of the two it is.
        version: what it says of itself.
        has_node: whether pods run on it.
        has_kubelet: and whether a kubelet runs them, not onebox's node half.
    """

    kubeconfig: Path
    kube: Kube
    side: Side
    version: str
    has_node: bool
    has_kubelet: bool


@contextlib.contextmanager
def opened(wanted: Side) -> Iterator[Cluster]:
    """The given cluster, or a new one of the wanted side.

    Raises:
        RuntimeError: it does not start.
    """
    with contextlib.ExitStack() as stack:
        given = os.environ.get(GIVEN)
        kubeconfig = Path(given) if given else stack.enter_context(_started(wanted))
        cluster = look(kubeconfig)
        stack.enter_context(_node(cluster.kube))
        yield cluster


def look(kubeconfig: Path) -> Cluster:
    """Ask a cluster what it is."""
    kube = Kube(kubeconfig)
    version = str(kube.must("GET", "/version")["gitVersion"])
    nodes = kube.must("GET", f"{CORE}/nodes")["items"]
    ready = [node for node in nodes if node["metadata"]["name"] != NODE and _is_ready(node)]
    return Cluster(
        kubeconfig,
        kube,
        "onebox" if "onebox" in version else "upstream",
        version,
        bool(ready),
        any("onebox" not in _runtime(node) for node in ready),
    )


def _runtime(node: dict) -> str:
    return str(node["status"]["nodeInfo"]["containerRuntimeVersion"])


def _is_ready(node: dict) -> bool:
    found = node["status"].get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in found)


@contextlib.contextmanager
def _started(wanted: Side) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="contract-", ignore_cleanup_errors=True) as folder:
        home = Path(folder) / wanted
        if wanted == "onebox":
            with contextlib.closing(start(home)) as box:
                yield box.kubeconfig
        else:
            # Imported here: the programs of upstream are looked for where they are needed.
            from deploy.testcluster.cluster import TestCluster
            from deploy.testcluster.controlplane import Options

            with TestCluster(home, Options(compaction_s=COMPACTION_S)) as started:
                yield started.kubeconfig


@contextlib.contextmanager
def _node(kube: Kube) -> Iterator[None]:
    """A Node that stays ready and runs nothing: scripts say what becomes of its pods."""
    kube.send("DELETE", f"{CORE}/nodes/{NODE}")
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "500", "nvidia.com/gpu": "16"}
    ready = {"type": "Ready", "status": "True", "reason": "Contract", "message": "for tests"}
    kube.must(
        "POST",
        f"{CORE}/nodes",
        {
            "metadata": {"name": NODE, "labels": {"contract": "node"}},
            # Nothing comes here unless it is named.
            "spec": {"unschedulable": True},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
        },
    )
    lease = {"metadata": {"name": NODE}, "spec": {"holderIdentity": NODE}}
    if kube.get(f"{_LEASES}/{NODE}").code == 404:
        kube.must("POST", _LEASES, lease)
    over = threading.Event()
    beating = threading.Thread(target=_beat, args=(kube, over), daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()
        kube.send("DELETE", f"{CORE}/nodes/{NODE}")
        kube.send("DELETE", f"{_LEASES}/{NODE}")


def _beat(kube: Kube, over: threading.Event) -> None:
    while True:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"renewTime": now, "leaseDurationSeconds": 40}
        kube.send("PATCH", f"{_LEASES}/{NODE}", {"spec": spec}, kind=MERGE)
        if over.wait(_RENEW_S):
            return
