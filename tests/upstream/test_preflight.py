"""`manage.py preflight` on an upstream control plane without nodes: red for each thing that is broken on purpose.

What takes pods is tried on real nodes (tests/nodes/test_preflight.py).
"""

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from deploy.testcluster import binaries
from deploy.testcluster.controlplane import ControlPlane
from tests.e2e.portal import ROOT
from tests.nodes.pods import Pods
from tests.tools.kubeconfigs import write_kubeconfig
from tests.tools.waiting import wait_for
from tests.upstream.power import need_built

pytestmark = pytest.mark.upstream
KEY = "k" * 60
OLD_VOLUME = {
    "capacity": {"storage": "5Gi"},
    "accessModes": ["ReadWriteMany"],
    "storageClassName": "glusterfs",
    "glusterfs": {"endpoints": "gluster", "path": "vol_4711"},
    "claimRef": {"namespace": "team", "name": "data"},
}
CLOSED = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "closed", "namespace": "homeport"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
}
SETTINGS = {
    "STORAGE_CLASS": "shared",
    "PUBLIC_URL": "https://portal.lab.example",
    "NODE_HOST": "nodes.lab.example",
}


def cluster_object(kind: str, name: str, **content: Any) -> dict[str, Any]:
    group = {"StorageClass": "storage.k8s.io/v1", "PersistentVolume": "v1", "Namespace": "v1"}
    return {"apiVersion": group[kind], "kind": kind, "metadata": {"name": name}, **content}


def own(kind: str, name: str, **content: Any) -> dict[str, Any]:
    version = "apps/v1" if kind == "Deployment" else "v1"
    meta = {"name": name, "namespace": "homeport"}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **content}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With Homeport's accounts, its settings and its Deployment of a web, and a class."""
    need_built(binaries.KUBERNETES, binaries.ETCD)
    with ControlPlane(tmp_path_factory.mktemp("preflight")) as running:
        pods = Pods(running.kubeconfig)
        pods.must("apply", "-f", str(ROOT / "deploy/cluster/"))
        sources = [{"configMapRef": {"name": "homeport"}}, {"secretRef": {"name": "homeport"}}]
        container = {"name": "web", "image": "x", "envFrom": sources}
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        held = {"HOMEPORT_SECRET_KEY": base64.b64encode(KEY.encode()).decode()}
        pods.apply(
            cluster_object("StorageClass", "shared", provisioner="example.org/shared"),
            own("ConfigMap", "homeport", data=SETTINGS),
            own("Secret", "homeport", data=held),
            own("Deployment", "web", spec=spec),
            CLOSED,
        )
        yield running


@pytest.fixture
def pods(plane: ControlPlane) -> Pods:
    return Pods(plane.kubeconfig)


def command(kubeconfig: Path, home: Path) -> tuple[list[str], dict[str, str]]:
    """Without any setting of the installation: it reads those in the cluster."""
    words = [sys.executable, "manage.py", "preflight", f"--kubeconfig={kubeconfig}"]
    return words, {"PATH": os.environ["PATH"], "HOMEPORT_HOME": str(home)}


def failed(kubeconfig: Path, home: Path) -> dict[str, str]:
    """Name of each red check -> its words and its next step."""
    words, environment = command(kubeconfig, home)
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    said = done.stdout.splitlines()
    assert done.returncode == 1, done.stdout + done.stderr
    return {
        line[9:].partition(":")[0]: f"{line} {said[number + 1].strip()}"
        for number, line in enumerate(said)
        if line.startswith("FAILED")
    }


def test_without_nodes_nothing_else_is_red_and_the_result_is_kept(
    plane: ControlPlane, pods: Pods, tmp_path: Path
) -> None:
    assert set(failed(plane.kubeconfig, tmp_path)) == {"Pods"}
    kept = pods.get("-n", "homeport", "configmap", "preflight")["data"]["result.json"]
    found = {check["name"]: check for check in json.loads(kept)["checks"]}
    assert found["Pods"]["words"] == "no node takes people's pods"
    assert found["Pod Security"]["outcome"] == "passed"
    assert found["Host names"]["words"] == "portal.lab.example, and notebooks at nodes.lab.example"
    assert not pods.ask("get", "namespace", "homeport-preflight-trial").is_done


def test_the_job_is_accepted_and_its_pod_is_restricted(pods: Pods) -> None:
    folder = str(ROOT / "deploy/kubernetes/preflight")
    said = pods.ask("apply", "-k", folder)
    assert said.is_done, said.errors
    assert "PodSecurity" not in said.errors
    assert "ghcr.io/homeport" in pods.must("-n", "homeport-preflight", "get", "job", "-o", "yaml")
    stop = ("delete", "job", "preflight", "--cascade=foreground")
    pods.must("-n", "homeport-preflight", *stop, timeout_s=120)
    pods.must("delete", "-k", folder, "--ignore-not-found", timeout_s=120)


@contextmanager
def changed(pods: Pods, before: dict[str, Any], after: dict[str, Any]) -> Iterator[None]:
    """An object is otherwise for a while."""
    pods.must("replace", "-f", "-", body=after)
    try:
        yield
    finally:
        pods.must("replace", "-f", "-", body=before)


