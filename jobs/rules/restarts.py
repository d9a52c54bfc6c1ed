"""Why an attempt of a training begins, and which replica's end decided over the one before. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from jobs.rules.reasons import Reason


class Cause(StrEnum):
    """Why an attempt began; stored, and part of the public surface (docs/api.md)."""

    FIRST = "first"
    RETRY = "retry"  # the one before failed
    PREEMPTED = "preempted"  # the one before gave its room to somebody else
    WITHDRAWN = "withdrawn"  # the one before was not placed in time
    RESUMED = "resumed"  # a person suspended the one before
    DISRUPTED = "disrupted"  # the cluster took replicas of the one before away
    ADDRESS = "address"  # a replica of the one before came back at another address


@dataclass(frozen=True)
class ReplicaEnd:
    """How one replica failed.

    Attributes:
        who: such as `worker-0`.
        exit_code: None when it is not known.
        at: when, by the cluster's clock; None: not known.
    """

    who: str
    reason: Reason
    exit_code: int | None = None
    at: datetime | None = None

    def order(self) -> tuple[float, str]:
        """Sorts the first first, and last what has no time."""
        return (self.at.timestamp() if self.at is not None else float("inf"), self.who)
