"""kubectl against a real onebox: today's and the one that Debian 12 ships."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.onebox.whole.kube import Space
from tests.tools import kubectls

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


def current_kubectl() -> str:
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("no kubectl in PATH")
    told = subprocess.run(
        [program, "version", "--client", "-o", "json"], capture_output=True, text=True, check=True
    )
    version = json.loads(told.stdout)["clientVersion"]
    if int(version["minor"].rstrip("+")) < 30:
        pytest.skip(f"the kubectl in PATH is {version['gitVersion']}, older than 1.30")
    return program


def debian_kubectl() -> str:
    try:
        return kubectls.old_kubectl()
    except kubectls.NoKubectlError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["current", "debian"])
def kubectl(request: pytest.FixtureRequest, kubeconfig: Path, space: Space, tmp_path: Path):
    program = current_kubectl() if request.param == "current" else debian_kubectl()

    def run(*arguments: str, stdin: str | None = None) -> str:
        done = subprocess.run(
            [program, "--kubeconfig", str(kubeconfig), "-n", space.name, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            # kubectl keeps what it learned of a server in HOME.
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            check=False,
        )
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout

    return run


def test_a_pod_lives_and_dies_by_kubectl(kubectl, space: Space):
    assert "pod/p created" in kubectl("apply", "-f", "-", stdin=MANIFEST)
    kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
    shown = kubectl("get", "pods").splitlines()
    assert shown[0].split()[:4] == ["NAME", "READY", "STATUS", "RESTARTS"]
    assert shown[1].split()[:4] == ["p", "1/1", "Running", "0"]
    described = kubectl("describe", "pod", "p")
    assert "Started container main" in described
    assert "pod/p unchanged" in kubectl("apply", "-f", "-", stdin=MANIFEST)
    changed = MANIFEST.replace('a: "1"', 'a: "2"')
    assert "configmap/c configured" in kubectl("apply", "-f", "-", stdin=changed)
    assert kubectl("logs", "p", "--tail=1") in ("hello\n", "bye\n")
    assert "onebox" in kubectl("get", "nodes")
    assert "Overcommitted" in kubectl("describe", "node", "onebox")
    kubectl("delete", "-f", "-", stdin=MANIFEST)
    assert kubectl("get", "pods", "-o", "name") == ""


def test_logs_follow_to_the_end(kubectl, space: Space):
    body = MANIFEST.split("---")[0].replace("sleep 2", "sleep 1").replace("sleep 1000", "exit 0")
    kubectl("apply", "-f", "-", stdin=body.replace("spec:", "spec:\n  restartPolicy: Never"))
    space.wait_pod("p", lambda pod: pod["status"]["phase"] in ("Running", "Succeeded"))
    assert kubectl("logs", "-f", "p") == "hello\nbye\n"
