"""Tests of what kinds of workloads do, on plain data."""

from datetime import datetime

from jobs.kinds.registry import KINDS
from jobs.kinds.state import Observed, Plan, WorkloadRow


def plan(row: WorkloadRow, observed: Observed, now: datetime) -> Plan:
    """What follows for one workload."""
    return KINDS[row.kind].lifecycle(row, observed, now).plan()
