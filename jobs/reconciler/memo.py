"""The reconciler's own notes about a job, kept in `Job.memo` as JSON.

They hold what neither the request nor the cluster can tell after a restart. Fields may be added,
see `jobs.reconciler.notes`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class Memo:
    """Times are ours (aware UTC), never the cluster's.

    Attributes:
        said: number of own events so far; makes their keys.
        children_of: uid of the root whose children have all been created.
        committed_at: when this attempt's root was set going.
        starting_since: since when the job is `starting` this time.
        spent_s: seconds that earlier attempts ran, held against the deadline.
        retries_used: attempts begun because a replica failed.
        again: (code, text, next step) why it is `starting` once more; empty at the first start.
        leaving: "queue", "retry" or "stop" while everything is being taken down, else empty.
        leaving_at: since when.
        leaving_why: (code, text, next step) to show when it is down.
        stopping_at: since when it stops with grace.
        worker0_ended_at: when worker 0 was seen to have succeeded.
        verdict_at: when the cluster's verdict was first seen without the replica that caused it.
        missing_since: since when the root is not in the view although it was made.
        restarts: server replica ("ps-0") -> times of its restarts within the last ten minutes.
        pods_ended_at: when the last replica was seen to have ended.
        rescues: replica key -> number of the try that is on its way (1 is the first).
        rescue_at: when the first rescue was due; bounds them all.
        rescued: replica keys whose rescue pod has done its work.
        lost: replica keys whose log stays on the log volume only.
        archive: "" while it is going on, "complete" or "partial" when it is over.
        swept: whether what no watch shows has been looked for and removed.
        erased: whether the job's part of the object store is gone.
    """

    said: int = 0
    children_of: str = ""
    committed_at: datetime | None = None
    starting_since: datetime | None = None
    spent_s: int = 0
    retries_used: int = 0
    again: tuple[str, ...] = ()
    leaving: str = ""
    leaving_at: datetime | None = None
    leaving_why: tuple[str, ...] = ()
    stopping_at: datetime | None = None
    worker0_ended_at: datetime | None = None
    verdict_at: datetime | None = None
    missing_since: datetime | None = None
    restarts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pods_ended_at: datetime | None = None
    rescues: Mapping[str, int] = field(default_factory=dict)
    rescue_at: datetime | None = None
    rescued: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    archive: str = ""
    swept: bool = False
    erased: bool = False

    def for_new_attempt(self) -> "Memo":
        """What stays true when everything of an attempt is down and the next one may begin."""
        return Memo(said=self.said, spent_s=self.spent_s, retries_used=self.retries_used)