def test_a_missing_class_an_old_one_and_one_name_for_both_are_red(
    plane: ControlPlane, pods: Pods, tmp_path: Path
) -> None:
    settings = own("ConfigMap", "homeport", data=SETTINGS)
    other = own("ConfigMap", "homeport", data=SETTINGS | {"STORAGE_CLASS": "glusterfs"})
    with changed(pods, settings, other):
        found = failed(plane.kubeconfig, tmp_path)
        assert "there is none named 'glusterfs'" in found["StorageClass"]
        pods.apply(
            cluster_object("StorageClass", "glusterfs", provisioner="kubernetes.io/glusterfs"),
            cluster_object("PersistentVolume", "pv-old", spec=OLD_VOLUME),
        )
        found = failed(plane.kubeconfig, tmp_path)
        for words in ("left Kubernetes in 1.26", "pv-old (vol_4711 of team/data)", "to Retain"):
            assert words in found["StorageClass"]
        pods.must("delete", "storageclass/glusterfs", "pv/pv-old")
    same = SETTINGS | {"NODE_HOST": "portal.lab.example"}
    with changed(pods, settings, own("ConfigMap", "homeport", data=same)):
        assert set(failed(plane.kubeconfig, tmp_path)) == {"Pods", "Host names"}


def test_a_right_that_is_missing_is_red(plane: ControlPlane, pods: Pods, tmp_path: Path) -> None:
    role = pods.get("clusterrole", "homeport-reconciler")
    del role["metadata"]["resourceVersion"]
    less = [rule for rule in role["rules"] if "persistentvolumes" not in rule["resources"]]
    with changed(pods, role, role | {"rules": less}):
        found = failed(plane.kubeconfig, tmp_path)
    assert set(found) == {"Pods", "Accounts"}
    assert "missing: list persistentvolumes" in found["Accounts"]


def test_what_an_interrupted_apply_has_left_out_is_red(
    plane: ControlPlane, pods: Pods, tmp_path: Path
) -> None:
    """It is the last of the manifests: all runs without it, and nothing bounds it."""
    policies = str(ROOT / "deploy/cluster/40-policy.yaml")
    pods.must("delete", "-f", policies)
    pods.must("-n", "homeport", "delete", "networkpolicy/closed")
    found = failed(plane.kubeconfig, tmp_path)
    pods.must("apply", "-f", policies)
    pods.apply(CLOSED)
    assert set(found) == {"Pods", "Accounts"}
    for words in ("Binding homeport-accounts", "every NetworkPolicy of homeport", "once more"):
        assert words in found["Accounts"]


def test_a_key_that_is_not_the_one_homeport_worked_with_is_red(
    plane: ControlPlane, pods: Pods, tmp_path: Path
) -> None:
    pods.apply(cluster_object("Namespace", "u-network-check-a-00000000"))
    assert "worked in this cluster with another" in failed(plane.kubeconfig, tmp_path)["Secret key"]
    pods.must("delete", "namespace/u-network-check-a-00000000")
    good = pods.get("-n", "homeport", "secret", "homeport")
    del good["metadata"]["resourceVersion"]
    with changed(pods, good, good | {"data": {}}):
        assert "shorter than 50" in failed(plane.kubeconfig, tmp_path)["Secret key"]


@contextmanager
def relay(plane: ControlPlane, folder: Path) -> Iterator[Path]:
    """The same cluster, which says that it is of another version; its kubeconfig."""
    keys = plane.home / "keys"
    context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    context.load_cert_chain(keys / "admin.crt", keys / "admin.key")

    class Relay(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def relay(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kept = {k: self.headers[k] for k in ("Content-Type", "Accept") if self.headers[k]}
            url = plane.server + self.path
            asked = urllib.request.Request(url, body or None, kept, method=self.command)
            try:
                answer = urllib.request.urlopen(asked, context=context)
            except urllib.error.HTTPError as refused:
                answer = refused
            said = answer.read()
            if self.path == "/version":
                said = json.dumps({"gitVersion": "v1.32.9"}).encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = do_PATCH = do_DELETE = relay  # noqa: N815

        def log_message(self, *_said: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Relay) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield write_kubeconfig(
            folder / "relay.kubeconfig", f"http://127.0.0.1:{server.server_address[1]}", {}
        )
        server.shutdown()


def test_a_cluster_that_is_too_old_is_red(plane: ControlPlane, tmp_path: Path) -> None:
    with relay(plane, tmp_path) as kubeconfig:
        found = failed(kubeconfig, tmp_path)
    assert set(found) == {"Pods", "Kubernetes"}
    assert "v1.32.9 Homeport needs Kubernetes 1.33" in found["Kubernetes"]


@pytest.mark.parametrize(("number", "is_left"), [(signal.SIGINT, False), (signal.SIGKILL, True)])
def test_when_it_is_ended_nothing_is_left_and_after_a_kill_the_next_one_says_what_is_there(
    plane: ControlPlane, pods: Pods, tmp_path: Path, number: int, *, is_left: bool
) -> None:
    words, environment = command(plane.kubeconfig, tmp_path)
    running = subprocess.Popen(words, cwd=ROOT, env=environment, stderr=subprocess.PIPE)
    there = ("get", "namespace", "homeport-preflight-trial")
    try:
        wait_for("it has begun", lambda: pods.ask(*there).is_done, timeout_s=60)
    finally:
        running.send_signal(number)
        said = running.communicate(timeout=120)[1].decode()
    assert pods.ask(*there).is_done is is_left, said
    if is_left:
        assert "is of another preflight" in failed(plane.kubeconfig, tmp_path)["Pods"]
        assert pods.ask(*there).is_done
        pods.must("delete", "namespace/homeport-preflight-trial", timeout_s=120)
