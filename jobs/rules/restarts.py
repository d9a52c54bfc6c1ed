"""Whether an attempt of a training follows another one, what it costs, and when it begins. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from jobs.pod.protocol.codes import SIGNAL_BASE
from jobs.rules.endings import DISRUPTIONS
from jobs.rules.reasons import Reason

# As the Job controller waits before it makes a pod again.
# https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-backoff-failure-policy
BACKOFF_S = 10
BACKOFF_MOST_S = 360
STEADY_S = 600  # what ran for so long is no part of a row of failures
FREE_IN_A_ROW = 10  # attempts that may cost nothing before each further one costs a retry
NEAR_S = 2  # what ends so soon after the first may be what ended the first


class RestartPolicy(StrEnum):
    """Which failures another attempt follows, as long as there are retries."""

    NEVER = "never"
    ON_FAILURE = "on_failure"
    EXIT_CODE = "exit_code"


# Under `exit_code`: reason of a failure -> whether it is retried, whatever the exit code. What stands
# here is known not to depend on the program, or to end every attempt; in all else the number decides.
RETRIED: Mapping[str, bool] = {
    **dict.fromkeys(DISRUPTIONS, True),
    # The network, or the portal, did not answer.
    "source_unreachable": True,
    "fetch_failed": True,
    "peer_unresolved": True,
    "peers_lost": True,
    # Another node may have GPUs, and another driver.
    "cuda_driver": True,
    "volume_lost": True,
    "no_gpu_seen": True,
    # The node, or somebody in the cluster.
    "evicted": True,
    "evicted_memory": True,
    "evicted_pids": True,
    "node_full": True,
    "node_shutdown": True,
    "disrupted": True,
    "pod_deleted": True,
    "lost_outcome": True,
    "job_failed": True,
    # The same again would end in the same way.
    "evicted_disk": False,
    "sha256_mismatch": False,
    "bundle_unsafe": False,
    "bundle_broken": False,
    "bundle_too_large": False,
    "git_denied": False,
    "git_host_key": False,
    "git_ref": False,
    "git_gone": False,
    "git_path": False,
    "no_git": False,
    "volume_not_writable": False,
    "volume_full": False,
    "no_user": False,
    "no_tensorflow": False,
    "command_not_found": False,
    "command_not_executable": False,
    "start_error": False,
}


def is_retried(policy: RestartPolicy, reason_code: str, exit_code: int | None) -> bool:
    """Whether another attempt may follow a failure.

    Under `exit_code` 1-127 are permanent, 128 and more are retried, as by tf-operator:
    https://www.kubeflow.org/docs/components/training/user-guides/tensorflow/#exit-code

    Args:
        exit_code: None when it is not known, which no program can help.
    """
    if policy is not RestartPolicy.EXIT_CODE:
        return policy is RestartPolicy.ON_FAILURE
    known = RETRIED.get(reason_code)
    return known if known is not None else exit_code is None or exit_code >= SIGNAL_BASE


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


def decisive(policy: RestartPolicy, ends: Iterable[ReplicaEnd]) -> ReplicaEnd | None:
    """The end that decides over an attempt; None: nothing explains it yet.

    That is one that the cluster took away, which ends its peers too, often before it has ended itself;
    else the first. Under `exit_code` one that is retried wins over one that failed just before.

    Args:
        ends: without those that ended because they were asked to.
    """
    found = sorted(ends, key=ReplicaEnd.order)
    if not found:
        return None
    first = found[0]
    near = [
        end
        for end in found
        if end.at is not None
        and first.at is not None
        and (end.at - first.at).total_seconds() <= NEAR_S
        and is_retried(policy, end.reason.code, end.exit_code)
    ]
    lost = (end for end in found if end.is_lost)
    return next(lost, near[0] if near and policy is RestartPolicy.EXIT_CODE else first)
