"""`python -m deploy.testcluster --home DIR`: an upstream cluster on this machine until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from deploy.testcluster.binaries import KUBERNETES, NoBinariesError
from deploy.testcluster.cluster import TestCluster
from deploy.testcluster.controlplane import ControlPlane, ControlPlaneError, Options
from deploy.testcluster.node import NodeError, NodeOptions
from deploy.testcluster.nodes.cluster import NodeCluster
from deploy.testcluster.nodes.network import NetworkError


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.testcluster",
        description="An upstream Kubernetes on this machine, for tests: the control plane, and "
        "onebox's node half as its node.",
    )
    parser.add_argument("--home", type=Path, required=True, help="folder for state, keys and logs")
    parser.add_argument("--audit", action="store_true", help="write audit.log into the folder")
    parser.add_argument(
        "--control-plane-only", action="store_true", help="no node: pods stay pending"
    )
    parser.add_argument(
        "--nodes", action="store_true", help="two real nodes (kubelet, containerd), as root"
    )
    parser.add_argument(
        "--forward",
        action="append",
        default=[],
        metavar="PORT[:POD_PORT]",
        help="make 127.0.0.1:PORT reachable for pods as 10.244.0.1:POD_PORT (default: 8000)",
    )
    given = parser.parse_args()
    options = Options(is_audited=given.audit)
    node = NodeOptions(forwards=given.forward, has_egress=True)
    ending = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    try:
        if given.control_plane_only:
            cluster: ControlPlane | TestCluster | NodeCluster
            cluster = ControlPlane(given.home, options, say=print)
        elif given.nodes:
            cluster = NodeCluster(given.home, options, say=print)
        else:
            cluster = TestCluster(given.home, options, node, say=print)
        with cluster:
            text = f"Kubernetes {KUBERNETES.version} is ready: KUBECONFIG={cluster.kubeconfig}"
            print(text, flush=True)
            signal.sigwait(ending)
    except (NoBinariesError, ControlPlaneError, NodeError, NetworkError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
