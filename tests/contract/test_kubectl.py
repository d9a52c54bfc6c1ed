"""kubectl of today and the one that Debian 12 ships (1.20), on a cluster of the contract."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from deploy.testcluster import binaries
from tests.contract.bodies import config_map, deployment, job, pod, service
from tests.contract.clusters import Cluster
from tests.contract.kube import Json
from tests.contract.tape import NODE, Tape
from tests.onebox.whole.test_kubectl import current_kubectl, debian_kubectl

Run = Callable[..., str]


def _current() -> str:
    if binaries.is_built(binaries.KUBERNETES):
        return str(binaries.program(binaries.KUBERNETES, "kubectl"))
    return current_kubectl()


@pytest.fixture(params=["current", "debian"])
def kubectl(request: pytest.FixtureRequest, cluster: Cluster, tape: Tape, tmp_path: Path) -> Run:
    program = _current() if request.param == "current" else debian_kubectl()

    def run(*arguments: str, stdin: object = None, code: int = 0) -> str:
        text = yaml.safe_dump_all([stdin] if isinstance(stdin, dict) else stdin) if stdin else None
        done = subprocess.run(
            [program, "--kubeconfig", str(cluster.kubeconfig), "-n", tape.ns, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            # kubectl keeps what it learned of a server in HOME.
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            check=False,
        )
        shown = f"kubectl {' '.join(arguments)}: {done.returncode} {done.stderr}{done.stdout}"
        assert done.returncode == code, shown
        return done.stdout + done.stderr

    run.is_current = request.param == "current"  # type: ignore[attr-defined]
    return run


def test_apply_makes_changes_and_leaves_alone(kubectl: Run) -> None:
    both = [config_map("c"), service("s")]
    assert kubectl("apply", "-f", "-", stdin=both).splitlines() == [
        "configmap/c created",
        "service/s created",
    ]
    again = kubectl("apply", "-f", "-", stdin=both)
    assert again.splitlines() == ["configmap/c unchanged", "service/s unchanged"]
    both[0] = config_map("c", {"a": "2"})
    assert "configmap/c configured" in kubectl("apply", "-f", "-", stdin=both)
    assert kubectl("get", "configmap", "c", "-o", "jsonpath={.data.a}") == "2"
    assert kubectl("delete", "-f", "-", stdin=both).splitlines()[0] == 'configmap "c" deleted' + (
        f" from {_namespace(kubectl)} namespace" if kubectl.is_current else ""  # type: ignore[attr-defined]
    )


def _namespace(kubectl: Run) -> str:
    return kubectl("get", "serviceaccount", "default", "-o", "jsonpath={.metadata.namespace}")


def test_a_dry_run_and_a_diff_change_nothing(kubectl: Run) -> None:
    kubectl("apply", "-f", "-", stdin=config_map("c"))
    changed = config_map("c", {"a": "2"})
    assert "(server dry run)" in kubectl("apply", "--dry-run=server", "-f", "-", stdin=changed)
    assert "(dry run)" in kubectl("apply", "--dry-run=client", "-f", "-", stdin=changed)
    shown = kubectl("diff", "-f", "-", stdin=changed, code=1)
    assert '-  a: "1"' in shown
    assert '+  a: "2"' in shown
    assert kubectl("get", "configmap", "c", "-o", "jsonpath={.data.a}") == "1"


def test_server_side_apply_tells_of_conflicts(kubectl: Run) -> None:
    arguments = ("apply", "--server-side", "-f", "-")
    assert "serverside-applied" in kubectl(*arguments, stdin=config_map("c"))
    other = (*arguments, "--field-manager=other")
    told = kubectl(*other, stdin=config_map("c", {"a": "2"}), code=1)
    assert "conflict" in told
    assert ".data.a" in told
    forced = kubectl(*other, "--force-conflicts", stdin=config_map("c", {"a": "2"}))
    assert "serverside-applied" in forced


def test_a_rollout_is_followed_and_undone(kubectl: Run) -> None:
    body = deployment(replicas=0)
    kubectl("apply", "-f", "-", stdin=body)
    assert "successfully rolled out" in kubectl(
        "rollout", "status", "deployment/d", "--timeout=30s"
    )
    kubectl("set", "image", "deployment/d", "main=other:1")
    kubectl("rollout", "status", "deployment/d", "--timeout=30s")
    assert len(kubectl("rollout", "history", "deployment/d").strip().splitlines()) == 4
    kubectl("rollout", "undo", "deployment/d")
    kubectl("rollout", "status", "deployment/d", "--timeout=30s")
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert kubectl("get", "deployment", "d", "-o", image) == "python:3.11-slim"
    assert "restarted" in kubectl("rollout", "restart", "deployment/d")


def test_scale_waits_label_annotate_and_patch(kubectl: Run, tape: Tape) -> None:
    kubectl("apply", "-f", "-", stdin=deployment(replicas=0))
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
    shown = json.loads(kubectl("get", "deployment", "d", "-o", "json"))
    assert shown["metadata"]["labels"]["colour"] == "red"
    assert shown["spec"]["replicas"] == 0
    assert not shown["spec"].get("paused")
    assert "d" in kubectl("get", "all", "-l", "colour=red")


def test_get_prints_columns_names_and_sorted_lists(kubectl: Run, tape: Tape) -> None:
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
    assert 'pods "none" not found' in kubectl("get", "pod", "none", code=1)
    assert "gadgets" in kubectl("get", "gadgets", code=1)
    assert tape.ns in kubectl("get", "namespace", tape.ns)


def test_describe_tells_of_each_kind(kubectl: Run, tape: Tape) -> None:
    for path, body in (
        (tape.path("pods"), pod("x")),
        (tape.path("services"), service("x", type="NodePort")),
        (tape.path("jobs", group="batch/v1"), job("x", suspend=True)),
        (tape.path("deployments", group="apps/v1"), deployment("x", replicas=0)),
        (tape.path("configmaps"), config_map("x")),
    ):
        tape.kube.must("POST", path, body)
    for kind in ("pod", "service", "job", "deployment", "configmap"):
        assert kubectl("describe", kind, "x").split()[:2] == ["Name:", "x"]
    assert "Capacity" in kubectl("describe", "node", "contract-node")
    assert "Active" in kubectl("describe", "namespace", tape.ns)


def test_explain_knows_the_fields(kubectl: Run) -> None:
    for field in ("pod.spec.containers", "job.spec.successPolicy", "deployment.spec.strategy"):
        told = kubectl("explain", field)
        assert "FIELD" in told


def test_what_is_wrong_is_told_before_it_is_made(kubectl: Run) -> None:
    body: Json = {**config_map("c"), "nonsense": {"a": 1}}
    told = kubectl("apply", "-f", "-", stdin=body, code=1)
    assert "nonsense" in told
    wrong = pod("p", {"name": "Main", "image": "i"})
    assert "Invalid value" in kubectl("create", "-f", "-", stdin=wrong, code=1)


def test_deletes_wait_cascade_and_leave_orphans(kubectl: Run, tape: Tape) -> None:
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
    assert "NotFound" in kubectl("get", "configmap", "made", code=1)


def test_a_drain_takes_the_pods_of_a_node(kubectl: Run, tape: Tape) -> None:
    labels = {"labels": {"drained": tape.ns}}
    tape.kube.must("POST", tape.path("pods"), pod(meta=labels))
    chosen = f"--pod-selector=drained={tape.ns}"
    told = kubectl("drain", NODE, chosen, "--force", "--grace-period=0", "--timeout=30s")
    assert "pod/p " in told
    assert tape.kube.get(tape.path("pods", "p")).code == 404


def test_events_are_shown(kubectl: Run, tape: Tape) -> None:
    tape.kube.must("POST", tape.path("deployments", group="apps/v1"), deployment())
    tape.pods("app=d", 1)
    tape.kube.until(
        tape.path("events", fieldSelector="involvedObject.kind=Deployment"),
        lambda body: body["items"],
    )
    told = kubectl("get", "events")
    assert "ScalingReplicaSet" in told
    if kubectl.is_current:  # type: ignore[attr-defined]
        assert "ScalingReplicaSet" in kubectl("events")


def test_the_cluster_tells_of_itself(kubectl: Run) -> None:
    assert "deployments" in kubectl("api-resources")
    assert "apps/v1" in kubectl("api-versions")
    version = json.loads(kubectl("version", "-o", "json"))
    assert version["serverVersion"]["major"] == "1"
    assert kubectl("get", "--raw", "/readyz") == "ok"


def test_an_administrator_asks_what_he_may_do(kubectl: Run) -> None:
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
