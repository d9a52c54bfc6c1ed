"""What a kubelet could answer otherwise than onebox's node half: the contract's tests of pods that run, on this cluster.

In a pytest of their own, as they know a cluster by its kubeconfig alone.
"""

import os
import subprocess
import sys
from pathlib import Path

from deploy.testcluster.nodes.cluster import NodeCluster
from tests.contract.clusters import GIVEN
from tests.e2e.portal import ROOT
from tests.lanes import QUIET


def _run(cluster: NodeCluster, results: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *QUIET, "-rs", *words],
        cwd=ROOT,
        env=os.environ | {GIVEN: str(cluster.kubeconfig), "CONTRACT_RESULTS": str(results)},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-12_000:]


def test_pods_are_run_as_the_contract_says(cluster: NodeCluster, tmp_path: Path) -> None:
    _run(cluster, tmp_path, "-m", "needs_pods", "tests/contract")
