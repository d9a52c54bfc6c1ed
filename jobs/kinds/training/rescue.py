"""What of a training's archive is missing, and how far the rescue of one replica's log is. Pure.

The runner in each pod uploads its log and artifacts and then marks it done. What dies without that
mark (out of memory as a whole, evicted, killed) has left everything on the log volume: a rescue pod
uploads it from there.
"""

from collections.abc import Collection

from jobs.kinds.state import PodFacts, ReplicaKey
from jobs.kinds.training.replicas import Situation
from jobs.rules import archives

MARK_S = 20  # the mark may take so long to arrive after the last pod has ended
TRIES = 3
ALL_TRIES_S = 3600  # bounds them all, also those that quota or scheduler hold up
STUCK_S = 1800 + 300  # a rescue pod's own deadline, and time to be placed


def with_archive(now: Situation) -> list[ReplicaKey]:
    """Replicas of all attempts that have something to archive."""
    ran = {row.key for row in now.replicas.values() if row.started_at is not None}
    begun = {key for key, row in now.observed.archives.items() if not row.is_complete}
    return sorted(ran | begun)


def incomplete(now: Situation, keys: Collection[ReplicaKey]) -> list[ReplicaKey]:
    """Those of which the end is neither archived nor given up."""
    return [key for key in keys if not _is_archived(now, key)]


def _is_archived(now: Situation, key: ReplicaKey) -> bool:
    if key.text in now.row.notes.rescued or key.text in now.row.notes.lost:
        return True
    row = now.observed.archives.get(key)
    # A mark of an earlier pod of the same replica, or of an earlier container, says nothing about the last one.
    return row is not None and archives.is_whole(row, archives.run_of(now.replicas.get(key)))


def pod_uid(now: Situation, key: ReplicaKey) -> str:
    """Of the replica's last pod; empty when there was none."""
    row = now.replicas.get(key)
    return row.pod_uid if row is not None else ""


def try_of(now: Situation, key: ReplicaKey) -> int:
    """Number of the try that is on its way."""
    return now.row.notes.rescues.get(key.text, 1)


def pod_of_try(now: Situation, key: ReplicaKey) -> PodFacts | None:
    """The rescue pod of that try."""
    pods = (pod for pod in now.observed.rescues if pod.key == key)
    return next((pod for pod in pods if pod.number == try_of(now, key)), None)
