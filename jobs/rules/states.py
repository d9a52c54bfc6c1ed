"""The states of a workload and of its replicas, and which follow which."""

from collections.abc import Mapping
from enum import StrEnum


class WorkloadState(StrEnum):
    """What a person sees of a workload.

    queued -> starting -> running -> succeeded | failed | stopped, with `stopping` on the way to
    `stopped`; starting -> queued when the cluster did not place all replicas in time; running ->
    starting when the cluster replaces replicas that it took away; restarting between two attempts of a
    training, which keeps its room meanwhile. A person may suspend a training: by way of `stopping`,
    or out of the queue, and back to the queue.
    """

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


WORKLOAD_STATES = tuple(WorkloadState)  # the OpenAPI document knows them by it
FINAL_STATES = frozenset({WorkloadState.SUCCEEDED, WorkloadState.FAILED, WorkloadState.STOPPED})
_S = WorkloadState
# state -> what may follow; the reconciler's tests hold it to it.
FOLLOWERS: Mapping[WorkloadState, frozenset[WorkloadState]] = {
    _S.QUEUED: frozenset({_S.STARTING, _S.SUSPENDED, _S.STOPPED, _S.FAILED}),
    _S.STARTING: frozenset(
        {_S.QUEUED, _S.RUNNING, _S.RESTARTING, _S.STOPPING, _S.SUCCEEDED, _S.FAILED}
    ),
    _S.RUNNING: frozenset({_S.STARTING, _S.RESTARTING, _S.STOPPING, _S.SUCCEEDED, _S.FAILED}),
    _S.RESTARTING: frozenset({_S.STARTING, _S.STOPPING, _S.FAILED}),
    _S.STOPPING: frozenset({_S.SUSPENDED, _S.STOPPED}),
    _S.SUSPENDED: frozenset({_S.QUEUED, _S.STOPPED}),
    **dict.fromkeys(FINAL_STATES, frozenset[WorkloadState]()),
}
# States in which a workload counts against quota and capacity.
HOLDING_STATES = frozenset({_S.STARTING, _S.RUNNING, _S.RESTARTING, _S.STOPPING})
# States in which nothing of it is in the cluster, though it has not ended.
IDLE_STATES = frozenset({_S.QUEUED, _S.SUSPENDED})


class ReplicaState(StrEnum):
    """What a person sees of one replica."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


FINAL_REPLICA_STATES = frozenset(
    {ReplicaState.SUCCEEDED, ReplicaState.FAILED, ReplicaState.STOPPED}
)


class Desired(StrEnum):
    """What people want of a workload; the reconciler makes it so."""

    RUN = "run"
    SUSPEND = "suspend"
    STOP = "stop"
    DELETE = "delete"
