"""One cluster of two real nodes for all tests here."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.testcluster.controlplane import Options
from deploy.testcluster.nodes import products
from deploy.testcluster.nodes.cluster import NodeCluster
from tests.nodes.pods import Pods


def need_nodes() -> None:
    """Skips where there can be none, which in CI is a failure."""
    if why_not := products.why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(why_not)


@pytest.fixture(scope="session")
def cluster() -> Iterator[NodeCluster]:
    """Control plane and two nodes."""
    need_nodes()
    home = Path(tempfile.mkdtemp(prefix="homeport-nodes-"))
    home.chmod(0o755)  # pods run as other users
    # Half of what is waited by default until a silent node is gone, and less for its pods' sake.
    flags = {
        "kube-controller-manager": ["--node-monitor-grace-period=20s"],
        "kube-apiserver": [
            f"--default-{what}-toleration-seconds=5" for what in ("not-ready", "unreachable")
        ],
    }
    with NodeCluster(
        home,
        Options(flags=flags),
        is_thrown_away=not os.environ.get("KEEP_NODES"),
        say=print,
    ) as running:
        yield running


@pytest.fixture(scope="session")
def pods(cluster: NodeCluster) -> Pods:
    return Pods(cluster.kubeconfig)
