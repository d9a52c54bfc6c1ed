"""docs/cluster.md, "Production: servers of your own", walked on two nodes: its own commands, other values.

In the place of an ingress controller stands Debian's nginx in a pod, with the page's block for it and with what the
Ingress names: host, certificate, Service. In a pytest call of its own, as it stays installed.
"""

import os
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from deploy.testcluster.nodes import network
from deploy.testcluster.nodes.cluster import NodeCluster
from tests.deploy.sites import PRODUCTION
from tests.e2e.test_gate import enter
from tests.e2e.test_services import Service
from tests.nodes import counting, outside, stand_ins
from tests.nodes.installed import IMAGE, Installed, commands, invitation, join, log, prepare, run
from tests.nodes.pods import Pods, reaches_from_here
from tests.nodes.site import Site, lives
from tests.nodes.test_inside import COUNT, SMALL, START_S
from tests.nodes.volumes import SELECTOR
from tests.tools.manifests import OPERATIONS, PAGE, blocks, checkout
from tests.tools.waiting import wait_for
from tests.upgrade.test_running_cluster import Follower

TITLE = "Production: servers of your own"
PORTAL, NODES = "homeport.lab.example", "nodes.lab.example"
INGRESS, INGRESS_PORT = "ingress-nginx", 30443
LARGE_BYTES = 20 * 2**20
TEN_MINUTES_S = 600


def _fill(file: Path, *pairs: tuple[str, str]) -> None:
    text = file.read_text()
    for old, new in pairs:
        text, count = re.subn(old, lambda _, new=new: new, text, flags=re.MULTILINE)
        assert count == 1, (file.name, old)
    file.write_text(text)


def _put_ingress(pods: Pods, certificate: Path, key: Path) -> None:
    """What a controller makes of the Ingress, with the page's block for nginx."""
    ingress = pods.get("-n", "homeport", "ingress", "homeport")["spec"]
    [rule], [tls] = ingress["rules"], ingress["tls"]
    assert [rule["host"]] == tls["hosts"] == [PORTAL]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    service = pods.get("-n", "homeport", "service", backend["name"])["spec"]
    [port] = [one["port"] for one in service["ports"] if one["name"] == backend["port"]["name"]]
    [block] = re.findall(r"```nginx\n(.*?)```", PAGE, re.DOTALL)
    web = f"server {backend['name']}.homeport.svc.cluster.local:{port}; }}"
    block = re.sub(r"server 10\.0\.0\.11:8000.*}", web, block)
    tls_lines = "ssl_certificate /tls/tls.crt; ssl_certificate_key /tls/tls.key;"
    block = block.replace("listen 80;", f"listen 8443 ssl; server_name {rule['host']}; {tls_lines}")
    config = f"pid /tmp/pid; error_log stderr; events {{}} http {{ access_log off; {block} }}"
    meta, label = {"namespace": INGRESS, "name": "main"}, {"app.kubernetes.io/name": INGRESS}
    spec: dict[str, Any] = {
        "containers": [
            {
                "name": "main",
                "image": stand_ins.NGINX,
                "imagePullPolicy": "IfNotPresent",
                "args": ["-c", "/config/nginx.conf", "-g", "daemon off;"],
                # A new pod may find no names at first, and nginx ends then.
                "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
                "volumeMounts": [{"name": n, "mountPath": f"/{n}"} for n in ("config", "tls")],
            }
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": "main"}},
            {"name": "tls", "secret": {"secretName": tls["secretName"]}},
        ],
    }
    ports = [{"port": 443, "targetPort": 8443, "nodePort": INGRESS_PORT}]
    door = {"type": "NodePort", "selector": label, "ports": ports}
    pods.must("create", "namespace", INGRESS)
    secret = ("create", "secret", "tls", tls["secretName"], f"--cert={certificate}", f"--key={key}")
    pods.must("-n", INGRESS, *secret)
    account = ("-n", INGRESS, "get", "serviceaccount", "default")
    wait_for("it has an account", lambda: pods.ask(*account).is_done)
    pods.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"nginx.conf": config}},
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": door},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "labels": label}, "spec": spec},
    )
    pods.wait_until_ready(INGRESS, "main")
    wait_for("it answers", lambda: reaches_from_here(network.address(1), INGRESS_PORT))


