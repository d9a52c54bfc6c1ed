"""Reads how a replica ended: exit codes, signals, the runner's own words, what the cluster says.

Sources: https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/ and
https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
"""

import signal
from dataclasses import dataclass

from jobs.pod.protocol import codes, termination
from jobs.pod.protocol.termination import TerminationMessage
from jobs.rules import patterns, reasons
from jobs.rules.reasons import Reason

_SIGNAL_HINTS = {
    signal.SIGKILL: "Most often memory ran out: request more, or use a smaller batch.",
    signal.SIGSEGV: "A native library crashed; read the end of its log.",
    signal.SIGABRT: "A native library aborted; read the end of its log.",
    signal.SIGBUS: "Most often shared memory ran out: request more `shm`.",
    signal.SIGILL: "The image was built for another processor; choose another one.",
    signal.SIGFPE: "A division by zero in native code; read the end of its log.",
}
_FIRST_REALTIME = 32  # signals below have names


@dataclass(frozen=True)
class ContainerExit:
    """How a container ended, as the cluster reports it.

    Attributes:
        is_fetch: the init container that gets the code, not the program.
        exit_code: 128 + n when signal n ended it.
        cluster_reason: such as OOMKilled, Error, ContainerCannotRun, StartError.
        message: the termination message: the runner's JSON, or the cluster's words.
    """

    exit_code: int
    cluster_reason: str = ""
    message: str = ""
    is_fetch: bool = False

    @property
    def termination(self) -> TerminationMessage:
        return termination.parse(self.message)


def reason_of_end(who: str, end: ContainerExit, memory_limit: str) -> Reason:
    """Why this replica failed; no reason when it succeeded.

    Args:
        who: such as `worker-0`.
        end: of its main or fetch container.
        memory_limit: as text, `2Gi`.
    """
    if end.exit_code == 0:
        return reasons.NONE
    told = end.termination
    if end.cluster_reason == "OOMKilled":
        return reasons.make("out_of_memory", who=who, limit=memory_limit)
    if told.reason in codes.EXPLAINED:
        return reasons.make(told.reason, who=who, detail=told.text)
    if end.is_fetch:
        detail = told.text or end.message or f"exit code {end.exit_code}"
        return reasons.make("fetch_failed", who=who, detail=detail)
    if end.cluster_reason in {"ContainerCannotRun", "StartError", "CreateContainerError"}:
        code = "command_not_found" if end.exit_code == codes.EXIT_NOT_FOUND else "start_error"
        return reasons.make(code, who=who, detail=end.message or end.cluster_reason)
    if not told.reason:  # nothing of ours ran, or it was killed
        found = _by_convention(who, end.exit_code)
        if found is not None:
            return found
    return reason_of_code(who, end.exit_code, told.last_words)


def _by_convention(who: str, exit_code: int) -> Reason | None:
    """What the shells' exit codes mean of the command itself; of a program that has run they may be of any command in it."""
    if exit_code == codes.EXIT_NOT_EXECUTABLE:
        return reasons.make("command_not_executable", who=who, detail="it is not executable")
    if exit_code == codes.EXIT_NOT_FOUND:
        detail = (
            "the image does not contain this program, or has no python3, which every image needs"
        )
        return reasons.make("command_not_found", who=who, detail=detail)
    return None


def reason_of_code(who: str, exit_code: int, last_words: str = "") -> Reason:
    """What the exit code of a program that has run means.

    Args:
        last_words: of its output; empty when they are not known.
    """
    words = f": {last_words}" if last_words else "."
    number = exit_code - codes.SIGNAL_BASE
    try:
        known = signal.Signals(number) if number < _FIRST_REALTIME else None
    except ValueError:
        known = None
    if known is None:
        return reasons.make("exit_code", who=who, exit_code=exit_code, words=words)
    hint = _SIGNAL_HINTS.get(known, "Read the end of its log.")
    return reasons.make("signal", who=who, number=number, name=known.name, words=words, hint=hint)


def reason_of_eviction(who: str, message: str) -> Reason:
    """Why the node put a replica out for good."""
    code = patterns.find_code("evicted", message)
    return reasons.make(code, who=who, detail=message or "it used too much.")


def reason_of_refusal(who: str, message: str) -> Reason:
    """Why a pod failed without having run."""
    code = patterns.find_code("disrupted", message)
    return reasons.make(code, who=who, detail=message or "no reason was given.")


@dataclass(frozen=True)
class Disruption:
    """The cluster took a replica away: condition DisruptionTarget and the pod's own status."""

    reason: str = ""
    message: str = ""
    pod_reason: str = ""  # Evicted, Terminated, NodeShutdown, ...
    pod_message: str = ""


# The codes of the function below: the cluster took a replica away, and its program did not fail.
DISRUPTIONS = frozenset(
    {"evicted_retrying", "preempted", "node_lost", "drained", "cluster_restarted"}
)

# What the cluster says of a replica when its node is to blame; nothing that a program's exit tells, and
# nothing that somebody does on purpose.
NODE_FAULTS = frozenset(
    {
        "node_lost",
        "evicted_retrying",
        "evicted_memory",
        "evicted_pids",
        "node_full",
        "gpu_device",
        "disrupted",
    }
)


def reason_of_disruption(who: str, disruption: Disruption) -> Reason:
    """Why the replica starts again although nobody failed."""
    if disruption.pod_reason == "Evicted":
        detail = disruption.pod_message or disruption.message or "it used too much."
        return reasons.make("evicted_retrying", who=who, detail=detail)
    code = {
        "PreemptionByScheduler": "preempted",
        "DeletionByTaintManager": "node_lost",
        "DeletionByPodGC": "node_lost",
        "EvictionByEvictionAPI": "drained",
    }.get(disruption.reason, "cluster_restarted")
    return reasons.make(code, who=who)
