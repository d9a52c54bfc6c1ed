"""What notebooks and TensorBoards are asked for by: one replica, its role named as its kind."""

from collections.abc import Mapping

from jobs.kinds.spec import WorkloadSpec
from jobs.rules.amounts import Amount
from jobs.rules.states import WorkloadState

# The gate beside the program: counted by quota and scheduler too, with its NodePort.
GATE = Amount(cpu=50, memory=128 * 1024**2, nodeports=1)
# In the order of their life; it may go from the last two back to the first.
STATES = (
    WorkloadState.QUEUED,
    WorkloadState.STARTING,
    WorkloadState.RUNNING,
    WorkloadState.STOPPING,
    WorkloadState.STOPPED,
    WorkloadState.FAILED,
)


class NotebookSpec(WorkloadSpec, frozen=True, kw_only=True):
    """A checked request for a notebook."""

    secrets: dict[str, str] = {}  # name -> env | files


class TensorBoardSpec(WorkloadSpec, frozen=True, kw_only=True):
    """A checked request for a TensorBoard."""

    # {"title", "path": "/log/jobs/NAME", "job": id} for each training; empty: all of /log.
    log_dirs: tuple[Mapping[str, str], ...] = ()


def request_field(field: str) -> str:
    """The field of a body for `replicas.ROLE.cpu` of its one role; empty when it is about all of it."""
    last = field.rpartition(".")[2]
    return last if last in {"cpu", "memory", "gpu"} else ""
