"""What the node knows of one container of a pod, from first wait to last exit.

A record is changed by the tasks that run the container and read by the pure rules in
`lifecycle` and `status`. `stage` is what the rules decide on; `state` is what people see.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from onebox.node.backoff import Backoff
from onebox.node.client import Json

TERMINATION_MESSAGE_BYTES = 4096


class Role(Enum):
    """The part a container plays in its pod."""

    INIT = "init"
    SIDECAR = "sidecar"  # an init container with restartPolicy Always
    MAIN = "main"


class Stage(Enum):
    """Where a container is in the life of the present sandbox."""

    NEW = "new"  # not started in this sandbox yet
    STARTING = "starting"  # image, configuration or process on the way
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True)
class Waiting:
    """No process, for a reason."""

    reason: str
    message: str = ""


@dataclass(frozen=True)
class Running:
    """A live process."""

    started_at: datetime


@dataclass(frozen=True)
class Terminated:
    """How a process ended."""

    exit_code: int
    reason: str
    message: str
    started_at: datetime | None
    finished_at: datetime | None
    signal: int | None = None
    container_id: str = ""


State = Waiting | Running | Terminated


@dataclass
class ContainerRecord:
    """One container of one pod.

    Attributes:
        retry_at_s: monotonic second before which it must not be started again.
        restart_count: completed restarts, as kubectl shows them.
        has_run: a process was started at least once, in this sandbox or an earlier one.
        started: startup probe passed (or none is asked for) and the process runs.
        carried: a main container that ended for good in an earlier sandbox.
    """

    name: str
    role: Role
    spec: Json
    state: State
    stage: Stage = Stage.NEW
    last: Terminated | None = None
    restart_count: int = 0
    has_run: bool = False
    ready: bool = False
    started: bool = False
    stopping: bool = False
    carried: bool = False
    container_id: str = ""
    image_id: str = ""
    ended_at_s: float = 0.0
    retry_at_s: float = 0.0
    crashes: Backoff = field(default_factory=Backoff)

    @property
    def image(self) -> str:
        """The image reference as the pod has it."""
        return str(self.spec.get("image", ""))

    @property
    def exit_code(self) -> int | None:
        """Exit code of the latest process, None when none has ended."""
        ended = self.terminated
        return None if ended is None else ended.exit_code

    @property
    def terminated(self) -> Terminated | None:
        """The latest ending, also while the container waits for its restart."""
        return self.state if isinstance(self.state, Terminated) else self.last


def roles(pod: Json) -> list[tuple[Role, Json]]:
    """List the pod's containers with their roles: init containers first, in order."""
    spec = pod["spec"]
    found: list[tuple[Role, Json]] = []
    for container in spec.get("initContainers") or []:
        always = container.get("restartPolicy") == "Always"
        found.append((Role.SIDECAR if always else Role.INIT, container))
    found.extend((Role.MAIN, container) for container in spec["containers"])
    return found


def new_records(pod: Json) -> list[ContainerRecord]:
    """Make the records of a pod that has not run here before."""
    reason = "PodInitializing" if pod["spec"].get("initContainers") else "ContainerCreating"
    return [
        ContainerRecord(container["name"], role, container, Waiting(reason))
        for role, container in roles(pod)
    ]


def restore_records(pod: Json, now: datetime, message: str) -> list[ContainerRecord]:
    """Make the records of a pod whose processes ended with an earlier run of this node.

    Containers that the API still calls running get the ending 137 with `message`, for nobody
    saw their real one. Successful mains of an OnFailure pod stay ended.
    """
    status = pod.get("status") or {}
    known = {
        item["name"]: item
        for key in ("initContainerStatuses", "containerStatuses")
        for item in status.get(key) or []
    }
    records = new_records(pod)
    for record in records:
        if record.name in known:
            _restore(record, known[record.name], now, message)
        _carry_over(record, pod)
    return records


def reset_for_new_sandbox(pod: Json, records: list[ContainerRecord]) -> None:
    """Make every container start again after the pod's sandbox was lost (nothing runs)."""
    fresh = {record.name: record.state for record in new_records(pod)}
    for record in records:
        record.last = record.terminated
        record.state = fresh[record.name]
        record.stage = Stage.NEW
        record.ready = record.started = record.stopping = False
        _carry_over(record, pod)


def _carry_over(record: ContainerRecord, pod: Json) -> None:
    """Keep successful mains of an OnFailure pod ended, as the kubelet does for a new sandbox."""
    policy = pod["spec"].get("restartPolicy", "Always")
    is_main = policy == "OnFailure" and record.role is Role.MAIN
    if is_main and record.last is not None and record.last.exit_code == 0:
        record.state, record.last = record.last, None
        record.stage, record.carried = Stage.EXITED, True


def _restore(record: ContainerRecord, status: Json, now: datetime, message: str) -> None:
    state: Json = status.get("state") or {}
    record.restart_count = int(status.get("restartCount", 0))
    record.container_id = status.get("containerID", "")
    record.image_id = status.get("imageID", "")
    if "running" in state:
        record.last = Terminated(
            137,
            "Error",
            message,
            parse_time(state["running"].get("startedAt")),
            now,
            container_id=record.container_id,
        )
    elif "terminated" in state:
        record.last = _parse_terminated(state["terminated"])
    else:
        last = (status.get("lastState") or {}).get("terminated")
        record.last = _parse_terminated(last) if last else None
    record.has_run = record.last is not None


def _parse_terminated(raw: dict[str, Any]) -> Terminated:
    return Terminated(
        int(raw.get("exitCode", 0)),
        raw.get("reason", ""),
        raw.get("message", ""),
        parse_time(raw.get("startedAt")),
        parse_time(raw.get("finishedAt")),
        raw.get("signal"),
        raw.get("containerID", ""),
    )


def parse_time(text: str | None) -> datetime | None:
    """Read a Kubernetes time; None stays None."""
    return datetime.fromisoformat(text) if text else None


def format_time(moment: datetime | None) -> str | None:
    """Write a Kubernetes time (whole seconds, UTC)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None
