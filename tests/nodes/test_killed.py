"""Nothing of a cluster of nodes outlives the process that started it, also when that is killed.

In a pytest call of its own: there can be one such cluster at a time on a machine.
"""

import subprocess
import sys
import tempfile
from itertools import takewhile
from pathlib import Path

import pytest

from deploy.testcluster.nodes import images, products
from deploy.testcluster.nodes.cluster import READY_S
from onebox.testing.processes import naming
from tests.e2e.portal import ROOT
from tests.nodes.conftest import need_nodes
from tests.nodes.left import of_network, of_nodes, packet_filters
from tests.nodes.pods import Pods, server
from tests.tools.waiting import wait_for
from tests.upstream import left

_RUNNER = """
import pathlib, sys, time
from deploy.testcluster.nodes.cluster import NodeCluster
with NodeCluster(pathlib.Path(sys.argv[1]), is_thrown_away=True, say=print) as cluster:
    print(cluster.kubeconfig, "END", sep="\\n", flush=True)
    time.sleep(3600)
"""


def test_nothing_is_left_when_the_runner_is_killed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    need_nodes()
    products.prepare()
    images.layers()
    folder = Path(tempfile.mkdtemp(prefix="homeport-nodes-"))
    folder.chmod(0o755)
    filters, defaults = packet_filters(), left.by_default()
    settings = _settings()
    command = [sys.executable, "-c", _RUNNER, str(folder)]
    runner = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert runner.stdout is not None
        *_, ready, kubeconfig = takewhile(lambda line: line != "END\n", runner.stdout)
        with capsys.disabled():
            print(f"\n{ready}", end="")
        pods = Pods(Path(kubeconfig.strip()))
        account = ("-n", "default", "get", "serviceaccount", "default")
        wait_for("pods are admitted", lambda: pods.ask(*account).is_done)
        pods.apply(server("default", "one", "node-1"), server("default", "two", "node-2"))
        pods.wait_until_ready("default", "one", "two")
        assert of_nodes()
        assert of_network()
    finally:
        runner.kill()
        runner.wait()
    wait_for(
        "nothing is left",
        lambda: not (of_nodes() + of_network() + naming(str(folder))),
        timeout_s=2 * READY_S,
    )
    wait_for("its folder is gone", lambda: not folder.exists(), timeout_s=60)
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    assert packet_filters() == filters
    assert left.by_default() == defaults
    assert _settings() == settings


def _settings() -> dict[str, str]:
    """Of the kernel, those that a kubelet or a kube-proxy would change."""
    names = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")
    names += ("net/netfilter/nf_conntrack_max",)
    places = [Path("/proc/sys", name) for name in names]
    return {str(place): place.read_text() for place in places if place.exists()}
