"""What Homeport's accounts may do is what they do: a working life under three accounts, audited."""

import fileinput
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.cluster import rights, used
from tests.e2e.portal import Portal, Rest
from tests.e2e.test_services import Service
from tests.e2e.viewers import Counting
from tests.tools.waiting import wait_for
from tests.upstream.conftest import audit_log
from tests.upstream.power import (
    Accounts,
    audited_cluster,
    folder_of,
    free_port,
    make_people,
    of_portal,
    portal_of,
)
from tests.upstream.powerhouse import POD_SPEC

pytestmark = [pytest.mark.upstream, pytest.mark.e2e]

# Workers wait for their parameter server, say something, and end.
DISTRIBUTED = (
    "import time; print('ahoy', flush=True); time.sleep({'worker': 4}.get('{{job_name}}', 999))"
)
# The runner is its parent: it can mark nothing and upload nothing any more.
KILLED = (
    "import os, signal, time; print('dying', flush=True); time.sleep(1); os.kill(os.getppid(), 9)"
)
GROWN, GROWN_BYTES = "77Gi", 77 * 2**30
MANAGED_BY = "app.kubernetes.io/managed-by"
HOLD = "example.org/hold"
FRAME = ("resourcequota", "limitrange", "networkpolicy", "serviceaccount", "rolebinding", "pvc")
# One of each kind that a namespace may be held up by, and that the purge looks for.
HELD = {
    "configmap": {"kind": "ConfigMap", "apiVersion": "v1"},
    "service": {
        "kind": "Service",
        "apiVersion": "v1",
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
    },
    "job": {"kind": "Job", "apiVersion": "batch/v1"},
    "deployment": {"kind": "Deployment", "apiVersion": "apps/v1"},
    "pod": {"kind": "Pod", "apiVersion": "v1"},
}
KINDS_HELD = {
    *("ConfigMap", "Deployment", "Job", "LimitRange", "NetworkPolicy", "PersistentVolumeClaim"),
    *("ResourceQuota", "RoleBinding", "Service", "ServiceAccount"),
}
POD = {**POD_SPEC, "restartPolicy": "Never"}


@pytest.fixture(scope="module")
def audit() -> Iterator[used.Use]:
    """What the audit log tells after a working life; that of the main job, done before, is read too."""
    port = free_port()
    with audited_cluster(port) as (accounts, own), folder_of("power-portal") as folder:
        live(accounts, folder / "home", port)
        # Watches are in the log when they have ended: the portal has been stopped.
        with fileinput.input([own, *filter(None, [audit_log()])]) as lines:
            yield used.read(lines)


def live(accounts: Accounts, home: Path, port: int) -> None:
    """Trainings, a notebook, accidents, repairs and a purge; all of it by Homeport's own code."""
    # Of a reply that got lost it reads back what it made.
    first = portal_of(
        accounts, home, port, NODE_CIDRS="10.0.0.0/24", HOMEPORT_FAULT="create:Service:1:lost"
    )
    make_people(first)
    run(first, lambda: first_week(accounts, first))
    grow(accounts, first)
    # Without NODE_CIDRS there is one network policy less.
    second = portal_of(accounts, home, port, HOMEPORT_FAULT="create:Pod:1:lost")
    run(second, lambda: second_week(accounts, second))


def run(portal: Portal, work: Any) -> None:
    try:
        portal.start()
        work()
        assert portal.stop() == 0
    except BaseException:
        print(portal.tail(200))
        raise
    finally:
        portal.kill_everything()


def first_week(accounts: Accounts, portal: Portal) -> None:
    ada = portal.sign_in("ada")
    namespace = ada.tenant()["namespace"]
    train(accounts, ada, namespace)
    notebook = Service(ada, "notebook", name="a notebook")
    deployment = ("-n", namespace, "deployments", "-l", f"homeport.dev/owner={notebook.id}")
    wait_for(
        "it is scaled up",
        lambda: any(d["spec"]["replicas"] for d in accounts.get(*deployment)["items"]),
    )
    notebook.do("stop")
    notebook.wait("stopped", timeout_s=150)
    mend(accounts, ada, namespace)


def followed(rest: Rest, job: dict[str, Any]) -> str:
    """The log of its first worker, as somebody sees it who watches until the end."""
    viewer = Counting(rest, job)
    viewer.start()
    try:
        wait_for("its log ends", lambda: viewer.has_ended, timeout_s=180)
    finally:
        viewer.stop()
    return "\n".join(viewer.others)


