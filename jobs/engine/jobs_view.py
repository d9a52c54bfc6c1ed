"""The view of the cluster, with the last word of pods that are gone.

A pod that is stopped ends and is removed within milliseconds, between two ticks: its exit code is
then only in the state that the view held when the removal arrived.
"""

from collections import deque

from portal.cluster.client import Cluster
from portal.cluster.objects import KubePod
from portal.cluster.view import ClusterView
from portal.cluster.watch import NORMAL_PACE, Change, Pace

_KEPT = 10_000  # a burst beyond it loses exit codes, nothing else


class JobsView(ClusterView):
    """A `ClusterView` that remembers pods of ours when they go."""

    def __init__(self, cluster: Cluster, pace: Pace = NORMAL_PACE) -> None:
        """As `ClusterView`."""
        self._departed: deque[KubePod] = deque(maxlen=_KEPT)
        super().__init__(cluster, pace)

    def _note_pod(self, change: Change[KubePod]) -> None:
        if change.new is None and change.old is not None and change.old.metadata.owner:
            self._departed.append(change.old)
        super()._note_pod(change)

    def take_departed(self) -> list[KubePod]:
        """Pods that went since the last call, in their last state."""
        taken = list(self._departed)
        self._departed.clear()
        return taken
