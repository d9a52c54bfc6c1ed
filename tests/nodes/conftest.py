"""One cluster of two real nodes for all tests here."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.testcluster.controlplane import Options
from deploy.testcluster.nodes import products
from deploy.testcluster.nodes.cluster import NodeCluster
from tests.e2e.portal import ROOT
from tests.nodes.pods import Pods
from tests.tools.waiting import wait_for

# Pods' traffic between nodes is carried by devices with addresses of their own.
IS_OVERLAY = bool(os.environ.get("NODES_OVERLAY"))
# These have a cluster of another kind, and run where they are named.
collect_ignore = ["test_killed.py", "test_overlay.py", "test_small.py"]
# Of nodes where the volume is mounted.
SELECTOR = {"homeport.dev/gluster": "ready"}


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
        is_overlay=IS_OVERLAY,
        is_thrown_away=not os.environ.get("KEEP_NODES"),
        say=print,
    ) as running:
        yield running


@pytest.fixture(scope="session")
def volumes(cluster: NodeCluster, pods: Pods) -> None:
    """The class `glusterfs`, as its component makes it, and both nodes labelled."""
    home = cluster.home / "volumes"
    home.mkdir()
    place = os.path.relpath(ROOT / "deploy/kubernetes/components/storage-gluster", home)
    # Homeport's own settings, which the component adds to, are not installed here.
    settings = {
        "name": "homeport",
        "namespace": "homeport",
        "literals": ["LISTEN=0.0.0.0"],
        "options": {"annotations": {"config.kubernetes.io/local-config": "true"}},
    }
    site = {"configMapGenerator": [settings], "components": [place]}
    (home / "kustomization.yaml").write_text(json.dumps(site))
    pods.must("apply", "-k", str(home))
    selector = ",".join(f"{key}={value}" for key, value in SELECTOR.items())
    wait_for(
        "all nodes have the volume",
        lambda: len(pods.get("nodes", "-l", selector)["items"]) == len(cluster.nodes),
        timeout_s=90,
    )


@pytest.fixture(scope="session")
def pods(cluster: NodeCluster) -> Pods:
    return Pods(cluster.kubeconfig)
