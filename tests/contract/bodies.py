"""Objects that scripts and tests make, allowed in a namespace of the product."""

from __future__ import annotations

from typing import Any

from tests.contract.kube import Json
from tests.contract.tape import NODE

IMAGE = "python:3.11-slim"
SAFE = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def container(name: str = "main", **fields: Any) -> Json:
    """A container that sleeps."""
    return {
        "name": name,
        "image": IMAGE,
        "command": ["sleep", "1000"],
        "securityContext": SAFE,
        **fields,
    }


def pod_spec(*containers: Json, node: str | None = NODE, **fields: Any) -> Json:
    """What Pod Security `restricted` lets pass.

    Args:
        node: where it is put without the scheduler; None: nowhere, as no node has what it asks for.
    """
    place: Json = {"nodeName": node} if node else {"nodeSelector": {"contract": "nowhere"}}
    return {
        **place,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": list(containers) or [container()],
        **fields,
    }


def pod(name: str = "p", *containers: Json, meta: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(meta or {})},
        "spec": pod_spec(*containers, **spec),
    }


def job(name: str = "j", template: Json | None = None, **spec: Any) -> Json:
    """A Job whose pods the script plays."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": pod_spec(**{"restartPolicy": "Never", **(template or {})})},
            **spec,
        },
    }


def deployment(name: str = "d", template: Json | None = None, **spec: Any) -> Json:
    """A Deployment whose pods the script plays."""
    app = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": app},
            "template": {"metadata": {"labels": app}, "spec": pod_spec(**(template or {}))},
            **spec,
        },
    }


def config_map(name: str = "c", data: Json | None = None, **fields: Any) -> Json:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **fields}
    return {**made, "data": {"a": "1"} if data is None else data}


def service(name: str = "s", port: int = 80, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": "x"}, "ports": [{"port": port}], **spec},
    }


def quota(name: str = "q", **hard: str) -> Json:
    """A ResourceQuota; `pods="1"`, or with other names by `quota(**{"requests.cpu": "1"})`."""
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard},
    }


def claim(name: str = "data", **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }
