"""The states of a job and of its replicas, and which follow which."""

from collections.abc import Mapping
from enum import StrEnum


class JobState(StrEnum):
    """What a person sees of a job.

    queued -> starting -> running -> succeeded | failed | stopped, with `stopping` on the way to
    `stopped`; starting -> queued when the cluster did not place all replicas in time; running ->
    starting when the cluster took replicas away.
    """

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


# state -> what may follow; docs/states.md draws it, and the reconciler's tests hold it to it.
FOLLOWERS: Mapping[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.STARTING, JobState.STOPPED, JobState.FAILED}),
    JobState.STARTING: frozenset(
        {
            JobState.QUEUED,
            JobState.RUNNING,
            JobState.STOPPING,
            JobState.SUCCEEDED,
            JobState.FAILED,
        }
    ),
    JobState.RUNNING: frozenset(
        {JobState.STARTING, JobState.STOPPING, JobState.SUCCEEDED, JobState.FAILED}
    ),
    JobState.STOPPING: frozenset({JobState.STOPPED}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.STOPPED: frozenset(),
}
FINAL_STATES = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED})
# States in which a job counts against quota and capacity.
HOLDING_STATES = frozenset({JobState.STARTING, JobState.RUNNING, JobState.STOPPING})


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
    """What people want of a job; the reconciler makes it so."""

    RUN = "run"
    STOP = "stop"
    DELETE = "delete"
