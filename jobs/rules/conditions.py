"""The conditions of a training, as objects of Kubernetes have them, from its changes of state. Pure.

Types as tf-operator has them: https://www.kubeflow.org/docs/components/training/user-guides/tensorflow/
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from jobs.rules.states import WorkloadState

_S = WorkloadState
# Type -> the states in which it is true.
TYPES: Mapping[str, frozenset[WorkloadState]] = {
    "Created": frozenset(WorkloadState),
    "Queued": frozenset({_S.QUEUED}),
    "Admitted": frozenset({_S.STARTING, _S.RUNNING, _S.RESTARTING, _S.STOPPING}),
    "Running": frozenset({_S.RUNNING}),
    "Restarting": frozenset({_S.RESTARTING}),
    "Suspended": frozenset({_S.SUSPENDED}),
    "Succeeded": frozenset({_S.SUCCEEDED}),
    "Failed": frozenset({_S.FAILED}),
    "Stopped": frozenset({_S.STOPPED}),
}
ADMITTED = "admitted"  # the event of a training that is given room
CHANGED = "state"  # the event of any other change of state
_CHANGE = re.compile(r"(\w+) -> (\w+)(?:: (.*))?", re.DOTALL)


def change_text(before: WorkloadState, after: WorkloadState, why: str) -> str:
    """What an event says of a change of state."""
    text = f"{before.value} -> {after.value}"
    return f"{text}: {why}" if why else text


@dataclass(frozen=True)
class JobCondition:
    """Whether something is so, since when, and by which change.

    Attributes:
        reason: the state that it changed to.
        message: why, in words; may be empty.
    """

    type: str
    is_true: bool
    reason: str
    message: str
    at: datetime


def find(created_at: datetime, events: Iterable[tuple[str, str, datetime]]) -> list[JobCondition]:
    """Of each type that was ever true the latest change.

    Args:
        events: (reason, message, time) of those that are `ADMITTED` or `CHANGED`, the oldest first.
    """
    found: dict[str, JobCondition] = {}

    def enter(state: WorkloadState, message: str, at: datetime) -> None:
        for name, states in TYPES.items():
            known = found.get(name)
            if (state in states) != (known is not None and known.is_true):
                found[name] = JobCondition(name, state in states, state.value, message, at)

    enter(_S.QUEUED, "", created_at)
    for reason, text, at in events:
        change = _CHANGE.fullmatch(text)
        if reason == ADMITTED:
            enter(_S.STARTING, "", at)
        elif change is not None and change[2] in set(_S):
            enter(WorkloadState(change[2]), change[3] or "", at)
    return [found[name] for name in TYPES if name in found]
