"""What of a finished array is to be run again: as a new training, which asks for these indexes only."""

from typing import Any

from jobs.kinds.spec import spec_of
from jobs.kinds.training.serializer import TrainingSerializer
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Workload
from jobs.rules.queue.state import HIGH, NORMAL
from jobs.rules.requests import indexes_text
from jobs.rules.states import ReplicaState
from jobs.rules.topologies import get_topology
from portal.errors import Refused


def unfinished_indexes(workload: Workload) -> str:
    """As the field `indexes` has them: failed, stopped, or never begun; empty: none, or no such array."""
    spec = spec_of(workload, TrainingSpec)
    if not (workload.is_final and get_topology(spec.topology).is_array):
        return ""
    rows = workload.replica_rows.filter(state=ReplicaState.SUCCEEDED)
    done = set(rows.values_list("index", flat=True))
    return indexes_text(index for index in spec.indexes_of("worker") if index not in done)


def body_of_unfinished(workload: Workload) -> dict[str, Any]:
    """The body that asks for them.

    Raises:
        Refused: 409, it is no array, has not ended, or all of it has succeeded.
    """
    indexes = unfinished_indexes(workload)
    if not indexes:
        text = "Only an array that has ended has indexes to run again, and only those that failed."
        raise Refused(text, "wrong_state", 409)
    spec = spec_of(workload, TrainingSpec)
    # High was given to that one; whoever may give it may do so again.
    priority = NORMAL if spec.priority == HIGH else spec.priority
    return {**TrainingSerializer(spec).data, "indexes": indexes, "priority": priority}
