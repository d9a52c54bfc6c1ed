"""Whether an attempt of a training follows another one, what it costs, and when it begins. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from jobs.rules.endings import DISRUPTIONS
from jobs.rules.reasons import Reason

# As the Job controller waits before it makes a pod again.
# https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy
BACKOFF_S = 10
BACKOFF_MOST_S = 360
STEADY_S = 600  # what ran for so long is no part of a row of failures
FREE_IN_A_ROW = 10  # attempts that may cost nothing before each further one costs a retry


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

    @property
    def is_lost(self) -> bool:
        """The cluster took it away: whatever its code, that was not its program's doing."""
        return self.reason.code in DISRUPTIONS

    def order(self) -> tuple[float, str]:
        """Sorts the first first, and last what has no time."""
        return (self.at.timestamp() if self.at is not None else float("inf"), self.who)


def backoff_s(failures: int) -> int:
    """Seconds from an attempt's end to the next one, after so many unsteady ones in a row, it included."""
    return int(min(BACKOFF_S * 2 ** min(max(0, failures - 1), 30), BACKOFF_MOST_S))
