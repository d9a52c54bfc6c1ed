"""Builders of pods for the tests of the kubelet side."""

from __future__ import annotations

from typing import Any

from onebox.node.record import (
    ContainerRecord,
    Role,
    Running,
    Stage,
    Terminated,
    Waiting,
    parse_time,
)

NOON = parse_time("2026-11-20T12:00:00Z")


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "python:3.11-slim", "command": ["true"], **fields}


def pod(
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    policy: str = "Always",
    **spec: Any,
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "containers": list(containers) or [container()],
        "restartPolicy": policy,
        "nodeName": "onebox",
        **spec,
    }
    if init:
        body["initContainers"] = list(init)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1"},
        "spec": body,
        "status": {"phase": "Pending"},
    }


def record(name: str, role: Role, **fields: Any) -> ContainerRecord:
    made = ContainerRecord(name, role, container(name), Waiting("ContainerCreating"))
    for key, value in fields.items():
        setattr(made, key, value)
    return made


def running(name: str, role: Role = Role.MAIN, *, started: bool = True) -> ContainerRecord:
    assert NOON is not None
    return record(
        name, role, stage=Stage.RUNNING, state=Running(NOON), started=started, ready=started
    )


def exited(name: str, code: int, role: Role = Role.MAIN, **fields: Any) -> ContainerRecord:
    ended = Terminated(code, "Completed" if code == 0 else "Error", "", NOON, NOON)
    return record(name, role, stage=Stage.EXITED, state=ended, **fields)


def crashing(name: str, code: int, retry_at_s: float) -> ContainerRecord:
    """A container in its back-off: shown as waiting, its end in lastState."""
    made = exited(name, code, retry_at_s=retry_at_s)
    made.last, made.state = made.state, Waiting("CrashLoopBackOff")
    return made
