"""Homeport in pods of two nodes and what is a matter of rights: its ports, its secrets exchanged, a purge, its accounts' calls.

In a pytest call of its own, as it stays installed.
"""

import subprocess
from typing import Any

from deploy.cluster import rights, used
from deploy.testcluster.nodes import gluster
from tests.e2e.test_gate import enter
from tests.e2e.test_services import Service
from tests.nodes import counting
from tests.nodes.site import SITE, Site, lives
from tests.nodes.test_inside import START_S
from tests.tools.manifests import OPERATIONS, blocks
from tests.tools.waiting import wait_for

POD_DOORS = {"web:8001", "service homeport-pods:8001"}
CLOSED = {
    *("web:8000", "web:9100", "reconciler:9100", "postgres:5432", "redis:6379"),
    *("service homeport:443", "service postgres:5432", "service redis:6379", "node:30443"),
}


def _doors(site: Site) -> list[tuple[str, str, int]]:
    """Each port of Homeport: what it is, an address, the port."""

    def found(kind: str) -> Any:
        return site.pods.get("-n", "homeport", kind)["items"]

    port = int(SITE["PUBLIC_URL"].rpartition(":")[2])
    doors = [("node", node.address, port) for node in site.cluster.nodes]
    for one in found("services"):
        name, spec = one["metadata"]["name"], one["spec"]
        doors += [(f"service {name}", spec["clusterIP"], port["port"]) for port in spec["ports"]]
    for pod in found("pods"):
        name = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]:
            doors += [
                (name, pod["status"]["podIP"], port["containerPort"])
                for container in pod["spec"]["containers"]
                for port in container.get("ports", ())
            ]
    return doors


def test_a_training_reaches_the_door_of_pods_and_no_other_port(site: Site) -> None:
    job = counting.begin(site.ada, "/data/reached")
    [pod] = site.pods_of(job["id"])
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    for what, address, port in _doors(site):
        is_open = site.pods.reaches(site.namespace, pod["metadata"]["name"], address, port)
        seen[is_open].add(f"{what}:{port}")
    assert seen == {True: POD_DOORS, False: CLOSED}
    assert site.ada.call("POST", f"jobs/{job['id']}/stop/").ok
    site.ada.wait(job, "stopped", timeout_s=START_S)


def _lets_in(site: Site, secrets: dict[str, str]) -> bool:
    """Whether the database takes the password."""
    address = secrets["DATABASE_URL"].replace("@postgres:", "@127.0.0.1:")
    said = site.pods.ask("-n", "homeport", "exec", "postgres-0", "--", "psql", address, "-c", "")
    assert said.is_done or "password authentication failed" in said.errors, said
    return said.is_done


def test_secrets_are_exchanged_while_a_training_and_a_notebook_work(site: Site) -> None:
    """docs/operations.md, by its own commands: the secret key, then the database's password."""
    browser = site.portal.session("ada")
    notebook = Service(site.ada, "notebook", name="stays", cpu="100m", memory="512Mi")
    counts = counting.of(site, "exchanged")
    notebook.wait("running", timeout_s=START_S)
    before, old = lives(site.pods_of(counts.job["id"], notebook.id)), site.secrets()
    for command in blocks("Exchange keys and passwords", OPERATIONS):
        site.run(command)
        site.rolled_out("web", "reconciler")
    new = site.secrets()
    assert {name for name in new if new[name] != old.get(name)} == {
        *("HOMEPORT_SECRET_KEY", "HOMEPORT_SECRET_KEY_FALLBACKS"),
        *("POSTGRES_PASSWORD", "DATABASE_URL"),
    }
    assert new["HOMEPORT_SECRET_KEY_FALLBACKS"] == old["HOMEPORT_SECRET_KEY"]
    assert _lets_in(site, new)
    assert not _lets_in(site, old)
    for name in ("web", "reconciler"):
        words = ("exec", f"deployment/{name}", "--", "printenv", "HOMEPORT_SECRET_KEY")
        assert site.pods.must("-n", "homeport", *words) == new["HOMEPORT_SECRET_KEY"]
    site.double()

    page = f"{site.portal.url}/trainings/"
    assert browser.get(page, allow_redirects=False, timeout=30).status_code == 200
    assert enter(notebook).status() == 200
    assert lives(site.pods_of(counts.job["id"], notebook.id)) == before
    counts.end()
    notebook.do("stop")
    notebook.wait("stopped", timeout_s=START_S)


def test_a_colleague_is_suspended_resumed_and_purged_with_all_data(site: Site) -> None:
    bob, ann = site.portal.invite("bob"), site.portal.sign_in("ann")
    tenant = bob.tenant(timeout_s=120)
    namespace, path = tenant["namespace"], f"tenants/{tenant['id']}/"

    def do(verb: str, becomes: str, **body: str) -> None:
        answer = ann.call("POST", f"{path}{verb}/", json=body)
        assert answer.ok, answer.text
        what = f"the namespace is {becomes}"
        wait_for(what, lambda: ann.get(path)["state"] == becomes, timeout_s=START_S)

    def volumes() -> set[str]:
        found = site.pods.get("pv")["items"]
        claims = {one["metadata"]["name"]: one["spec"]["claimRef"] for one in found}
        return {name for name, claim in claims.items() if claim["namespace"] == namespace}

    def folders() -> list[str]:
        words = ("-mindepth", "2", "-maxdepth", "2", "-path", f"*/{namespace}/*")
        command = site.cluster.nodes[0].enter("find", f"{gluster.MOUNT}/pv", *words)
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    job = counting.begin(bob, "/data/never")
    assert len(volumes()) == len(folders()) == 2
    do("suspend", "suspended", why="a test")
    bob.wait(job, "stopped", timeout_s=START_S)
    do("resume", "active")
    do("delete", "deleting", confirm=namespace, data="delete")
    do("purge", "gone", confirm=namespace, confirm_early="bob")
    assert not site.pods.ask("get", "namespace", namespace).is_done
    wait_for("its volumes are gone", lambda: not volumes(), timeout_s=90)
    assert folders() == []


def test_accounts_in_pods_use_each_role_within_its_rights(site: Site) -> None:
    """The last: all calls since the cluster began."""
    with site.cluster.control_plane.audit_log.open() as lines:
        found = used.read(lines)
    assert dict(found.denied) == {}
    assert dict(found.refused) == {}
    assert [str(right) for right in found.not_granted] == []
    assert {right.role for right in found.rights} == {right.role for right in rights.granted()}
