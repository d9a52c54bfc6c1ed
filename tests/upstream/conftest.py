"""What only an upstream cluster can judge: its control plane on this machine, or one that is given.

A given cluster is named by CONTRACT_KUBECONFIG; its pods have to reach the portal of the tests, whose
door for pods listens on CONTRACT_PORTAL_PORT, as CONTRACT_PORTAL_URL. With CONTRACT_AUDIT_LOG, the
log of its API server, the rights that Homeport used there are looked at as well (deploy/cluster/used.py).
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.testcluster import binaries
from deploy.testcluster.cluster import TestCluster
from deploy.testcluster.controlplane import Options
from deploy.testcluster.node import NodeOptions
from deploy.testcluster.ports import free_port
from tests.e2e.conftest import browser, page_of_own  # noqa: F401 - fixtures for all tests here
from tests.upstream.power import need_built


@dataclass(frozen=True)
class Upstream:
    """A cluster, and how its pods reach a portal.

    Attributes:
        kubeconfig: of a cluster administrator.
        pod_port: where the portal's door for pods has to listen, on 127.0.0.1.
        pod_portal_url: how pods reach it.
        audit_log: of its API server, where that is known.
    """

    kubeconfig: Path
    pod_port: int
    pod_portal_url: str
    audit_log: Path | None


def audit_log() -> Path | None:
    """Of the given cluster."""
    given = os.environ.get("CONTRACT_AUDIT_LOG")
    return Path(given) if given else None


@pytest.fixture(scope="session")
def upstream() -> Iterator[Upstream]:
    """The given cluster, else one of our own; skips where there can be none."""
    given = os.environ.get("CONTRACT_KUBECONFIG")
    if given:
        port, url = (os.environ.get(f"CONTRACT_PORTAL_{name}") for name in ("PORT", "URL"))
        if not (port and url):
            pytest.skip(
                "say with CONTRACT_PORTAL_PORT and CONTRACT_PORTAL_URL how pods of that cluster "
                "reach the portal"
            )
        yield Upstream(Path(given), int(port), url, audit_log())
        return
    need_built(binaries.KUBERNETES, binaries.ETCD)
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="homeport-upstream-"))
    folder.chmod(0o755)
    try:
        node = NodeOptions(forwards=[str(port)], has_egress=True)
        with TestCluster(folder, Options(is_audited=True), node, print) as cluster:
            log = cluster.control_plane.audit_log
            yield Upstream(cluster.kubeconfig, port, "http://10.244.0.1:8000", log)
    finally:
        if not os.environ.get("KEEP_UPSTREAM"):
            shutil.rmtree(folder, ignore_errors=True)