def train(accounts: Accounts, ada: Rest, namespace: str) -> None:
    """A distributed training, its log read while it runs, and nothing left of it."""
    job = ada.submit(
        name="distributed",
        topology="tf-ps",
        command=["python", "-c", DISTRIBUTED],
        replicas={"worker": {"count": 2, "cpu": "300m"}, "ps": {"cpu": "300m"}},
    )
    ada.wait(job, "running", timeout_s=300)
    assert "ahoy" in followed(ada, job)
    ada.wait(job, "succeeded", timeout_s=180)
    kinds = ("get", "deployments,services", "-l", f"homeport.dev/owner={job['id']}", "-o", "name")
    wait_for(
        "its parameter server is recycled",
        lambda: not accounts.admin("-n", namespace, *kinds),
        timeout_s=90,
        interval_s=0.5,
    )
    assert ada.call("DELETE", f"jobs/{job['id']}/").status_code == 204


def mend(accounts: Accounts, ada: Rest, namespace: str) -> None:
    """Somebody takes away the labels by which Homeport sees what it made; it puts them back."""

    def is_labelled(*what: str) -> bool:
        found = accounts.get(*what)
        return all(
            item["metadata"].get("labels", {}).get(MANAGED_BY)
            for item in found.get("items", [found])
        )

    ours = ("-l", "homeport.dev/owner")
    for kind in FRAME:
        accounts.admin("-n", namespace, "label", kind, *ours, f"{MANAGED_BY}-")
    for kind in FRAME:
        wait_for(
            f"{kind} has its label again",
            lambda kind=kind: is_labelled("-n", namespace, kind, *ours),  # type: ignore[misc]
            timeout_s=90,
            interval_s=0.5,
        )
    accounts.admin("label", "namespace", namespace, f"{MANAGED_BY}-")
    wait_for("the namespace too", lambda: is_labelled("namespace", namespace), timeout_s=90)
    ada.tenant()


def grow(accounts: Accounts, portal: Portal) -> None:
    """Everybody's volumes are to be larger from now on, and the cluster can do that."""
    expand = ("--type=merge", "-p", '{"allowVolumeExpansion":true}')
    accounts.admin("patch", "storageclass", "glusterfs", *expand)
    change = f"Tenant.objects.update(log_volume_bytes={GROWN_BYTES})"
    of_portal(portal, "manage.py", "shell", "-c", f"from tenants.models import Tenant; {change}")


def second_week(accounts: Accounts, portal: Portal) -> None:
    ada = portal.sign_in("ada")
    namespace = ada.tenant()["namespace"]
    asked = ("-o", "jsonpath={.spec.resources.requests.storage}")
    wait_for(
        "the claim has grown",
        lambda: accounts.admin("-n", namespace, "get", "pvc", "log", *asked) == GROWN,
    )
    wait_for(
        "the policy that is not wanted any more is gone",
        lambda: "homeport-gate" not in accounts.admin("-n", namespace, "get", "networkpolicies"),
    )
    lose_a_replica(accounts, ada, namespace)
    accounts.admin("-n", namespace, "delete", "pvc", "log")
    wait_for(
        "the lost claim is made anew",
        lambda: (
            accounts.ask("admin", "-n", namespace, "get", "pvc", "log").is_done
            and ada.get("me/")["tenant"]["state"] == "active"
        ),
    )
    purge(accounts, portal, ada)


def lose_a_replica(accounts: Accounts, ada: Rest, namespace: str) -> None:
    """It dies without a word, and then somebody removes its Job: what it left is brought to safety."""
    job = ada.submit(
        name="dies", command=["python", "-c", KILLED], replicas={"worker": {"cpu": "300m"}}
    )
    owner = f"homeport.dev/owner={job['id']}"
    pods = ("-n", namespace, "pods", "-l", owner)
    wait_for(
        "it has died",
        lambda: any(p["status"].get("phase") == "Failed" for p in accounts.get(*pods)["items"]),
        timeout_s=120,
    )
    accounts.admin("-n", namespace, "delete", "jobs", "-l", owner)
    ada.wait(job, "failed", timeout_s=180)
    wait_for(
        "its log is complete and the rescue's pod is gone",
        lambda: (
            "dying" in ada.text(f"jobs/{job['id']}/logs/?download=1")
            and not accounts.get(*pods)["items"]
        ),
        timeout_s=120,
        interval_s=0.5,
    )
    assert ada.call("DELETE", f"jobs/{job['id']}/").status_code == 204
    left = ("-n", namespace, "get", "secrets,configmaps", "-l", owner, "-o", "name")
    wait_for("nothing of it is left", lambda: not accounts.admin(*left), timeout_s=60)


