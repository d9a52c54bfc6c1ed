"""kubectl on a cluster of the contract: ours, and one that is in PATH where it is new enough.

What the server said and did is compared, never a sentence of the client's own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.bodies import config_map, deployment, job, pod, service
from tests.contract.clusters import Cluster
from tests.contract.kube import Json
from tests.contract.tape import NODE, Tape
from tests.tools import kubectls
from tests.tools.kubectls import CURRENT, IN_PATH, Kubectl


def _tried() -> list[str]:
    """One that cannot be tried is no behaviour of a cluster (deploy/onebox/tests/onebox_tests/whole names it)."""
    try:
        kubectls.kubectl_in_path()
    except kubectls.NoKubectlError:
        return [CURRENT]
    return [CURRENT, IN_PATH]


@pytest.fixture(params=_tried())
def kubectl(
    request: pytest.FixtureRequest, cluster: Cluster, tape: Tape, tmp_path: Path
) -> Kubectl:
    return Kubectl(kubectls.kubectl(request.param), cluster.kubeconfig, tape.ns, tmp_path)


def body_of(*objects: Json) -> str:
    """What `-f -` reads."""
    return yaml.safe_dump_all(objects)


def shown(kubectl: Kubectl, *arguments: str) -> Any:
    return json.loads(kubectl("get", *arguments, "-o", "json", "--show-managed-fields"))


def is_found(kubectl: Kubectl, *arguments: str) -> bool:
    return bool(kubectl("get", *arguments, "--ignore-not-found", "-o", "name"))


def test_apply_makes_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    names = ("configmap/c", "service/s")
    both = body_of(config_map("c"), service("s"))
    assert kubectl("apply", "-o", "name", "-f", "-", stdin=both).split() == [*names]
    made = shown(kubectl, *names)["items"]
    kubectl("apply", "-f", "-", stdin=both)
    assert shown(kubectl, *names)["items"] == made
    other = body_of(config_map("c", {"a": "2"}), service("s"))
    kubectl("apply", "-f", "-", stdin=other)
    assert kubectl("get", "configmap", "c", "-o", "jsonpath={.data.a}") == "2"
    assert shown(kubectl, "service", "s") == made[1]
    assert kubectl("delete", "-o", "name", "-f", "-", stdin=other).split() == [*names]
    assert not is_found(kubectl, *names)


def test_a_dry_run_and_a_diff_change_nothing(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=body_of(config_map("c")))
    changed = body_of(config_map("c", {"a": "2"}))
    value = "jsonpath={.data.a}"
    assert kubectl("apply", "--dry-run=server", "-o", value, "-f", "-", stdin=changed) == "2"
    kubectl("apply", "--dry-run=client", "-f", "-", stdin=changed)
    told = kubectl("diff", "-f", "-", stdin=changed, code=1)
    assert '-  a: "1"' in told
    assert '+  a: "2"' in told
    assert kubectl("get", "configmap", "c", "-o", value) == "1"


def test_server_side_apply_tells_of_conflicts(kubectl: Kubectl) -> None:
    arguments = ("apply", "--server-side", "-f", "-")
    kubectl(*arguments, stdin=body_of(config_map("c")))
    other = (*arguments, "--field-manager=other")
    changed = body_of(config_map("c", {"a": "2"}))
    told = kubectl.refusal(*other, stdin=changed)
    assert "conflict" in told
    assert ".data.a" in told
    assert kubectl("get", "configmap", "c", "-o", "jsonpath={.data.a}") == "1"
    kubectl(*other, "--force-conflicts", stdin=changed)
    found = shown(kubectl, "configmap", "c")
    assert found["data"] == {"a": "2"}
    assert {
        manager["manager"]: manager["operation"] for manager in found["metadata"]["managedFields"]
    }["other"] == "Apply"


def test_a_rollout_is_followed_and_undone(kubectl: Kubectl) -> None:
    history, image = (
        ("rollout", "history", "deployment/d"),
        "{.spec.template.spec.containers[0].image}",
    )
    followed = ("rollout", "status", "deployment/d", "--timeout=30s")
    kubectl("apply", "-f", "-", stdin=body_of(deployment(replicas=0)))
    kubectl(*followed)
    kubectl("set", "image", "deployment/d", "main=other:1")
    kubectl(*followed)
    assert "other:1" in kubectl(*history, "--revision=2")
    kubectl.refusal(*history, "--revision=3")
    kubectl("rollout", "undo", "deployment/d")
    kubectl(*followed)
    assert kubectl("get", "deployment", "d", "-o", f"jsonpath={image}") == "python:3.11-slim"
    kubectl("rollout", "restart", "deployment/d")
    template = shown(kubectl, "deployment", "d")["spec"]["template"]
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]


def test_scale_waits_label_annotate_and_patch(kubectl: Kubectl, tape: Tape) -> None:
    kubectl("apply", "-f", "-", stdin=body_of(deployment(replicas=0)))
    kubectl("scale", "deployment/d", "--replicas=1")
    name = tape.pods("app=d", 1)[0]["metadata"]["name"]
    tape.runs(name)
    kubectl("wait", "--for=condition=Available", "deployment/d", "--timeout=30s")
    kubectl("label", "deployment", "d", "colour=red")
    kubectl("annotate", "deployment", "d", "note=x")
    kubectl("patch", "deployment", "d", "-p", '{"spec":{"replicas":0}}')
    kubectl("patch", "deployment", "d", "--type=merge", "-p", '{"spec":{"paused":true}}')
    replace = '[{"op":"replace","path":"/spec/paused","value":false}]'
    kubectl("patch", "deployment", "d", "--type=json", "-p", replace)
    found = shown(kubectl, "deployment", "d")
    assert found["metadata"]["labels"]["colour"] == "red"
    assert found["metadata"]["annotations"]["note"] == "x"
    assert found["spec"]["replicas"] == 0
    assert not found["spec"].get("paused")
    assert kubectl("get", "all", "-l", "colour=red", "-o", "name") == "deployment.apps/d\n"


def test_get_prints_columns_names_and_sorted_lists(kubectl: Kubectl, tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), pod("a"))
    tape.kube.must("POST", tape.path("jobs", group="batch/v1"), job(suspend=True))
    tape.runs("a")
    pods = kubectl("get", "pods", "-o", "wide").splitlines()
    assert pods[0].split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert pods[1].split()[:4] == ["a", "1/1", "Running", "0"]
    assert kubectl("get", "pods", "-o", "name") == "pod/a\n"
    assert "a" in kubectl("get", "pods", "--sort-by=.metadata.name", "--no-headers")
    assert "0/1" in kubectl("get", "jobs")
    custom = kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name,P:.status.phase")
    assert custom.split() == ["N", "P", "a", "Running"]
    assert 'pods "none" not found' in kubectl.refusal("get", "pod", "none")
    kubectl.refusal("get", "gadgets")
    assert tape.ns in kubectl("get", "namespace", tape.ns)


def test_describe_tells_of_each_kind(kubectl: Kubectl, tape: Tape) -> None:
    for path, body in (
        (tape.path("pods"), pod("x")),
        (tape.path("services"), service("x", type="NodePort")),
        (tape.path("jobs", group="batch/v1"), job("x", suspend=True)),
        (tape.path("deployments", group="apps/v1"), deployment("x", replicas=0)),
        (tape.path("configmaps"), config_map("x")),
    ):
        tape.kube.must("POST", path, body)
    for kind in ("pod", "service", "job", "deployment", "configmap"):
        assert {"x", tape.ns} <= {*kubectl("describe", kind, "x").split()}
    assert NODE in kubectl("describe", "node", NODE)
    assert "Active" in kubectl("describe", "namespace", tape.ns)


def test_explain_knows_the_fields(kubectl: Kubectl) -> None:
    for path, field in (
        ("pod.spec.containers", "imagePullPolicy"),
        ("job.spec.successPolicy", "rules"),
        ("deployment.spec.strategy", "rollingUpdate"),
    ):
        assert field in kubectl("explain", path)


def test_what_is_wrong_is_told_before_it_is_made(kubectl: Kubectl) -> None:
    body: Json = {**config_map("c"), "nonsense": {"a": 1}}
    assert "nonsense" in kubectl.refusal("apply", "-f", "-", stdin=body_of(body))
    wrong = body_of(pod("p", {"name": "Main", "image": "i"}))
    assert "Invalid value" in kubectl.refusal("create", "-f", "-", stdin=wrong)
    assert not is_found(kubectl, "configmap/c", "pod/p")


def test_deletes_wait_cascade_and_leave_orphans(kubectl: Kubectl, tape: Tape) -> None:
    tape.kube.must("POST", tape.path("jobs", group="batch/v1"), job())
    name = tape.pods("job-name=j", 1)[0]["metadata"]["name"]
    kubectl("delete", "job", "j", "--cascade=orphan")
    tape.kube.until(
        tape.path("pods", name), lambda found: not found["metadata"].get("ownerReferences")
    )
    kubectl("delete", "pod", name, "--grace-period=0", "--force")
    tape.kube.until_gone(tape.path("pods", name))
    kubectl("create", "configmap", "made", "--from-literal=a=1")
    kubectl("create", "secret", "generic", "made", "--from-literal=a=1")
    kubectl("delete", "configmap,secret", "made")
    assert not is_found(kubectl, "configmap/made", "secret/made")


def test_a_drain_takes_the_pods_of_a_node(kubectl: Kubectl, tape: Tape) -> None:
    labels = {"labels": {"drained": tape.ns}}
    tape.kube.must("POST", tape.path("pods"), pod(meta=labels))
    chosen = f"--pod-selector=drained={tape.ns}"
    kubectl("drain", NODE, chosen, "--force", "--grace-period=0", "--timeout=30s")
    assert tape.kube.get(tape.path("pods", "p")).code == 404


def test_events_are_shown(kubectl: Kubectl, tape: Tape) -> None:
    tape.kube.must("POST", tape.path("deployments", group="apps/v1"), deployment())
    tape.pods("app=d", 1)
    tape.kube.until(
        tape.path("events", fieldSelector="involvedObject.kind=Deployment"),
        lambda body: body["items"],
    )
    assert "ScalingReplicaSet" in kubectl("get", "events")
    assert "ScalingReplicaSet" in kubectl("events")


def test_the_cluster_tells_of_itself(kubectl: Kubectl) -> None:
    assert "deployments" in kubectl("api-resources")
    assert "apps/v1" in kubectl("api-versions")
    version = json.loads(kubectl("version", "-o", "json"))
    assert version["serverVersion"]["major"] == "1"
    assert kubectl("get", "--raw", "/readyz") == "ok"


def test_an_administrator_asks_what_he_may_do(kubectl: Kubectl) -> None:
    kubectl("auth", "can-i", "create", "pods", "--quiet")