@pytest.fixture(scope="module")
def began_s(cluster: NodeCluster) -> float:
    """When two nodes were ready, and empty."""
    return time.monotonic()


@pytest.fixture(scope="module")
def site(
    cluster: NodeCluster, began_s: float, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Installed by the page's commands, with the person ada; people's names lead to the nodes."""
    pods, folder = Pods(cluster.kubeconfig), tmp_path_factory.mktemp("production")
    prepare(cluster, folder, stand_ins.nginx(folder))
    checkout(folder)
    overlay = folder / PRODUCTION
    with outside.outside() as servers, pytest.MonkeyPatch.context() as patch:
        values = {
            "PUBLIC_URL": f"https://{PORTAL}",
            "PORTAL_IMAGE": IMAGE,
            "TRUSTED_PROXIES": network.PODS,
            "NODE_HOST": NODES,
            "NODE_CIDRS": network.NODES,
            "CLIENT_CIDRS": network.CLIENTS,
            "POD_CIDR": network.PODS,
            "STORAGE_CLASS": "glusterfs",
            **dict.fromkeys(("OIDC_ISSUER", "OIDC_CLIENT_ID"), ""),
            **servers.bucket,
        }
        *files, apply = commands(values, TITLE)
        for command in files:
            run(folder, command, cluster.kubeconfig)
        given = servers.secrets | {"OIDC_CLIENT_SECRET": ""}
        _fill(overlay / "secret.env", *((f"^{n}=.*$", f"{n}={v}") for n, v in given.items()))
        with (overlay / "authorities.pem").open("a") as file:
            file.write(servers.authority)
        component = "components:\n  - ../../components/storage-gluster"
        _fill(overlay / "kustomization.yaml", ("^components:$", component))
        ports = {"5432": "DATABASE_URL", "6379": "REDIS_URL", "9000": "S3_ENDPOINT"}
        changes = ((f"port: {old}", f"port: {servers.port(name)}") for old, name in ports.items())
        _fill(overlay / "servers.yaml", *changes)
        invited = run(folder, apply, cluster.kubeconfig)
        certificate, key = folder / "tls.crt", folder / "tls.key"
        subject = ("-subj", f"/CN={PORTAL}", "-addext", f"subjectAltName=DNS:{PORTAL}")
        new = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9", *subject)
        subprocess.run([*new, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        _put_ingress(pods, certificate, key)
        trusted = folder / "trusted.pem"
        trusted.write_text(certificate.read_text() + (overlay / "gate.crt").read_text())
        for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
            patch.setenv(name, str(trusted))
        look_up = socket.getaddrinfo

        def look_up_people(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
            if host == PORTAL:
                host, port = network.address(1), INGRESS_PORT
            return look_up(network.address(2) if host == NODES else host, port, *rest, **more)

        patch.setattr(socket, "getaddrinfo", look_up_people)
        join(invitation(invited))
        portal = Installed(
            folder / "nothing", address=f"https://{PORTAL}", admin_kubeconfig=cluster.kubeconfig
        )
        made = Site(cluster, pods, portal, folder, portal.invite("ada"))
        made.rolled_out("reconciler")
        made.ada.tenant(timeout_s=120)
        yield made


def test_people_come_by_the_ingress_and_work_with_servers_outside(
    site: Site, tmp_path: Path
) -> None:
    assert site.portal.session("ada").get(f"https://{PORTAL}/", timeout=30).ok
    for component in ("web", "reconciler"):
        label = f"app.kubernetes.io/component={component}"
        found = site.pods.get("-n", "homeport", "pods", "-l", label)["items"]
        assert {pod["spec"]["nodeName"] for pod in found} == {n.name for n in site.cluster.nodes}
    code = tmp_path / "large.py"
    code.write_bytes(b"#" + b"x" * LARGE_BYTES + COUNT.encode())
    job = site.ada.submit(
        name="counts",
        source={"bundle": site.ada.upload(code)},
        command=["python3", "large.py", "/data/seen"],
        replicas={"worker": SMALL},
    )
    viewer = Follower(site.ada, job["id"])
    wait_for("it counts", lambda: len(viewer.numbers("worker-0")) > 20, timeout_s=START_S)
    [pod] = site.pods_of(job["id"])
    assert SELECTOR.items() <= pod["spec"]["nodeSelector"].items()
    site.touch(job, "/data/seen")
    site.ada.wait(job, "succeeded", timeout_s=START_S)
    wait_for("its end is seen", lambda: viewer.is_over)
    kept = wait_for("its archive", lambda: log(site.ada, job["id"]))
    count = sum("count" in line for line in kept.splitlines())
    assert viewer.numbers("worker-0") == list(range(count))
    assert viewer.breaks == viewer.skipped == 0


def test_a_notebook_goes_on_while_the_certificate_of_its_gate_is_renewed(
    site: Site, began_s: float
) -> None:
    overlay = site.folder / PRODUCTION

    def notebook(name: str) -> tuple[Service, str]:
        """It, and the certificate that its gate shows."""
        made = Service(site.ada, "notebook", name=name, cpu="100m", memory="512Mi")
        made.wait("running", timeout_s=START_S)
        place = urlsplit(made.do("open")["url"])
        assert (place.scheme, place.hostname) == ("https", NODES)
        return made, ssl.get_server_certificate((NODES, place.port or 0))

    old = (overlay / "gate.crt").read_text()
    first, shown = notebook("first")
    assert shown == old
    with enter(first).kernel() as kernel:
        assert kernel.run("kept = 6; kept * 7") == "42"
        took_s = time.monotonic() - began_s
        print(f"from two empty nodes to an opened notebook: {took_s:.0f} s")
        assert took_s < TEN_MINUTES_S
        before = lives(site.pods_of(first.id))
        uids = {name: site.uids(name) for name in ("web", "reconciler")}
        for name in ("gate.crt", "gate.key"):
            (overlay / name).unlink()
        *_, renew, apply = commands({}, TITLE)
        site.run(renew)
        site.run(apply.partition("\n")[0])
        new = (overlay / "gate.crt").read_text()
        with Path(os.environ["SSL_CERT_FILE"]).open("a") as file:
            file.write(new)

        def is_everywhere() -> bool:
            read = ("--", "cat", "/run/homeport/gate/tls.crt")
            label = ("-l", "app.kubernetes.io/component in (web,reconciler)")
            found = site.pods.get("-n", "homeport", "pods", *label)["items"]
            names = [pod["metadata"]["name"] for pod in found]
            return all(
                site.pods.must("-n", "homeport", "exec", n, *read) == new.strip() for n in names
            )

        wait_for("all have it", is_everywhere, timeout_s=150)
        second, shown = notebook("second")
        assert shown == new != old
        assert enter(second).status() == 200
        assert kernel.run("kept * 7") == "42"
    assert enter(first).status() == 200
    assert lives(site.pods_of(first.id)) == before
    assert {name: site.uids(name) for name in uids} == uids


def test_a_backup_is_made_and_secrets_are_exchanged_while_a_training_works(site: Site) -> None:
    """By the page's commands for one node, which name its overlay."""
    counts = counting.of(site, "exchanged")
    before, old = lives(site.pods_of(counts.job["id"])), site.secrets(PRODUCTION)
    make, _ = blocks("Backup and restore")
    assert re.search(r"/backups/\S+\.backup", site.run(make))

    exchange, _ = blocks("Exchange keys and passwords", OPERATIONS)
    site.run(exchange.replace("overlays/small", "overlays/production"))
    site.rolled_out("web", "reconciler")
    with psycopg.connect(old["DATABASE_URL"].replace("verify-full", "require")) as connection:
        connection.execute("ALTER ROLE homeport PASSWORD 'another'")
    password = (f"homeport:{outside.PASSWORD}@", "homeport:another@")
    _fill(site.folder / PRODUCTION / "secret.env", password)
    site.run(f"kubectl apply -k {PRODUCTION}")
    site.rolled_out("web", "reconciler")
    new = site.secrets(PRODUCTION)
    assert new["HOMEPORT_SECRET_KEY_FALLBACKS"] == old["HOMEPORT_SECRET_KEY"]
    for name in ("web", "reconciler"):
        words = ("exec", f"deployment/{name}", "--", "printenv")
        for secret in ("HOMEPORT_SECRET_KEY", "DATABASE_URL"):
            assert site.pods.must("-n", "homeport", *words, secret) == new[secret]

    assert site.portal.session("ada").get(f"https://{PORTAL}/", timeout=30).ok
    assert lives(site.pods_of(counts.job["id"])) == before
    counts.end()