def purge(accounts: Accounts, portal: Portal, ada: Rest) -> None:
    """For ever, while things in the namespace are held; the purge says which."""
    tenant = ada.get("me/")["tenant"]
    namespace = tenant["namespace"]
    hold_everything(accounts, namespace)
    root = portal.sign_in("root")
    path = f"tenants/{tenant['id']}/"
    words = {"confirm": namespace, "confirm_early": "ada"}
    for verb, body in (("delete", {"confirm": namespace, "data": "delete"}), ("purge", words)):
        answer = root.call("POST", f"{path}{verb}/", json=body)
        assert answer.ok, answer.text
    # Pods go first, and until they are gone the cluster says nothing of all the others.
    until(root, path, "the pod is named", lambda found: "Pod held is held" in found["reason_text"])
    let_go(accounts, namespace, ("pod",))

    def names_all(found: dict[str, Any]) -> bool:
        named = {row["kind"] for row in found["objects"]}
        return HOLD in found["reason_text"] and named >= KINDS_HELD

    until(root, path, "all others are named", names_all)
    let_go(accounts, namespace, (*FRAME, *HELD))
    until(root, path, "it is gone", lambda found: found["state"] == "gone")
    assert not accounts.ask("admin", "get", "namespace", namespace).is_done


def until(root: Rest, path: str, what: str, is_so: Callable[[dict[str, Any]], bool]) -> None:
    try:
        wait_for(what, lambda: is_so(root.get(path)), timeout_s=180, interval_s=0.5)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{root.get(path)}") from error


def let_go(accounts: Accounts, namespace: str, kinds: tuple[str, ...]) -> None:
    found = accounts.get("-n", namespace, ",".join(kinds))["items"]
    held = [
        f"{item['kind'].lower()}/{item['metadata']['name']}"
        for item in found
        if HOLD in item["metadata"].get("finalizers", ())
    ]
    nothing = ("--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    accounts.admin("-n", namespace, "patch", *nothing, *held)


def hold_everything(accounts: Accounts, namespace: str) -> None:
    """A finalizer on one object of each kind, as a controller that is not there any more leaves it."""
    meta = {"name": "held", "namespace": namespace, "finalizers": [HOLD]}
    for kind, document in HELD.items():
        body: dict[str, Any] = {**document, "metadata": meta}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
        if kind == "job":
            body["spec"] = {"suspend": True, "template": template}
        elif kind == "deployment":
            always = {**template, "spec": {**POD, "restartPolicy": "Always"}}
            body["spec"] = {
                "replicas": 0,
                "selector": {"matchLabels": {"a": "b"}},
                "template": always,
            }
        elif kind == "pod":
            body["spec"] = POD
        accounts.admin("create", "-f", "-", body=body)
    # A purge waits for what runs.
    ended = ("patch", "pod", "held", "--subresource=status", "--type=merge")
    accounts.admin("-n", namespace, *ended, "-p", '{"status":{"phase":"Succeeded"}}')
    for kind in FRAME:
        name = accounts.admin(
            "-n", namespace, "get", kind, "-l", "homeport.dev/owner", "-o", "name"
        )
        first = name.splitlines()[0]
        # Claims have a finalizer of the cluster's own, which stays.
        before = accounts.get("-n", namespace, first)["metadata"].get("finalizers", [])
        patch = {"metadata": {"finalizers": [*before, HOLD]}}
        accounts.admin("-n", namespace, "patch", first, "--type=merge", "-p", yaml.safe_dump(patch))


def test_each_right_that_is_granted_is_used(audit: used.Use) -> None:
    assert [str(right) for right in audit.never_used] == []


def test_each_right_that_is_used_is_granted(audit: used.Use) -> None:
    assert [str(right) for right in audit.not_granted] == []
    assert dict(audit.denied) == {}


def test_the_policy_refuses_nothing_that_homeport_does(audit: used.Use) -> None:
    assert dict(audit.refused) == {}


def test_each_account_did_something(audit: used.Use) -> None:
    assert {right.role for right in audit.rights} == {
        "homeport-reconciler",
        "homeport-purge",
        "homeport-results",
        *rights.TENANT_ROLES,
    }
