"""The row of a pod, with the status word that kubectl shows.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/printers/internalversion/printers.go
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from onebox.api.resources import Obj
from onebox.api.tables.cells import (
    AGE,
    NAME,
    NONE,
    Cell,
    Column,
    age,
    has_condition,
    name_of,
    since,
    wide,
)

COLUMNS = (
    NAME,
    Column("Ready"),
    Column("Status"),
    Column("Restarts"),
    AGE,
    wide("IP"),
    wide("Node"),
    wide("Nominated Node"),
    wide("Readiness Gates"),
)


@dataclass(slots=True)
class Summary:
    """What the containers of a pod say together.

    Attributes:
        word: the Status column.
        last_restart: when a container last ended before a restart, "" for never.
    """

    word: str
    ready: int = 0
    total: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count(self, status: Obj) -> None:
        """Add the restarts of one container."""
        self.restarts += status.get("restartCount", 0)
        ended = status.get("lastState", {}).get("terminated", {}).get("finishedAt") or ""
        self.last_restart = max(self.last_restart, ended)


def summarize(pod: Obj) -> Summary:
    """Work out status word, readiness and restarts as kubectl's table shows them."""
    spec, status = pod["spec"], pod.get("status", {})
    phase = status.get("phase", "Pending")
    summary = Summary(status.get("reason") or phase)
    if any(
        c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated"
        for c in status.get("conditions", ())
    ):
        summary.word = "SchedulingGated"
    sidecars = {
        c["name"] for c in spec.get("initContainers", ()) if c.get("restartPolicy") == "Always"
    }
    summary.total = len(spec.get("containers", ())) + len(sidecars)
    initializing = _add_inits(summary, pod, sidecars)
    if not initializing or has_condition(pod, "Initialized"):
        _add_containers(summary, pod, sidecars)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            summary.word = "Unknown"
        elif phase not in ("Failed", "Succeeded"):
            summary.word = "Terminating"
    return summary


def _add_inits(summary: Summary, pod: Obj, sidecars: set[str]) -> bool:
    """Go through the init containers; tells whether one of them still has to finish."""
    count = len(pod["spec"].get("initContainers", ()))
    for i, container in enumerate(pod.get("status", {}).get("initContainerStatuses", ())):
        summary.count(container)
        state = container.get("state", {})
        ended = state.get("terminated")
        waits_for = state.get("waiting", {}).get("reason", "")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if container["name"] in sidecars and container.get("started"):
            summary.ready += bool(container.get("ready"))
            continue
        if ended is not None:
            summary.word = f"Init:{_end_word(ended)}"
        elif waits_for and waits_for != "PodInitializing":
            summary.word = f"Init:{waits_for}"
        else:
            summary.word = f"Init:{i}/{count}"
        return True
    return False


def _end_word(ended: Obj) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _add_containers(summary: Summary, pod: Obj, sidecars: set[str]) -> None:
    status = pod.get("status", {})
    # The restarts of ordinary init containers count only while they run.
    summary.restarts, summary.last_restart = 0, ""
    for container in status.get("initContainerStatuses", ()):
        if container["name"] in sidecars:
            summary.count(container)
    runs, error = False, ""
    for container in reversed(status.get("containerStatuses", ())):
        summary.count(container)
        state = container.get("state", {})
        ended = state.get("terminated")
        if state.get("waiting", {}).get("reason"):
            summary.word = state["waiting"]["reason"]
        elif ended is not None:
            summary.word = _end_word(ended)
            error = summary.word if ended.get("exitCode") else error
        elif container.get("ready") and "running" in state:
            runs = True
            summary.ready += 1
    if summary.word == "Completed":
        if runs and has_condition(pod, "Ready"):
            summary.word = "Running"
        elif error:
            summary.word = error
        elif runs:
            summary.word = "NotReady"


def row(pod: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a pod."""
    summary = summarize(pod)
    restarts = str(summary.restarts)
    if summary.restarts and summary.last_restart:
        restarts = f"{restarts} ({since(summary.last_restart, now)} ago)"
    spec, status = pod["spec"], pod.get("status", {})
    addresses = status.get("podIPs") or [{"ip": status.get("podIP", "")}]
    return [
        name_of(pod),
        f"{summary.ready}/{summary.total}",
        summary.word,
        restarts,
        age(pod, now),
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(pod),
    ]


def _gates(pod: Obj) -> str:
    gates = pod["spec"].get("readinessGates", ())
    if not gates:
        return NONE
    met = sum(has_condition(pod, gate.get("conditionType", "")) for gate in gates)
    return f"{met}/{len(gates)}"
