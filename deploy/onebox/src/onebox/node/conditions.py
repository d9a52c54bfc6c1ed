"""Pod conditions as the kubelet computes them (pkg/kubelet/status/generate.go)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from onebox.node.client import Json
from onebox.node.lifecycle import is_initialized
from onebox.node.record import ContainerRecord, Role, Stage, format_time

READY_TO_START = "PodReadyToStartContainers"


def pod_conditions(
    pod: Json, records: Sequence[ContainerRecord], phase: str, *, has_sandbox: bool
) -> list[Json]:
    """Compute the conditions that the node owns, without transition times."""
    containers = _containers_ready(records, phase)
    return [
        _condition(READY_TO_START, has_sandbox),
        _initialized(records, phase),
        _ready(pod, containers, phase),
        {**containers, "type": "ContainersReady"},
    ]


def with_transition_times(
    wanted: Sequence[Json], previous: Sequence[Json], now: datetime
) -> list[Json]:
    """Add lastTransitionTime: the earlier one unless the condition's status changed."""
    known = {condition["type"]: condition for condition in previous}
    stamped = []
    for condition in wanted:
        before = known.get(condition["type"], {})
        kept = before.get("lastTransitionTime")
        same = before.get("status") == condition["status"] and kept
        stamped.append({**condition, "lastTransitionTime": kept if same else format_time(now)})
    return stamped


def disruption_target(message: str) -> Json:
    """The condition of a pod that the node itself ended, which Jobs may choose to ignore.

    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
    """
    return _condition("DisruptionTarget", True, "TerminationByKubelet", message)


def _condition(type_: str, is_true: bool, reason: str = "", message: str = "") -> Json:
    condition = {"type": type_, "status": "True" if is_true else "False"}
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


def _initialized(records: Sequence[ContainerRecord], phase: str) -> Json:
    if phase == "Succeeded":
        return _condition("Initialized", True, "PodCompleted")
    if is_initialized(records):
        return _condition("Initialized", True)
    waiting = [
        record.name
        for record in records
        if (record.role is Role.INIT and not (_ended_well(record)))
        or (record.role is Role.SIDECAR and not record.started)
    ]
    message = f"containers with incomplete status: [{' '.join(waiting)}]"
    return _condition("Initialized", False, "ContainersNotInitialized", message)


def _ended_well(record: ContainerRecord) -> bool:
    return record.stage is Stage.EXITED and record.exit_code == 0


def _containers_ready(records: Sequence[ContainerRecord], phase: str) -> Json:
    if phase == "Succeeded":
        return _condition("Ready", False, "PodCompleted")
    if phase == "Failed":
        return _condition("Ready", False, "PodFailed")
    unready = [r.name for r in records if r.role is not Role.INIT and not r.ready]
    if not unready:
        return _condition("Ready", True)
    message = f"containers with unready status: [{' '.join(unready)}]"
    return _condition("Ready", False, "ContainersNotReady", message)


def _ready(pod: Json, containers: Json, phase: str) -> Json:
    if containers["status"] != "True" or phase in ("Succeeded", "Failed"):
        return dict(containers)
    present = {c["type"]: c["status"] for c in (pod.get("status") or {}).get("conditions") or []}
    unmet = []
    for gate in pod["spec"].get("readinessGates") or []:
        type_ = gate["conditionType"]
        if type_ not in present:
            unmet.append(f'corresponding condition of pod readiness gate "{type_}" does not exist.')
        elif present[type_] != "True":
            unmet.append(
                f'the status of pod readiness gate "{type_}" is not "True", but {present[type_]}'
            )
    if unmet:
        return _condition("Ready", False, "ReadinessGatesNotReady", ", ".join(unmet))
    return dict(containers)
