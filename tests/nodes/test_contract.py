"""What a kubelet could answer otherwise than onebox's node half: the contract's tests of pods that run, on this cluster.

In a pytest of their own, as they know a cluster by its kubeconfig alone.
"""

import os
import subprocess
import sys
from pathlib import Path

from deploy.testcluster.nodes.cluster import NodeCluster
from tests.contract.clusters import GIVEN
from tests.contract.exceptions import of_the_node
from tests.e2e.portal import ROOT
from tests.lane import QUIET

WHOLE = "deploy/onebox/tests/onebox_tests/whole"
FILES = [f"{WHOLE}/test_{name}.py" for name in ("pods", "deletion", "logs", "network", "workloads")]
# They ask onebox how it keeps namespaces apart, its machine for a NodePort, for a default class, and for DNS of the world.
OF_ONEBOX = (
    f"{WHOLE}/test_pods.py::test_volumes_hold_what_they_should_and_data_survives_the_pod",
    f"{WHOLE}/test_network.py::test_namespaces_are_apart_or_the_node_says_that_they_are_not",
    f"{WHOLE}/test_network.py::test_a_node_port_leads_in_from_the_host",
    f"{WHOLE}/test_network.py::test_a_missing_name_is_answered_at_once",
    # and these hold there alone
    *(test for difference in of_the_node() for test in difference.tests),
)


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


def test_pods_live_and_end_as_on_onebox(cluster: NodeCluster, tmp_path: Path) -> None:
    _run(cluster, tmp_path, *FILES, *(f"--deselect={name}" for name in OF_ONEBOX))
