"""GlusterFS on both nodes: who writes where, what the guard of the mount point does, sizes, a lost brick."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.testcluster.nodes import gluster, images
from deploy.testcluster.nodes.cluster import NodeCluster
from deploy.testcluster.nodes.node import Node
from tests.e2e.portal import ROOT
from tests.nodes.pods import Pods
from tests.nodes.volumes import SELECTOR
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.usefixtures("volumes")
SPACE = "volumes"
SIZE_BYTES = 100 * 2**20
QUOTA = ROOT / "deploy/kubernetes/components/storage-gluster/quota.py"
GUARD = "system:serviceaccount:homeport-storage:gluster-guard"
# Writes a number each tenth of a second, and syncs it; nothing may be missing afterwards.
WRITER = """
import os, time
with open("/data/numbers", "a") as file:
    for number in range(100_000):
        print(number, file=file, flush=True)
        os.fsync(file.fileno())
        time.sleep(0.1)
"""
FILL = """
import os, time
size = os.statvfs("/data")
print(size.f_blocks * size.f_frsize)
try:
    for number in range(60):
        with open(f"/data/{number}", "wb") as file:
            file.write(bytes(5 * 2**20))
        time.sleep(0.3)
except OSError as error:
    print(error.errno)
"""


def _pod(name: str, node: Node, program: str = "import time; time.sleep(3600)") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": SPACE, "name": name},
        "spec": {
            "nodeName": node.name,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsUser": 1000, "runAsGroup": 100},
            "containers": [
                {
                    "name": "main",
                    "image": images.PYTHON,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-c", program],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }


@pytest.fixture(scope="module")
def claim(pods: Pods) -> Iterator[None]:
    """A claim of the class `glusterfs` that many may write to."""
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "glusterfs",
        "resources": {"requests": {"storage": str(SIZE_BYTES)}},
    }
    meta = {"namespace": SPACE, "name": "data"}
    pods.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec},
    )
    path = ("-n", SPACE, "wait", "--for=jsonpath={.status.phase}=Bound", "--timeout=60s")
    pods.must(*path, "pvc/data", timeout_s=70)
    yield
    pods.remove(SPACE)


def _is_labelled(pods: Pods, node: Node) -> bool:
    labels = pods.get("node", node.name)["metadata"]["labels"]
    return SELECTOR.items() <= labels.items()


def _numbers(pods: Pods, name: str) -> list[int]:
    said = pods.python(SPACE, name, "print(open('/data/numbers').read())")
    return [int(line) for line in said.out.split()] if said.is_done else []


def _run(node: Node, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(node.enter(*words), capture_output=True, text=True, check=False)


def test_a_writer_notices_neither_a_lost_brick_nor_a_guard_that_starts_again(
    cluster: NodeCluster, pods: Pods, claim: None
) -> None:
    first, second = cluster.nodes
    pods.apply(_pod("writer", first, WRITER), _pod("reader", second))
    pods.wait_until_ready(SPACE, "writer", "reader")
    wait_for("the other node reads it", lambda: len(_numbers(pods, "reader")) > 20)
    assert _run(first, "pkill", "-KILL", "-f", str(first.brick)).returncode == 0
    pods.must("-n", "homeport-storage", "rollout", "restart", "daemonset/gluster-guard")
    done = ("rollout", "status", "daemonset/gluster-guard", "--timeout=90s")
    pods.must("-n", "homeport-storage", *done, timeout_s=100)
    so_far = len(_numbers(pods, "reader"))
    wait_for("it goes on", lambda: len(_numbers(pods, "reader")) > so_far + 20)
    assert _run(first, "gluster", "volume", "start", gluster.VOLUME, "force").returncode == 0

    def is_healed() -> bool:
        told = _run(first, "gluster", "volume", "heal", gluster.VOLUME, "info").stdout
        return told.count("Number of entries: 0") == len(cluster.nodes)

    pods.must("-n", SPACE, "delete", "pod", "writer")
    wait_for("the brick has all of it", is_healed, timeout_s=120, interval_s=1)
    numbers = _numbers(pods, "reader")
    assert numbers == list(range(len(numbers)))
    assert all(_is_labelled(pods, node) for node in cluster.nodes)
    pods.must("-n", SPACE, "delete", "pod", "reader")


def test_without_its_mount_a_node_writes_nothing_and_is_no_longer_chosen(
    cluster: NodeCluster, pods: Pods, claim: None
) -> None:
    """The client is taken away, as a broken package would do it, and comes back."""
    node = cluster.nodes[1]
    clients = ("/usr/sbin/glusterfs", "/usr/sbin/glusterfsd")
    for client in clients:
        assert _run(node, "mount", "--bind", "/dev/null", client).returncode == 0
    try:
        _run(node, "pkill", "-f", f"volfile-id={gluster.VOLUME}")
        wait_for("its label is gone", lambda: not _is_labelled(pods, node), timeout_s=60)
        pods.apply(_pod("waits", node))

        def events() -> str:
            found = pods.get("-n", SPACE, "events")["items"]
            return " ".join(event["message"] for event in found)

        wait_for("kubelet refuses", lambda: "operation not permitted" in events(), timeout_s=60)
        assert _run(node, "ls", "-A", gluster.MOUNT).stdout == ""
    finally:
        for client in clients:
            _run(node, "umount", client)
    wait_for("its label is back", lambda: _is_labelled(pods, node), timeout_s=90)
    pods.must(
        "-n", SPACE, "wait", "--for=condition=Ready", "--timeout=180s", "pod/waits", timeout_s=200
    )
    pods.must("-n", SPACE, "delete", "pod", "waits")


def test_the_guard_may_change_its_own_label_on_its_own_node_alone(
    cluster: NodeCluster, pods: Pods
) -> None:
    first, second = (node.name for node in cluster.nodes)
    found = pods.get("-n", "homeport-storage", "pods", "-l", "app.kubernetes.io/name=gluster-guard")
    name = next(p["metadata"]["name"] for p in found["items"] if p["spec"]["nodeName"] == first)
    [label] = SELECTOR
    program = f"""
