"""One cluster of two real nodes for all tests here."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.testcluster.controlplane import Options
from deploy.testcluster.nodes import products
from deploy.testcluster.nodes.cluster import NodeCluster
from tests.lane import LEFT_OUT
from tests.lanes import APART, INSIDE, OWN_NODES
from tests.nodes.pods import OPEN, Pods, reaches_from_here, server
from tests.nodes.site import Site, two_nodes
from tests.nodes.volumes import install_volumes
from tests.tools.waiting import wait_for

# Pods' traffic between nodes is carried by devices with addresses of their own.
IS_OVERLAY = bool(os.environ.get("NODES_OVERLAY"))
# These have a cluster of another kind, and run where they are named.
collect_ignore = [Path(file).name for file in (*OWN_NODES, *INSIDE, *APART, "test_overlay.py")]
LEFT_OUT_BECAUSE = "HOMEPORT_LEFT_OUT_BECAUSE"  # a file for the reason


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
    with ExitStack() as stack:
        nodes = NodeCluster(
            home,
            Options(flags=flags, is_audited=True),
            is_overlay=IS_OVERLAY,
            is_thrown_away=not os.environ.get("KEEP_NODES"),
            say=print,
        )
        try:
            running = stack.enter_context(nodes)
            if os.environ.get(LEFT_OUT_BECAUSE):
                _try_pods(running)
        except (RuntimeError, AssertionError, OSError, subprocess.SubprocessError) as error:
            _leave_out(error)
            raise
        yield running


def _try_pods(cluster: NodeCluster) -> None:
    """Pods on both nodes that answer: more does no test ask of the machine."""
    pods = Pods(cluster.kubeconfig)
    account = ("-n", "default", "get", "serviceaccount", "default")
    wait_for("pods are admitted", lambda: pods.ask(*account).is_done)
    names = {f"try-{node.number}": node for node in cluster.nodes}
    pods.apply(*(server("default", name, node.name) for name, node in names.items()))
    pods.wait_until_ready("default", *names)
    for name in names:
        address = pods.address("default", name)
        wait_for(f"{name} answers", lambda at=address: reaches_from_here(at, OPEN))
    pods.must("-n", "default", "delete", "pod", *names)


def _leave_out(error: Exception) -> None:
    """Ends the run where nodes may be left out: it is the machine that gives none."""
    if place := os.environ.get(LEFT_OUT_BECAUSE):
        said = " ".join(str(error).split())
        Path(place).write_text(f"real nodes do not start here: {said[:500]}")
        pytest.exit(f"left out: {error}", returncode=LEFT_OUT)


@pytest.fixture(scope="session")
def volumes(cluster: NodeCluster, pods: Pods) -> None:
    """The class `glusterfs`, as its component makes it, and both nodes labelled."""
    install_volumes(cluster, pods)


@pytest.fixture(scope="session")
def site(cluster: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with two_nodes(cluster, tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture(scope="session")
def pods(cluster: NodeCluster) -> Pods:
    return Pods(cluster.kubeconfig)
