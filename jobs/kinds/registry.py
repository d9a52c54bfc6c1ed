"""All kinds of workloads, by their keys."""

from collections.abc import Mapping
from datetime import datetime

from jobs.kinds.base import WorkloadKind
from jobs.kinds.notebook import NOTEBOOK
from jobs.kinds.state import Observed, Plan, WorkloadRow
from jobs.kinds.tensorboard import TENSORBOARD
from jobs.kinds.training.kind import TRAINING

KINDS: Mapping[str, WorkloadKind] = {kind.key: kind for kind in (TRAINING, NOTEBOOK, TENSORBOARD)}


def plan(row: WorkloadRow, observed: Observed, now: datetime) -> Plan:
    """What follows for one workload.

    Args:
        row: its row, as committed.
        observed: what the cluster shows of it.
        now: our clock; never compared with times of the cluster.
    """
    return KINDS[row.kind].lifecycle(row, observed, now).plan()
