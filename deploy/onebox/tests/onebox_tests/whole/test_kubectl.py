"""kubectl against a real onebox: ours, and one that is in PATH."""

from __future__ import annotations

from pathlib import Path

import pytest

from onebox.testing.kube import Space
from tests.tools import kubectls
from tests.tools.kubectls import CURRENT, IN_PATH, Kubectl

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: python:3.11-slim
    command: [sh, -c, "echo hello; sleep 2; echo bye; sleep 1000"]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: "1"}
"""


@pytest.fixture(params=[CURRENT, IN_PATH])
def kubectl(
    request: pytest.FixtureRequest, kubeconfig: Path, space: Space, tmp_path: Path
) -> Kubectl:
    if request.param == IN_PATH:
        try:
            kubectls.kubectl_in_path()
        except kubectls.NoKubectlError as error:
            pytest.skip(str(error))
    return Kubectl(kubectls.kubectl(request.param), kubeconfig, space.name, tmp_path)


def test_a_pod_lives_and_dies_by_kubectl(kubectl: Kubectl, space: Space):
    made = kubectl("apply", "-o", "name", "-f", "-", stdin=MANIFEST)
    assert made.split() == ["pod/p", "configmap/c"]
    kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
    shown = kubectl("get", "pods").splitlines()
    assert shown[0].split()[:4] == ["NAME", "READY", "STATUS", "RESTARTS"]
    assert shown[1].split()[:4] == ["p", "1/1", "Running", "0"]
    described = kubectl("describe", "pod", "p")
    assert "Started container main" in described
    before = versions(kubectl)
    kubectl("apply", "-f", "-", stdin=MANIFEST)
    assert versions(kubectl)["c"] == before["c"]
    kubectl("apply", "-f", "-", stdin=MANIFEST.replace('a: "1"', 'a: "2"'))
    assert kubectl("get", "configmap", "c", "-o", "jsonpath={.data.a}") == "2"
    assert kubectl("logs", "p", "--tail=1") in ("hello\n", "bye\n")
    assert "onebox" in kubectl("get", "nodes")
    assert "Overcommitted" in kubectl("describe", "node", "onebox")
    kubectl("delete", "-f", "-", stdin=MANIFEST)
    assert kubectl("get", "pods", "-o", "name") == ""


def versions(kubectl: Kubectl) -> dict[str, str]:
    """Name -> resourceVersion of the namespace's config maps."""
    each = "jsonpath={range .items[*]}{.metadata.name} {.metadata.resourceVersion} {end}"
    words = kubectl("get", "configmaps", "-o", each).split()
    return dict(zip(words[::2], words[1::2], strict=True))


def test_logs_follow_to_the_end(kubectl: Kubectl, space: Space):
    body = MANIFEST.split("---")[0].replace("sleep 2", "sleep 1").replace("sleep 1000", "exit 0")
    kubectl("apply", "-f", "-", stdin=body.replace("spec:", "spec:\n  restartPolicy: Never"))
    space.wait_pod("p", lambda pod: pod["status"]["phase"] in ("Running", "Succeeded"))
    assert kubectl("logs", "-f", "p") == "hello\nbye\n"
