"""`python -m deploy.testcluster --home DIR`: an upstream control plane until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from deploy.testcluster.binaries import NoBinariesError
from deploy.testcluster.controlplane import ControlPlane, ControlPlaneError, Options


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.testcluster",
        description="An upstream Kubernetes control plane on loopback, for tests. It has no nodes.",
    )
    parser.add_argument("--home", type=Path, required=True, help="folder for state, keys and logs")
    parser.add_argument("--audit", action="store_true", help="write audit.log into the folder")
    given = parser.parse_args()
    options = Options(is_audited=given.audit)
    ending = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    try:
        with ControlPlane(given.home, options, say=print) as cluster:
            print(
                f"Kubernetes {cluster.version} is ready: KUBECONFIG={cluster.kubeconfig}",
                flush=True,
            )
            signal.sigwait(ending)
    except (NoBinariesError, ControlPlaneError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
