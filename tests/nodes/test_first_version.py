"""The first version, beside the cluster, gives way to today's in pods, while a training and a notebook of it run on.

In a pytest call of its own. It had no manifests: its process stays outside, with the database that today's will have in
the cluster, and its pods go on asking at the address where it was, which leads to the new one afterwards.
"""

import http.client
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from deploy.testcluster.nodes import gluster, images, network
from deploy.testcluster.nodes.cluster import NodeCluster
from deploy.testcluster.ports import free_port
from tests.e2e.portal import new_home
from tests.e2e.test_gate import enter
from tests.e2e.test_services import Service
from tests.nodes import site as sites
from tests.nodes.installed import OVERLAY, Installed, commands, log, prepare, run
from tests.nodes.pods import Pods
from tests.nodes.test_inside import COUNT, SMALL, START_S, python
from tests.tools.manifests import Object, checkout, objects
from tests.tools.waiting import wait_for
from tests.upgrade.conftest import or_skip
from tests.upgrade.old import FIRST, NoHistoryError, Old, old_version
from tests.upgrade.parts import Parts
from tests.upgrade.test_running_cluster import Follower

PROGRAMS = "registry.example/homeport:0.0.1"
PORT = free_port()
AT = f"http://{network.HOST}:{PORT}"  # where its pods find it, and will find today's
DOOR = 30_081
IN_POSTGRES = ("-n", "homeport", "exec", "postgres-0", "--")
# Who may come besides: the process outside to its database, and what comes to its old address.
BESIDES = f"""
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: besides, namespace: homeport}}
spec:
  podSelector: {{matchExpressions: [{{key: app.kubernetes.io/component, operator: In, values: [postgres, web]}}]}}
  policyTypes: [Ingress]
  ingress:
    - from: [{{ipBlock: {{cidr: {network.CLIENTS}}}}}, {{ipBlock: {{cidr: {network.NODES}}}}}]
      ports: [{{port: 5432}}, {{port: 8001}}]
---
apiVersion: v1
kind: Service
metadata: {{name: door-of-before, namespace: homeport}}
spec:
  type: NodePort
  selector: {{app.kubernetes.io/component: web}}
  ports: [{{port: 8001, targetPort: pods, nodePort: {DOOR}}}]
"""
RELAY = """
import socket, sys, threading
def pump(source, target):
    while data := source.recv(65536):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)
def lead(peer):
    try:
        other = socket.create_connection((sys.argv[3], int(sys.argv[4])))
        threading.Thread(target=pump, args=(other, peer), daemon=True).start()
        pump(peer, other)
    except OSError:
        peer.close()
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    threading.Thread(target=lead, args=(server.accept()[0],), daemon=True).start()
"""


@pytest.fixture
def old() -> Iterator[Old]:
    try:
        with old_version(FIRST) as made:
            yield made
    except NoHistoryError as error:
        or_skip(error)


def _programs_of(old: Old, folder: Path) -> Path:
    """The image of its pods' helpers, which had no Dockerfile yet."""
    shutil.copytree(old.checkout / "jobs/pod", folder / "root/opt/homeport/jobs/pod")
    debian, helpers, _ = images.layers()
    layer = images.pack(folder / "root", folder / "layer")
    environ = {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"]}
    image = images.Image(PROGRAMS, [debian, helpers, layer], environ)
    return images.write(folder / "programs.tar", [image])


def _is_later(one: Object) -> bool:
    """What is applied with the upgrade; the rest is the cluster that the first version found."""
    name = (one["kind"], one["metadata"]["name"].partition("-")[0])
    return name in {("Deployment", "web"), ("Deployment", "reconciler"), ("Job", "migrate")}


@dataclass
class Outside:
    """The first version beside the cluster; `objects` are all of today's overlay."""

    pods: Pods
    portal: Parts
    folder: Path
    objects: list[Object]


@pytest.fixture
def outside(
    cluster: NodeCluster, pods: Pods, old: Old, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Outside]:
    """It runs, on a cluster that has all of today's but Homeport itself."""
    prepare(cluster, tmp_path, _programs_of(old, tmp_path / "programs"))
    checkout(tmp_path)
    sites.of_two_nodes(tmp_path)
    for command in commands(sites.SITE)[:3]:
        run(tmp_path, command, cluster.kubeconfig)
    overlay = tmp_path / OVERLAY
    with (overlay / "site.env").open("a") as file:
        print(f"POD_PORTAL_URL={AT}", file=file)  # until the last pod of before has ended
    certificate = str(overlay / "tls.crt")
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, certificate)
    found = objects(overlay)
    pods.apply(*(one for one in found if not _is_later(one)), *yaml.safe_load_all(BESIDES))
    wait_for("the database is there", lambda: pods.ask(*IN_POSTGRES, "pg_isready").is_done)

    lines = (overlay / "secret.env").read_text().splitlines()
    secret = dict(line.split("=", 1) for line in lines)
    catalog = (old.checkout / "portal/catalog.yaml").read_text()
    changed = re.sub("(?m)^portal_image: .*$", f"portal_image: {PROGRAMS}", catalog)
    (tmp_path / "catalog.yaml").write_text(changed)
    server = pods.address("homeport", "postgres-0")
    environment = {
        "CATALOG": str(tmp_path / "catalog.yaml"),
        "CLIENT_CIDRS": network.CLIENTS,
        "DATABASE_URL": secret["DATABASE_URL"].replace("@postgres:", f"@{server}:"),
        "GATE_TLS_CERT_FILE": certificate,
        "GATE_TLS_KEY_FILE": str(overlay / "tls.key"),
        "HOMEPORT_KUBECONFIG": str(cluster.kubeconfig),
        "HOMEPORT_SECRET_KEY": secret["HOMEPORT_SECRET_KEY"],
        "LISTEN": "0.0.0.0",
        "NODE_CIDRS": network.NODES,
        "NODE_HOST": sites.SITE["NODE_HOST"],
        "POD_PORTAL_URL": AT,
        "STORAGE_CLASS": "glusterfs",
    }
    portal = Parts(new_home("first"), PORT, environment, pod_port=PORT, checkout=old.checkout)
    portal.python = old.python
    portal.home.mkdir()
    try:
        portal.run("-m", "deploy.prepare", "--demo")
        portal.serve()
        yield Outside(pods, portal, tmp_path, found)
    finally:
        portal.kill_everything()
        shutil.rmtree(portal.home.parent, ignore_errors=True)


