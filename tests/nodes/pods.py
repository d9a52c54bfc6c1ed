"""Pods of tests on real nodes: servers on two ports, and what a pod reaches from inside."""

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.testcluster.nodes import images
from tests.tools.kubectls import Said, ask, current_kubectl
from tests.tools.waiting import wait_for

OPEN, GATE = 8080, 8888
TRY_S = 3
_SERVER = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port={port}, bind='0.0.0.0')"
_TRY = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), {timeout_s})"


def server(namespace: str, name: str, node: str) -> dict[str, Any]:
    """A pod with a server at `OPEN` and another one, in a sidecar, at `GATE`."""

    def container(which: str, port: int) -> dict[str, Any]:
        return {
            "name": which,
            "image": images.PYTHON,
            "imagePullPolicy": "IfNotPresent",
            "workingDir": "/srv",
            "command": ["python3", "-c", _SERVER.format(port=port)],
            "ports": [{"containerPort": port}],
            "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
        }

    sidecar = {**container("gate", GATE), "restartPolicy": "Always"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "initContainers": [sidecar],
            "containers": [container("main", OPEN)],
        },
    }


@dataclass(frozen=True)
class Pods:
    """kubectl of an administrator, and what tests ask it for."""

    kubeconfig: Path

    def ask(self, *words: str, body: Any = None, timeout_s: float = 60) -> Said:
        command = [current_kubectl(), f"--kubeconfig={self.kubeconfig}", *words]
        stdin = None if body is None else json.dumps(body)
        return ask(command, stdin=stdin, timeout_s=timeout_s)

    def must(self, *words: str, body: Any = None, timeout_s: float = 60) -> str:
        said = self.ask(*words, body=body, timeout_s=timeout_s)
        assert said.is_done, f"kubectl {' '.join(words)}: {said.errors}"
        return said.out.strip()

    def apply(self, *bodies: dict[str, Any]) -> None:
        self.must("apply", "-f", "-", body={"apiVersion": "v1", "kind": "List", "items": bodies})

    def get(self, *words: str) -> Any:
        return json.loads(self.must("get", *words, "-o", "json"))

    def wait_until_ready(self, namespace: str, *names: str) -> None:
        what = [f"pod/{name}" for name in names]
        self.must(
            *("-n", namespace, "wait", "--for=condition=Ready", "--timeout=90s", *what),
            timeout_s=100,
        )

    def address(self, namespace: str, name: str) -> str:
        return str(self.get("-n", namespace, "pod", name)["status"]["podIP"])

    def python(self, namespace: str, name: str, program: str, *arguments: str) -> Said:
        """What a program says that runs in the pod's container `main`."""
        command = ("exec", name, "-c", "main", "--", "python3", "-c", program, *arguments)
        return self.ask("-n", namespace, *command)

    def reaches(self, namespace: str, name: str, address: str, port: int) -> bool:
        """Whether a pod gets a connection."""
        said = self.python(namespace, name, _TRY.format(timeout_s=TRY_S), address, str(port))
        # Refused, timed out or unreachable; anything else is a fault of the test.
        assert said.is_done or "create_connection" in said.errors, said
        return said.is_done

    def remove(self, *namespaces: str) -> None:
        self.must("delete", "namespace", "--ignore-not-found", *namespaces, timeout_s=120)


def reaches_from_here(address: str, port: int) -> bool:
    """Whether this machine gets a connection, as people's browsers do."""
    try:
        socket.create_connection((address, port), TRY_S).close()
    except OSError:
        return False
    return True


def wait_for_reach(what: str, pods: Pods, *where: Any) -> None:
    """New pods may have no network for a moment, while rules that allow it arrive."""
    wait_for(what, lambda: pods.reaches(*where), timeout_s=30)
