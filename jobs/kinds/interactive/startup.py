"""The start-up of what is served behind a gate: its steps and its words, from what the pod shows. Pure.

Times are the cluster's where it tells them, brought into order, because the clocks of nodes differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from jobs.kinds.state import PodFacts, Root, StartupStep, WorkloadRow
from jobs.pod.protocol import codes
from jobs.rules import endings, patterns, reasons, waits
from jobs.rules.endings import ContainerExit
from jobs.rules.reasons import Reason, clip

KEYS = ("requested", "admitted", "scheduled", "volumes", "image", "started", "ready")
DETAIL_MAX = 300  # characters: it is one line
# The last one is a runtime's own, for a container that it could not start.
_NO_PYTHON = frozenset({codes.EXIT_NOT_EXECUTABLE, codes.EXIT_NOT_FOUND, codes.SIGNAL_BASE})
_START_ERRORS = frozenset({"StartError", "ContainerCannotRun", "CreateContainerError"})
# Families of reasons that only a repair cures, not room.
PROBLEMS = frozenset(
    {
        "image_pull",
        "image_name",
        "container_config",
        "volume",
        codes.VOLUME_FULL,
        codes.VOLUME_NOT_WRITABLE,
        "prepare_failed",
        "gate_failed",
    }
)

Done = Sequence[tuple[datetime | None, str]]


@dataclass(frozen=True)
class ServedApp:
    """What is served, as sentences name it: "the notebook", and its program, "JupyterLab"."""

    who: str
    program: str


# --- as they are kept ---
def load(raw: Sequence[Mapping[str, Any]]) -> tuple[StartupStep, ...]:
    """The steps of a row; empty for one that nobody has looked at yet.

    Raises:
        msgspec.ValidationError: the row was changed by hand.
    """
    return msgspec.convert(raw, tuple[StartupStep, ...])


def dump(steps: Sequence[StartupStep]) -> list[dict[str, Any]]:
    """As a row keeps them."""
    return [
        {
            "key": step.key,
            "state": step.state,
            "at": step.at.isoformat(timespec="milliseconds") if step.at is not None else None,
            "detail": step.detail,
        }
        for step in steps
    ]


# --- the line of steps ---
def line(
    done: Done,
    before: Sequence[StartupStep],
    now: datetime,
    *,
    detail: str = "",
    failed: bool = False,
) -> tuple[StartupStep, ...]:
    """The whole list: the first steps done, the next one going on (or failed), the others waiting.

    Args:
        done: when each step that is done was done, and a word about it; None: not known.
        before: the list so far, from which the times of what is done are kept.
        now: for what has no time at all.
        detail: of the step that goes on.
        failed: whether that step is where it ended.
    """
    kept = {step.key: step.at for step in before if step.state == "done"}
    steps: list[StartupStep] = []
    latest: datetime | None = None
    for key, (at, word) in zip(KEYS, done, strict=False):
        told = kept.get(key) or at or now
        latest = told if latest is None else max(latest, told)
        # The cluster's clock may be ahead of ours.
        latest = min(latest, now)
        steps.append(StartupStep(key, "done", latest, clip(word, DETAIL_MAX)))
    rest = KEYS[len(steps) :]
    if rest:
        state = "failed" if failed else "now"
        at = now if failed else None
        steps.append(StartupStep(rest[0], state, at, clip(detail, DETAIL_MAX)))
        steps += [StartupStep(key) for key in rest[1:]]
    return _with_kept_times(steps, before)


def _with_kept_times(
    steps: Sequence[StartupStep], before: Sequence[StartupStep]
) -> tuple[StartupStep, ...]:
    """Without changes that are none: a step that failed failed when it was first seen to."""
    known = {(step.key, step.state, step.detail): step.at for step in before}
    return tuple(
        replace(step, at=known.get((step.key, step.state, step.detail)) or step.at)
        if step.state == "failed"
        else step
        for step in steps
    )


def read(
    app: ServedApp, row: WorkloadRow, root: Root | None, pod: PodFacts | None, problem: str = ""
) -> tuple[Done, str]:
    """The steps that are done by what the pod shows, and a word about the one that goes on."""
    done: list[tuple[datetime | None, str]] = [(row.queued_at, ""), (row.admitted_at, "")]
    if pod is None or pod.is_terminating or pod.has_ended:
        return done, problem or reason_of_wait(app, row, root, None).text
    detail = problem or _problem_words(app, row, root, pod)
    if pod.node:
        done.append((pod.scheduled_at, f"on {pod.node}"))
    has_volumes = bool(pod.node) and pod.prepared_from is not None and pod.prepare_end is None
    if has_volumes:
        done.append((pod.prepared_from, ""))
    is_image_there = pod.pulled_at is not None or pod.is_running or pod.restarts > 0
    if has_volumes and is_image_there:
        # "Pulling image" is no word for what is done; not every node says more.
        done.append((pod.pulled_at, pod.pull if pod.pulled_at else ""))
        if pod.is_running:
            done.append((pod.started_at, ""))
            if pod.is_ready:
                done.append((pod.ready_at, ""))
    elif has_volumes and not detail:
        detail = pod.pull
    return done, detail


def _problem_words(app: ServedApp, row: WorkloadRow, root: Root | None, pod: PodFacts) -> str:
    """The cause in one line when something hangs; empty while all goes its way."""
    reason = reason_of_wait(app, row, root, pod)
    if patterns.family_of(reason.code) in PROBLEMS | {"placing"}:
        return reason.text
    if pod.is_running and pod.probe_problem:
        return probe_words(pod)
    return ""


# --- words ---
def reason_of_wait(
    app: ServedApp, row: WorkloadRow, root: Root | None, pod: PodFacts | None
) -> Reason:
    """Why the program does not answer yet, as specific as can be told."""
    if pod is None or pod.is_terminating or pod.has_ended:
        if root is not None and root.refused:
            code = patterns.find_code("quota_refused", root.refused)
            return reasons.make(code, who=app.who, detail=root.refused)
        return reasons.make("creating")
    if pod.is_running:
        return reasons.make("app_starting", program=app.program)
    if pod.prepare_end is not None:
        return _prepare_failure(app.who, pod.prepare_end)
    if pod.gate_end is not None:
        detail = clip(pod.gate_end.message[-500:]) or "no message"
        return reasons.make("gate_failed", detail=detail)
    return waits.reason_of_wait(
        waits.WaitingPod(
            app.who,
            row.image if pod.waiting_in == "app" else "of Homeport's own helpers",
            node=pod.node,
            unplaced_why=pod.unplaced_why,
            waiting_reason=pod.waiting_reason,
            waiting_message=pod.waiting_message,
            mount_problem=pod.mount_problem if pod.prepared_from is None else "",
        )
    )


def lost_its_volume(waiting: Reason, pod: PodFacts | None) -> bool:
    """Whether it waits for a volume that its pod had: it comes back with the servers, however long they take."""
    return waiting.code == "volume_server" and pod is not None and pod.prepared_from is not None


def _prepare_failure(who: str, end: ContainerExit) -> Reason:
    told = end.termination
    if told.reason in {codes.VOLUME_FULL, codes.VOLUME_NOT_WRITABLE}:
        return reasons.make(told.reason, who=who, detail=told.text)
    detail = told.text or end.message or f"exit code {end.exit_code}"
    return reasons.make("prepare_failed", detail=detail)


def probe_words(pod: PodFacts) -> str:
    """Why the gate says that the program does not answer."""
    return (
        pod.probe_problem.partition("probe failed: ")[2] or pod.probe_problem or "no response yet"
    )


_NOT_SHOWN = "not shown, as it may hold a secret; start it without its secrets to see it here"


def reason_of_end(app: ServedApp, row: WorkloadRow, end: ContainerExit) -> Reason:
    """Why the program ended, with its last words, unless these may have a secret: more people read the reason."""
    words = clip(end.message[-500:])
    is_unstarted = end.cluster_reason in _START_ERRORS
    if words and row.has_secrets and not is_unstarted and end.exit_code != codes.EXIT_NO_PROGRAM:
        words = _NOT_SHOWN
    if is_unstarted and patterns.find_code("container_config", end.message) == "volume_server":
        return reasons.make(codes.VOLUME_LOST, who=app.program, detail=words)
    has_no_python = is_unstarted and end.exit_code in _NO_PYTHON
    if has_no_python or end.exit_code in {codes.EXIT_NO_PROGRAM, codes.EXIT_NOT_FOUND}:
        detail = words or "no Python in the image"
        facts = {"image": row.image, "program": app.program, "detail": detail}
        return reasons.make("app_missing", **facts)
    told = end.termination
    if told.reason == codes.VOLUME_LOST:  # asked to end for that, it may end well
        return reasons.make(told.reason, who=app.program, detail=told.text)
    if end.exit_code == 0:
        return reasons.make("app_ended", program=app.program, detail=words or "no message")
    found = endings.reason_of_end(app.program, end, row.memory[row.kind])
    if words and found.code in {"exit_code", "signal"}:
        # It has no log to be read: these are its last lines.
        return replace(found, text=f"{found.text} Last output: {words}", next_step="")
    return found


def reason_of_replacement(app: ServedApp, gone: PodFacts | None) -> Reason:
    """Why another pod than the one before is there: the cluster, or somebody, took it away."""
    if gone is not None and gone.disruption is not None:
        return endings.reason_of_disruption(app.who, gone.disruption)
    if gone is not None and gone.phase == "Failed" and gone.pod_message:
        detail = clip(gone.pod_message)
        return reasons.make("evicted_retrying", who=app.who, detail=detail)
    return reasons.make("replaced", who=app.who)
