"""`manage.py preflight` on two nodes: green as they are, and red for what is broken on purpose."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.testcluster.nodes import gluster, images, network, products
from deploy.testcluster.nodes.cluster import NodeCluster
from deploy.testcluster.nodes.node import Node
from tests.e2e.portal import ROOT
from tests.nodes.conftest import IS_OVERLAY
from tests.nodes.pods import Pods, server
from tests.nodes.volumes import SELECTOR
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.usefixtures("volumes")
CLIENTS = ("/usr/sbin/glusterfs", "/usr/sbin/glusterfsd")


def preflight(cluster: NodeCluster, home: Path, **changes: str) -> tuple[int, dict[str, str], str]:
    """Exit code, name of a check -> its line, and all it says."""
    settings = {
        "HOMEPORT_HOME": str(home),
        "PORTAL_IMAGE": images.PYTHON,
        "STORAGE_CLASS": "glusterfs",
        "NODE_SELECTOR": ",".join(f"{key}={value}" for key, value in SELECTOR.items()),
        "NODE_CIDRS": ",".join(network.of_nodes(is_overlay=IS_OVERLAY)),
        "CLIENT_CIDRS": network.CLIENTS,
        "PUBLIC_URL": f"http://{network.HOST}:8000",
        "NODE_HOST": network.address(1),
        "POD_PORTAL_URL": f"http://{network.HOST}:8001",
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "preflight", f"--kubeconfig={cluster.kubeconfig}"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **settings, **changes},
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
    )
    found = [line.partition(":") for line in done.stdout.splitlines() if ":" in line[9:]]
    lines = {head[9:]: f"{head[:8].strip()}:{rest}" for head, _, rest in found}
    return done.returncode, lines, done.stdout + done.stderr


@contextmanager
def without(node: Node, *programs: str) -> Iterator[None]:
    """Programs of a node are gone, as after a broken upgrade, and those that run end."""
    for program in programs:
        subprocess.run(node.enter("mount", "--bind", "/dev/null", program), check=True)
    try:
        yield
    finally:
        for program in programs:
            subprocess.run(node.enter("umount", program), check=True)


def test_it_is_green_where_all_is_well(cluster: NodeCluster, pods: Pods, tmp_path: Path) -> None:
    pods.must("apply", "-f", "deploy/cluster/")
    code, lines, said = preflight(cluster, tmp_path)
    assert code == 0, said
    for name in ("Image", "Claim", "Volume", "DNS", "Policies", "NodePort from here", "Clocks"):
        assert lines[name].startswith("ok:"), said
    assert "node-1 and node-2" in lines["Image"]
    assert "not enforced" in lines["Size"]
    kept = pods.get("-n", "homeport", "configmap", "preflight")["data"]["result.json"]
    assert '"outcome": "failed"' not in kept
    trial = "homeport-preflight-trial"
    assert not pods.ask("get", "namespace", trial).is_done

    def owners() -> list[str]:
        found = pods.get("persistentvolumes")["items"]
        return [one["spec"].get("claimRef", {}).get("namespace", "") for one in found]

    wait_for("its volume is gone", lambda: trial not in owners(), timeout_s=90)


def test_a_node_without_the_volume_is_red(cluster: NodeCluster, pods: Pods, tmp_path: Path) -> None:
    node = cluster.nodes[1]

    def is_labelled() -> bool:
        return bool(SELECTOR.items() <= pods.get("node", node.name)["metadata"]["labels"].items())

    with without(node, *CLIENTS):
        subprocess.run(node.enter("pkill", "-f", f"volfile-id={gluster.VOLUME}"), check=True)
        wait_for("its label is gone", lambda: not is_labelled(), timeout_s=60)
        code, lines, said = preflight(cluster, tmp_path)
    assert code == 1, said
    assert lines["Mounts"].startswith("FAILED: node-2: not homeport.dev/gluster=ready"), said
    wait_for("it is back", is_labelled, timeout_s=90)


def test_data_of_an_in_tree_volume_are_kept_the_way_preflight_says(
    cluster: NodeCluster, pods: Pods, tmp_path: Path
) -> None:
    """As docs/storage.md, "From an older cluster"; the old volume is the one that the nodes mount."""
    node = cluster.nodes[0]
    kept = f"{gluster.MOUNT}/kept.txt"
    subprocess.run(node.enter("sh", "-c", f"echo ahoy > {kept}; chmod 666 {kept}"), check=True)
    size = {"storage": "5Gi"}
    common = {"capacity": size, "accessModes": ["ReadWriteMany"], "claimRef": CLAIM}
    old = {"endpoints": "gluster", "path": f"vol_{gluster.VOLUME}"}
    pods.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old"}},
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "in-tree"},
            "provisioner": "kubernetes.io/glusterfs",
        },
        _volume("pv-old", {**common, "storageClassName": "in-tree", "glusterfs": old}),
        _claim("in-tree", "pv-old"),
    )
    _wait_until_bound(pods)
    _, lines, said = preflight(cluster, tmp_path, STORAGE_CLASS="in-tree")
    assert f"pv-old (vol_{gluster.VOLUME} of old/data)" in lines["StorageClass"], said

    retain = {"persistentVolumeReclaimPolicy": "Retain"}
    pods.must("patch", "pv", "pv-old", "-p", json.dumps({"spec": retain}))
    here = {"path": gluster.MOUNT, "type": "Directory"}
    new = {**common, **retain, "storageClassName": "glusterfs", "hostPath": here}
    pods.apply(_volume("pv-new", new))
    pods.must("-n", "old", "delete", "pvc/data")
    pods.must("delete", "pv/pv-old", "storageclass/in-tree")
    pods.apply(_claim("glusterfs", "pv-new"))
    _wait_until_bound(pods)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    for one in cluster.nodes:
        body = server("old", one.name, one.name)
        body["spec"]["volumes"] = volumes
        body["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        pods.apply(body)
    pods.wait_until_ready("old", *(one.name for one in cluster.nodes))
    for number, one in enumerate(cluster.nodes, start=1):
        program = "f = open('/data/kept.txt', 'r+'); print(f.read()); f.write('again\\n')"
        said_there = pods.python("old", one.name, program).out.split()
        assert said_there == ["ahoy", "again"][:number]
    pods.remove("old")
    pods.must("delete", "pv/pv-new")


CLAIM = {"namespace": "old", "name": "data"}


def _volume(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": name}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": spec}


def _claim(class_name: str, volume: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": class_name,
        "volumeName": volume,
        "resources": {"requests": {"storage": "5Gi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": CLAIM, "spec": spec}


def _wait_until_bound(pods: Pods) -> None:
    bound = ("wait", "--for=jsonpath={.status.phase}=Bound", "--timeout=60s", "pvc/data")
    pods.must("-n", "old", *bound, timeout_s=70)


def test_networks_that_lack_a_node_and_a_clock_that_is_wrong_are_red(
    cluster: NodeCluster, tmp_path: Path
) -> None:
    clock = {"LD_PRELOAD": str(products.packages() / products.FAKETIME), "FAKETIME": "+40s"}
    clock |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    code, lines, said = preflight(cluster, tmp_path, NODE_CIDRS="10.1.2.0/24", **clock)
    assert code == 1, said
    assert "notebooks would not open through node-2" in lines["NODE_CIDRS"], said
    assert "Add that to NODE_CIDRS" in said
    assert re.match(r"FAILED: (39|40)\.\d s apart", lines["Clocks"]), said
    assert "Let NTP set the clocks" in said


def test_a_node_whose_pods_see_another_time_is_red(cluster: NodeCluster, tmp_path: Path) -> None:
    """All nodes here have this machine's kernel and its clock: it is moved for pods, by what their image loads."""
    root, reference = tmp_path / "ahead", "registry.example/clock:1"
    (root / "etc").mkdir(parents=True)
    (root / "etc/ld.so.preload").write_text("/clock.so\n")
    (root / "etc/faketimerc").write_text("+40s\n")
    shutil.copy2(products.packages() / products.FAKETIME, root / "clock.so")
    ahead = images.pack(root, tmp_path / "ahead.layer")
    for node, layers in zip(cluster.nodes, ([], [ahead]), strict=True):
        made = images.Image(reference, [images.debian(), *layers])
        file = images.write(tmp_path / f"{node.name}.tar", [made])
        command = node.ctr("images", "import", str(file))
        subprocess.run(command, check=True, capture_output=True)
    code, lines, said = preflight(cluster, tmp_path, PORTAL_IMAGE=reference)
    assert code == 1, said
    assert re.match(r"FAILED: (39|40|41)\.\d s apart", lines["Clocks"]), said


def test_where_nobody_enforces_policies_it_is_red(cluster: NodeCluster, tmp_path: Path) -> None:
    """What enforces them is stopped, so that new pods have no rules."""

    def send(name: str) -> None:
        for node in cluster.nodes:
            subprocess.run(node.enter("pkill", f"-{name}", "kube-router"), check=True)

    send("STOP")
    try:
        code, lines, said = preflight(cluster, tmp_path)
    finally:
        send("CONT")
    assert code == 1, said
    assert lines["Policies"].startswith("FAILED: not enforced: pods reach the API server"), said