@contextmanager
def relayed() -> Iterator[None]:
    """The old address leads to today's door for pods."""
    at = (network.HOST, str(PORT), network.address(2), str(DOOR))
    with subprocess.Popen(network.tied(*python(RELAY, *at))) as relay:
        try:
            yield
        finally:
            relay.kill()


def _exchange(outside: Outside, cluster: NodeCluster) -> None:
    """Nothing of it runs, a backup, today's web that waits, the migration, and the rest."""
    outside.portal.end_portal()
    dump = outside.pods.must(*IN_POSTGRES, "pg_dump", "-U", "homeport", "homeport")
    assert "PostgreSQL database dump complete" in dump
    home = f"{gluster.MOUNT}/pv/homeport/home-*"
    copy = f"cp -r {outside.portal.home}/store {home} && chown -R 1000:100 {home}/store"
    subprocess.run(cluster.nodes[0].enter("sh", "-ec", copy), check=True)
    later = [one for one in outside.objects if _is_later(one)]
    outside.pods.apply(*(one for one in later if one["metadata"]["name"] == "web"))
    wait_for("web waits, in words", lambda: "being upgraded" in _says(outside), timeout_s=90)
    outside.pods.apply(*later)


def test_what_runs_under_the_first_version_goes_on_under_todays(
    cluster: NodeCluster, pods: Pods, outside: Outside
) -> None:
    ada = outside.portal.sign_in("ada")
    ada.tenant(timeout_s=120)
    job = ada.submit(
        name="counts", command=python(COUNT, "/data/upgraded"), replicas={"worker": SMALL}
    )
    notebook = Service(ada, "notebook", name="kept", cpu="100m", memory="512Mi")
    ada.wait(job, "running", timeout_s=START_S)
    notebook.wait("running", timeout_s=START_S)
    viewer = Follower(ada, job["id"])
    wait_for("lines come", lambda: len(viewer.lines) > 20)
    today = Installed(
        outside.folder / "no", address=sites.SITE["PUBLIC_URL"], admin_kubeconfig=cluster.kubeconfig
    )
    site = sites.Site(cluster, pods, today, outside.folder, ada)
    lived = sites.lives(site.pods_of(job["id"], notebook.id))

    _exchange(outside, cluster)
    site.rolled_out("web", "reconciler")
    ada.portal = today
    with relayed():
        seen = len(viewer.lines)
        wait_for("lines come again", lambda: len(viewer.lines) > seen + 50)
        assert sites.lives(site.pods_of(job["id"], notebook.id)) == lived
        wait_for("the notebook opens", lambda: enter(notebook).status() == 200, timeout_s=90)
        site.touch(job, "/data/upgraded")
        ada.wait(job, "succeeded", timeout_s=START_S)
        wait_for("its log has ended", lambda: viewer.is_over)
        kept = wait_for("its archive", lambda: log(ada, job["id"]))
    count = [int(one) for one in re.findall(r"count (\d+)", kept)]
    assert count == list(range(len(count))) == viewer.numbers("worker-0")
    assert viewer.skipped == 0


def _says(outside: Outside) -> str:
    """A page of web's pod with code 503; nothing leads to it while it waits, so its name is another."""
    label = "app.kubernetes.io/component=web"
    found = outside.pods.get("-n", "homeport", "pods", "-l", label)["items"]
    trust = ssl.create_default_context(cafile=outside.folder / OVERLAY / "tls.crt")
    trust.check_hostname = False
    try:
        pod = http.client.HTTPSConnection(
            found[0]["status"]["podIP"], 8000, timeout=10, context=trust
        )
        host = sites.SITE["PUBLIC_URL"].removeprefix("https://")
        pod.request("GET", "/", headers={"Host": host})
        answer = pod.getresponse()
        said = answer.read().decode()
        pod.close()
    except (IndexError, KeyError, OSError):  # not yet
        return ""
    return said if answer.status == 503 else ""
