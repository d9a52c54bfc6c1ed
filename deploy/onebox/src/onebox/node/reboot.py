"""What becomes of a pod whose processes ended with an earlier run of this node. Pure.

A start of the node is a reboot of its machine. Pods that never restart, and pods of Jobs, end
with 137 and the condition DisruptionTarget, which Jobs may ignore; all others start again in
place with their restart counts going up.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from onebox.node.client import Json
from onebox.node.conditions import disruption_target
from onebox.node.lifecycle import init_has_failed, mains_are_done
from onebox.node.record import (
    ContainerRecord,
    Role,
    Stage,
    Terminated,
    new_records,
    restore_records,
)
from onebox.node.status import Ending

MESSAGE = "the node was restarted"


@dataclass(frozen=True)
class Resumed:
    """How the node goes on with a pod; `ending` is None when it runs on (or never ran)."""

    records: list[ContainerRecord]
    ending: Ending | None


def resume(pod: Json, now: datetime) -> Resumed:
    """Decide how to go on with a pod found at start that is not finished."""
    if not had_containers(pod):
        return Resumed(new_records(pod), None)
    records = restore_records(pod, now, MESSAGE)
    policy = pod["spec"].get("restartPolicy", "Always")
    if policy != "Never" and not is_of_job(pod):
        return Resumed(records, None)
    was_running = _running_names(pod)
    for record in records:
        _end(record)
    seen = [r for r in records if r.role is not Role.MAIN or r.name not in was_running]
    ended_by_itself = len(seen) == len(records) and mains_are_done(records, policy)
    if ended_by_itself or init_has_failed(seen, policy):
        # It was over before the node went down; only the word of it had not been sent.
        return Resumed(records, None)
    return Resumed(records, interrupted())


def interrupted() -> Ending:
    """The ending of a pod that the restart of the node cut off."""
    return Ending(
        reason="Terminated",
        message=MESSAGE,
        phase="Failed",
        conditions=(disruption_target(MESSAGE),),
    )


def had_containers(pod: Json) -> bool:
    """True when any container of the pod was ever started."""
    status = pod.get("status") or {}
    return any(
        key in (item.get(part) or {})
        for group in ("initContainerStatuses", "containerStatuses")
        for item in status.get(group) or []
        for part in ("state", "lastState")
        for key in ("running", "terminated")
    )


def is_of_job(pod: Json) -> bool:
    """True when the pod belongs to a Job."""
    owners = pod["metadata"].get("ownerReferences") or []
    return any(owner.get("kind") == "Job" and owner.get("controller") for owner in owners)


def _running_names(pod: Json) -> set[str]:
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return {item["name"] for item in statuses if "running" in (item.get("state") or {})}


def _end(record: ContainerRecord) -> None:
    """Let the latest run be the last one; a container that never ran keeps waiting."""
    if record.stage is Stage.EXITED or record.last is None:
        return
    ended: Terminated = record.last
    record.state, record.last, record.stage = ended, None, Stage.EXITED
