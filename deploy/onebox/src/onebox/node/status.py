"""The status of a pod as the API shows it, computed from what the node knows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from onebox.node.client import Json
from onebox.node.conditions import pod_conditions, with_transition_times
from onebox.node.lifecycle import phase
from onebox.node.record import (
    ContainerRecord,
    Role,
    Running,
    Stage,
    State,
    Terminated,
    Waiting,
    format_time,
)

HOST_IP = "127.0.0.1"


@dataclass(frozen=True)
class Ending:
    """Why the node ends a whole pod, whatever its restart policy says.

    Attributes:
        reason, message: shown in the pod's status; "" for a deletion, which needs no words.
        phase: forced phase, or None when the exit codes decide.
        conditions: conditions to add (DisruptionTarget).
    """

    reason: str = ""
    message: str = ""
    phase: str | None = None
    conditions: tuple[Json, ...] = field(default=())


@dataclass(frozen=True)
class PodFacts:
    """Everything a pod's status is computed from.

    Attributes:
        sent: the status that the API has from us, for the transition times of conditions.
    """

    pod: Json
    sent: Json
    records: Sequence[ContainerRecord]
    ip: str | None
    has_sandbox: bool
    started_at: datetime
    ending: Ending | None
    now: datetime


def pod_status(facts: PodFacts) -> Json:
    """Compute the fields of `status` that the node owns."""
    policy = facts.pod["spec"].get("restartPolicy", "Always")
    shown = phase(facts.records, policy, terminal=facts.ending is not None)
    if facts.ending is not None and facts.ending.phase is not None and shown in _FINAL:
        shown = facts.ending.phase
    status: Json = {
        "phase": shown,
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "startTime": format_time(facts.started_at),
        "conditions": _conditions(facts, shown),
        "containerStatuses": [container_status(r) for r in facts.records if r.role is Role.MAIN],
    }
    inits = [container_status(r) for r in facts.records if r.role is not Role.MAIN]
    if inits:
        status["initContainerStatuses"] = inits
    generation = facts.pod["metadata"].get("generation")
    if generation is not None:  # control planes before 1.33 count none for pods
        status["observedGeneration"] = generation
        for condition in status["conditions"]:
            condition["observedGeneration"] = generation
    if facts.ip is not None:
        status["podIP"] = facts.ip
        status["podIPs"] = [{"ip": facts.ip}]
    if facts.ending is not None and facts.ending.reason and shown in _FINAL:
        status["reason"] = facts.ending.reason
        status["message"] = facts.ending.message
    return status


_FINAL = ("Succeeded", "Failed")


def _conditions(facts: PodFacts, shown: str) -> list[Json]:
    wanted = pod_conditions(facts.pod, facts.records, shown, has_sandbox=facts.has_sandbox)
    if facts.ending is not None:
        wanted.extend(facts.ending.conditions)
    previous = facts.sent.get("conditions") or []
    return with_transition_times(wanted, previous, facts.now)


def container_status(record: ContainerRecord) -> Json:
    """Write one ContainerStatus."""
    status: Json = {
        "name": record.name,
        "image": record.image,
        "imageID": record.image_id,
        "ready": _is_ready(record),
        "started": record.started and isinstance(record.state, Running),
        "restartCount": record.restart_count,
        "state": _state(record.state),
        "lastState": _state(record.last) if record.last is not None else {},
    }
    if record.container_id:
        status["containerID"] = record.container_id
    return status


def _is_ready(record: ContainerRecord) -> bool:
    if record.role is Role.INIT:
        return record.stage is Stage.EXITED and record.exit_code == 0
    return record.ready


def _state(state: State) -> Json:
    if isinstance(state, Waiting):
        waiting = {"reason": state.reason}
        if state.message:
            waiting["message"] = state.message
        return {"waiting": waiting}
    if isinstance(state, Running):
        return {"running": {"startedAt": format_time(state.started_at)}}
    return {"terminated": _terminated(state)}


def _terminated(ended: Terminated) -> Json:
    raw = {
        "exitCode": ended.exit_code,
        "reason": ended.reason,
        "message": ended.message or None,
        "signal": ended.signal,
        "startedAt": format_time(ended.started_at),
        "finishedAt": format_time(ended.finished_at),
        "containerID": ended.container_id or None,
    }
    return {key: value for key, value in raw.items() if value is not None}


def changed_fields(sent: Json, wanted: Json) -> Json:
    """Give the part of `wanted` that the API does not have yet, {} when nothing changed.

    Conditions are merged by type on the server (strategic merge patch), so only changed ones
    are sent; other lists and maps are sent whole. Addresses would be merged too, and a pod that
    got another one would have both.
    """
    changed: Json = {}
    for key, value in wanted.items():
        if key == "conditions":
            known = {c["type"]: c for c in sent.get("conditions") or []}
            patches = [_condition_patch(known.get(c["type"], {}), c) for c in value]
            if any(patches):
                changed[key] = [patch for patch in patches if patch]
        elif sent.get(key) != value:
            is_merged = key in _MERGED and bool(sent.get(key))
            changed[key] = [*value, _REPLACE] if is_merged else value
    return changed


_MERGED = ("hostIPs", "podIPs")
# https://github.com/kubernetes/community/blob/main/contributors/devel/sig-api-machinery/strategic-merge-patch.md
_REPLACE = {"$patch": "replace"}


def _condition_patch(known: Json, wanted: Json) -> Json:
    """Give the patch from one condition to the other, {} when they are the same."""
    keys = ("status", "reason", "message", "lastTransitionTime", "observedGeneration")
    if all(known.get(key) == wanted.get(key) for key in keys):
        return {}
    removed = {key: None for key in keys if key in known and key not in wanted}
    return {**wanted, **removed}


def merged(sent: Json, changed: Json) -> Json:
    """Give the status that the API has after the patch `changed` was accepted."""
    result = {**sent, **changed}
    for key in _MERGED:
        if key in changed:
            result[key] = [address for address in changed[key] if address != _REPLACE]
    if "conditions" in changed:
        by_type = {c["type"]: c for c in sent.get("conditions") or []}
        for patch in changed["conditions"]:
            by_type[patch["type"]] = {k: v for k, v in patch.items() if v is not None}
        result["conditions"] = list(by_type.values())
    return result
