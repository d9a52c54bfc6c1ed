"""Tests of what kinds of workloads do, on plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from jobs.kinds.plan import Plan, Step
from jobs.kinds.registry import KINDS
from jobs.kinds.state import Observed, WorkloadRow
from jobs.rules.states import WorkloadState

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def plan(row: WorkloadRow, observed: Observed, now: datetime = NOW) -> Plan:
    """What follows for one workload."""
    return KINDS[row.kind].lifecycle(row, observed, now).plan()


def after(made: Plan, row: WorkloadRow, observed: Observed) -> tuple[WorkloadRow, Observed]:
    """Row and replicas once the plan is committed; what the last steps found out is told once."""
    known = {**observed.replicas, **{one.key: one for one in made.replicas}}
    known = {key: one for key, one in known.items() if key not in made.forgotten}
    heard = replace(observed, replicas=known, made_root="", is_swept=False)
    return replace(row, **made.columns), heard


@dataclass(frozen=True)
class Case:
    """One row of a table: what is, and what follows.

    Attributes:
        steps: None: not looked at.
        state: None: as it was.
        code: of the reason; None: not looked at.
        more: of notes, row and plan, what is not as usual.
    """

    about: str
    row: WorkloadRow
    seen: Observed
    steps: Sequence[Step] | None = ()
    state: WorkloadState | None = None
    code: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