import json, sys
sys.path.insert(0, "/guard")
import guard
node, patch = sys.argv[1], json.loads(sys.argv[2])
guard.Node(node, {label!r})._ask(patch)
"""

    def tries(node: str, patch: dict[str, Any]) -> bool:
        words = ("exec", name, "--", "python3", "-c", program, node, json.dumps(patch))
        said = pods.ask("-n", "homeport-storage", *words)
        assert said.is_done or "HTTP Error 4" in said.errors, said
        return said.is_done

    assert tries(first, {"metadata": {"labels": {label: "ready"}}})
    assert not tries(second, {"metadata": {"labels": {label: "no"}}})
    assert not tries(first, {"metadata": {"labels": {"team": "x"}}})
    assert not tries(first, {"metadata": {"labels": {"kubernetes.io/os": None}}})
    assert not tries(first, {"metadata": {"annotations": {"a": "b"}}})
    assert not tries(first, {"spec": {"unschedulable": True}})


def test_a_claim_is_as_large_as_it_says(cluster: NodeCluster, pods: Pods, claim: None) -> None:
    """The last: quotas stay on the volume."""
    node = cluster.nodes[0]
    listed = pods.must("get", "pv", "-o", "json")
    command = node.enter(sys.executable, "-I", str(QUOTA), gluster.VOLUME)
    done = subprocess.run(command, input=listed, capture_output=True, text=True, check=True)
    assert f"{SIZE_BYTES} bytes" in done.stdout, done
    pods.apply(_pod("fills", node))
    pods.wait_until_ready(SPACE, "fills")
    size, code = pods.python(SPACE, "fills", FILL).out.split()
    assert (int(size), int(code)) == (SIZE_BYTES, 122)
    assert Path(gluster.MOUNT).exists() is False, "this machine has no such folder"
