"""onebox's node half under an upstream control plane: what it may, and what becomes of its pods.

How pods of it run is tried by deploy/onebox/tests/onebox_tests/whole, which `make test-cluster` runs on upstream too.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.testcluster import binaries
from deploy.testcluster.cluster import TestCluster
from onebox.testing.kube import Json, Kube, Space, container, shell, sleeper
from tests.tools.kubectls import Said, ask, current_kubectl
from tests.upstream.power import need_built

pytestmark = pytest.mark.upstream

BATCH, APPS = "batch/v1", "apps/v1"


@pytest.fixture(scope="module")
def cluster() -> Iterator[TestCluster]:
    need_built(binaries.KUBERNETES, binaries.ETCD)
    folder = Path(tempfile.mkdtemp(prefix="homeport-upstream-node-"))
    folder.chmod(0o755)
    try:
        with TestCluster(folder) as made:
            yield made
            words = (made.node.child.log or Path()).read_text()
            for odd in ("was refused", "Traceback", "could not be"):
                assert odd not in words, words
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def kube(cluster: TestCluster) -> Kube:
    return Kube(cluster.kubeconfig)


@pytest.fixture
def space(kube: Kube, request: pytest.FixtureRequest) -> Iterator[Space]:
    made = Space(kube, request.node.name.replace("_", "-")[:50].strip("-"))
    yield made
    kube.delete(f"/api/v1/namespaces/{made.name}")


def as_user(cluster: TestCluster, name: str, *arguments: str) -> Said:
    """kubectl with one of the keys that the node has."""
    keys = cluster.control_plane.keys.folder / f"{name}.kubeconfig"
    return ask([current_kubectl(), f"--kubeconfig={keys}", *arguments])


@pytest.mark.parametrize(
    ("user", "question"),
    [
        ("onebox", ("get", "secrets", "-A")),
        ("onebox", ("get", "endpointslices", "-A")),
        ("onebox", ("get", "pods", "-A")),  # those of other nodes too
        ("onebox", ("create", "configmap", "x")),
        ("onebox", ("label", "node", "onebox", "node-role.kubernetes.io/control-plane=")),
        ("onebox", ("taint", "node", "other", "a=b:NoSchedule")),
        ("onebox-services", ("get", "pods", "-A")),
        ("onebox-services", ("get", "secrets", "-A")),
        ("onebox-services", ("delete", "namespace", "default")),
    ],
)
def test_the_node_has_no_more_than_a_nodes_rights(
    cluster: TestCluster, user: str, question: tuple[str, ...]
) -> None:
    answer = as_user(cluster, user, *question)
    assert not answer.is_done, answer
    assert "forbidden" in answer.errors.lower(), answer


def test_a_pod_that_is_not_of_the_node_is_not_its_to_change(
    cluster: TestCluster, space: Space
) -> None:
    space.pod("elsewhere", sleeper(), nodeSelector={"is": "nowhere"})
    patch = json.dumps({"status": {"phase": "Running"}})
    where = ("-n", space.name, "pod", "elsewhere")
    answer = as_user(cluster, "onebox", "patch", *where, "--subresource=status", "-p", patch)
    assert "forbidden" in answer.errors.lower(), answer
    assert "forbidden" in as_user(cluster, "onebox", "delete", *where).errors.lower()


def test_a_failure_that_its_policy_names_ends_the_job_and_frees_its_pods(space: Space) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    spec = {
        "backoffLimit": 3,
        "podFailurePolicy": {"rules": [rule]},
        "template": {"spec": {"restartPolicy": "Never", "containers": [shell("exit 42")]}},
    }
    path = space.path("jobs", group=BATCH)
    space.kube.create(path, {"metadata": {"name": "j"}, "spec": spec})
    job = space.kube.wait(f"{path}/j", lambda j: bool(ended(j)), 60)
    assert ended(job) == ("Failed", "PodFailurePolicy")
    [pod] = space.kube.items(space.path("pods"))
    assert pod["metadata"].get("finalizers") is None
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 42


def test_pods_go_by_the_rules_when_the_node_stops_and_comes_back(
    cluster: TestCluster, space: Space
) -> None:
    ignored = {
        "action": "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    }
    job = {
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": [ignored]},
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}],
                "containers": [
                    shell(
                        "test -e /d/second && exit 0; touch /d/second; echo up; sleep 1000",
                        volumeMounts=[{"name": "d", "mountPath": "/d"}],
                    )
                ],
            }
        },
    }
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    deployment = {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [sleeper()]}},
    }
    for plural, group, name, spec in (
        ("persistentvolumeclaims", "", "d", claim),
        ("jobs", BATCH, "j", job),
        ("deployments", APPS, "d", deployment),
    ):
        space.kube.create(
            space.path(plural, group=group), {"metadata": {"name": name}, "spec": spec}
        )
    space.pod("never", sleeper(), restartPolicy="Never")
    deployed = space.path("deployments", "d", group=APPS)
    space.kube.wait(deployed, lambda d: d["status"].get("readyReplicas") == 1, 60)
    space.wait_pod("never", "Running", 60)
    [of_job] = space.kube.items(f"{space.path('pods')}?labelSelector=job-name=j")
    space.wait_pod(of_job["metadata"]["name"], "Running", 60)
    assert space.first_line(of_job["metadata"]["name"]) == "up\n"

    cluster.node.stop()
    space.kube.wait("/api/v1/nodes/onebox", lambda node: not is_ready(node), 60)
    cluster.node.start()

    never = space.wait_pod("never", "Failed", 60)
    target = next(c for c in never["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert target["reason"] == "TerminationByKubelet"
    done = space.kube.wait(space.path("jobs", "j", group=BATCH), lambda j: bool(ended(j)), 60)
    assert ended(done)[0] == "Complete"
    assert not done["status"].get("failed")
    [again] = space.kube.items(f"{space.path('pods')}?labelSelector=app=d")
    pod = space.wait_pod(again["metadata"]["name"], "Ready", 60)
    assert container(pod)["restartCount"] == 1
    space.kube.wait(deployed, lambda d: d["status"].get("readyReplicas") == 1, 60)


def test_who_is_evicted_while_the_node_is_away_is_gone_when_it_is_back(
    cluster: TestCluster, space: Space
) -> None:
    # Where no node at all is ready, upstream evicts nobody: the fault may be its own.
    other = {"type": "Ready", "status": "True", "reason": "Test", "message": "for a minute"}
    body = {
        "metadata": {"name": "other"},
        "spec": {"unschedulable": True},
        "status": {"conditions": [other]},
    }
    soon = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 2}
    space.pod("brief", sleeper(), tolerations=[{**soon, "effect": "NoExecute"}])
    space.pod("patient", sleeper())  # five minutes, as admission has it
    for name in ("brief", "patient"):
        space.wait_pod(name, "Ready", 60)
    space.kube.create("/api/v1/nodes", body)
    cluster.node.stop()
    brief = space.wait_pod("brief", lambda pod: "deletionTimestamp" in pod["metadata"], 60)
    target = next(c for c in brief["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert target["reason"] == "DeletionByTaintManager"
    space.kube.delete("/api/v1/nodes/other")
    cluster.node.start()
    space.kube.wait_gone(space.path("pods", "brief"), 60)
    space.wait_pod("patient", "Ready", 60)


def is_ready(node: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])


def ended(job: Json) -> tuple[str, str] | tuple[()]:
    """How a job ended and why; () while it has not."""
    for condition in (job.get("status") or {}).get("conditions") or []:
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return condition["type"], condition.get("reason", "")
    return ()
