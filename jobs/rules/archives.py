"""Whether the archive of a replica's log has all that it will ever have. Pure.

A replica can have several pods in one attempt, and a pod's container may start again in it: each of them reports
the end of what it printed. That the last of them has done so is what makes an archive whole.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Run:
    """One container of a replica.

    Attributes:
        pod_uid: of its pod; empty: not known.
        restarts: how often the container had started again in that pod.
    """

    pod_uid: str = ""
    restarts: int = 0


class Reported(Protocol):
    """What an archive knows of the container that reported last, as far as the cluster had reported by then."""

    @property
    def is_complete(self) -> bool: ...
    @property
    def pod_uid(self) -> str: ...
    @property
    def restarts(self) -> int: ...


class KnownArchive(Reported, Protocol):
    """What it knows of the container that runs, too; 0: nothing, or it began with the log."""

    @property
    def run_start_byte(self) -> int: ...


class SeenReplica(Protocol):
    """A replica as last seen; `restarts` and `incarnation` count over all its pods of the attempt."""

    @property
    def pod_uid(self) -> str: ...
    @property
    def restarts(self) -> int: ...
    @property
    def incarnation(self) -> int: ...


def run_of(replica: SeenReplica | None) -> Run:
    """The container that was seen last."""
    if replica is None:
        return Run()
    return Run(replica.pod_uid, max(0, replica.restarts - replica.incarnation + 1))


def is_whole(archive: Reported, last: Run) -> bool:
    """Whether the container that was seen last, or a later one, has reported its end."""
    if not archive.is_complete:
        return False
    if not archive.pod_uid or not last.pod_uid:
        return True
    return archive.pod_uid == last.pod_uid and archive.restarts >= last.restarts


def knows_start(archive: KnownArchive | None, replica: SeenReplica) -> bool:
    """Whether it is known which part of the archive is of the container that was seen last.

    Runners of earlier versions do not tell where in the log it begins; the report of a container tells it of the next.
    """
    if not replica.restarts:
        return True
    return archive is not None and (archive.is_complete or archive.run_start_byte > 0)
