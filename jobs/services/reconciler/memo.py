"""The reconciler's own notes about a service, kept in `Service.memo` as JSON.

They hold what neither the request nor the cluster can tell after a restart. Fields may be added,
see `jobs.reconciler.notes`.
"""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Memo:
    """Times are ours (aware UTC), never the cluster's. All but `said` is about one start.

    Attributes:
        said: number of own events so far; makes their keys.
        children_of: uid of the root whose children have all been created.
        committed_at: when the root was scaled to one.
        starting_since: since when it is `starting` this time.
        missing_since: since when the root, or the Service, is not in the view although it was made.
        leaving: "queue", "stop", "fail" or "again" while everything is being taken down, else empty.
        leaving_at: since when.
        leaving_why: (code, text, next step) to show when it is down.
        swept: whether what no watch shows has been looked for and removed.
        withdrawals: how often it was admitted and then not placed.
        pod_uid: the pod that was last seen.
        pod_restarts: restarts of the app within that pod that have been counted.
        crashes: times of the app's unwanted ends within the last ten minutes.
        was_ready: it answered once.
        again: (code, text, next step) why it is `starting` once more; empty at the first time.
        problem_since: since when the image, the set-up or the gate fails.
        running_since: since when the app runs without having answered.
        silent_since: since when it does not answer although it did.
    """

    said: int = 0
    children_of: str = ""
    committed_at: datetime | None = None
    starting_since: datetime | None = None
    missing_since: datetime | None = None
    leaving: str = ""
    leaving_at: datetime | None = None
    leaving_why: tuple[str, ...] = ()
    swept: bool = False
    withdrawals: int = 0
    pod_uid: str = ""
    pod_restarts: int = 0
    crashes: tuple[str, ...] = ()
    was_ready: bool = False
    again: tuple[str, ...] = ()
    problem_since: datetime | None = None
    running_since: datetime | None = None
    silent_since: datetime | None = None

    def for_new_start(self) -> "Memo":
        """What stays true when another start begins."""
        return Memo(said=self.said)
