"""What a kind of workload is to everything that works on all kinds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from jobs.kinds.lifecycle import Lifecycle
from jobs.kinds.observe import CallResults, ReadPod
from jobs.kinds.state import LoadedRow, Observed, PodFacts, Rescue, WorkloadRow
from portal.cluster.cache import ClusterCache
from portal.cluster.manifests import Object

Observe = Callable[
    [ClusterCache, LoadedRow, CallResults, Sequence[PodFacts], Sequence[PodFacts]], Observed
]
Render = Callable[[UUID, int | None, int | None], list[Object]]
Complete = Callable[[WorkloadRow, Object, Object | None], Object]
RenderRescue = Callable[[WorkloadRow, Rescue], Object]


@dataclass(frozen=True)
class WorkloadKind:
    """A kind of workloads.

    Attributes:
        key: as stored, and as REST and browsers know it.
        lifecycle: what follows from a look.
        read_pod: a pod by the names of its containers.
        observe: what the view shows, with the pods that are there and those that were deleted.
        render: the manifests of a workload's attempt (the row's own when None), with so many seconds left
            of its deadline. Blocking. Raises ConfigurationError and ValueError when it cannot.
        complete: a stored document as it is sent, with its owner (None: it has none) and with what
            is not stored.
        render_rescue: the pod that saves the log of a lost replica; None: nothing of it is archived.
            Blocking.
    """

    key: str
    lifecycle: type[Lifecycle]
    read_pod: ReadPod
    observe: Observe
    render: Render
    complete: Complete
    render_rescue: RenderRescue | None = None
