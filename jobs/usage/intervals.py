"""From a pod as the cluster shows it to the time for which it counts. Pure.

A pod counts from when its program first ran until the pod ended, restarts in between included: its
GPUs are nobody else's meanwhile. Fetching code and pulling images come before and count nothing, so
a pod that never ran has no time at all. Times are those of the node, kept within what is possible:
not before the pod was made, not after now, not the wrong way round.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from jobs.kinds.training.manifests import RESCUE_ROLE
from portal.cluster import resources
from portal.cluster.objects import ContainerState, ContainerStateTerminated, KubePod
from portal.cluster.resources import Resources

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True)
class PodInterval:
    """For how long one pod held what it held.

    Attributes:
        owner: id of the workload, as its label says.
        ended_at: None while it goes on.
    """

    pod_uid: str
    owner: str
    node: str
    held: Resources
    started_at: datetime
    ended_at: datetime | None = None


def interval_of(
    pod: KubePod, now: datetime, *, gone_at: datetime | None = None
) -> PodInterval | None:
    """The interval of a pod; None while it has not run, and for pods that are not of the user.

    Args:
        now: aware UTC.
        gone_at: of a pod that is no longer there: until when it may have run, where its own status
            does not tell.
    """
    owner = pod.metadata.owner
    started_at = _started(pod)
    if not owner or started_at is None or pod.metadata.labels.role == RESCUE_ROLE:
        return None
    made_at = pod.metadata.creation_timestamp or started_at
    started_at = min(max(started_at, made_at), now)
    ended_at = _ended(pod, gone_at, now)
    if ended_at is not None:
        ended_at = min(max(ended_at, started_at), now)
    return PodInterval(
        pod_uid=pod.metadata.uid,
        owner=owner,
        node=pod.spec.node_name,
        held=resources.of_pod(pod.spec),
        started_at=started_at,
        ended_at=ended_at,
    )


def has_ended(pod: KubePod) -> bool:
    """Whether its own status says that it is over."""
    return pod.status.phase in _ENDED


def _started(pod: KubePod) -> datetime | None:
    """When the first of its programs began, as far back as the status tells."""
    times = [
        at
        for status in pod.status.container_statuses
        for state in (status.state, status.last_state)
        for at in _begins(state)
        # A program that could not be started at all has the year 1970 here:
        # https://github.com/kubernetes/kubernetes/issues/104107
        if at.timestamp() > 0
    ]
    return min(times, default=None)


def _begins(state: ContainerState) -> Iterator[datetime]:
    for part in (state.running, state.terminated):
        if part is not None and part.started_at is not None:
            yield part.started_at


def _ended(pod: KubePod, gone_at: datetime | None, now: datetime) -> datetime | None:
    """When the last of its programs ended, or the best that can be said; None: it goes on."""
    statuses = pod.status.container_statuses
    ends = [status.state.terminated for status in statuses]
    if has_ended(pod):
        return _last(ends) or now
    if gone_at is None:
        return None
    if all(end is not None for end in ends):
        return _last(ends) or gone_at
    # It was removed while it ran: at the end of its grace at the latest.
    deleted_at = pod.metadata.deletion_timestamp
    return gone_at if deleted_at is None else min(gone_at, deleted_at)


def _last(ends: list[ContainerStateTerminated | None]) -> datetime | None:
    times = [end.finished_at for end in ends if end is not None and end.finished_at is not None]
    return max(times, default=None)
