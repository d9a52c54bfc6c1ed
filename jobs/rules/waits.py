"""Reads why a replica does not run yet: scheduling, image, volumes, set-up.

Waiting reasons are the kubelet's (pkg/kubelet/images/types.go, pkg/kubelet/container/sync_result.go);
mount problems are only told by events.
"""

from dataclasses import dataclass

from jobs.rules import patterns, reasons
from jobs.rules.reasons import Reason

_PULL = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError"})
_NAME = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_CONFIG = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
MOUNT_EVENTS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})

# Families of reasons (`patterns.family_of`).
# Waits that no patience cures within the start's deadline; the training fails.
HOPELESS = frozenset({"image_name"})
# The training fails when these last longer than the start's deadline.
FATAL_AFTER_DEADLINE = frozenset({"image_pull", "container_config"})
# Everything is given back and queued again when these last longer than the start's deadline.
WITHDRAW_AFTER_DEADLINE = frozenset({"placing", "volume", "quota_refused"})


@dataclass(frozen=True)
class WaitingPod:
    """What is known of a replica that does not run.

    Attributes:
        who: such as `worker-0`.
        image: the user's image.
        node: empty while it is not placed.
        unplaced_why: message of the PodScheduled condition while it is False.
        fetch_runs: the init container gets the code.
        waiting_reason, waiting_message: of the container that holds things up; `image` is its own.
        mount_problem: message of the latest mount event, empty when there is none.
    """

    who: str
    image: str
    node: str = ""
    unplaced_why: str = ""
    fetch_runs: bool = False
    waiting_reason: str = ""
    waiting_message: str = ""
    mount_problem: str = ""


def reason_of_wait(wait: WaitingPod) -> Reason:
    """Why this replica does not run yet, as specific as can be told."""
    if not (wait.node or wait.unplaced_why):
        return reasons.make("creating")
    if not wait.node:
        return _told("placing", wait, wait.unplaced_why)
    detail = _cause(wait.waiting_message) or wait.waiting_reason
    if wait.waiting_reason in _NAME:
        return reasons.make("image_name", image=wait.image)
    if wait.waiting_reason in _PULL:
        return _told("image_pull", wait, detail)
    if wait.waiting_reason in _CONFIG:
        return _told("container_config", wait, detail)
    if wait.mount_problem:
        return _told("volume", wait, wait.mount_problem)
    if wait.fetch_runs:
        return reasons.make("fetching", who=wait.who)
    return reasons.make("preparing", who=wait.who, node=wait.node)


def _told(family: str, wait: WaitingPod, message: str) -> Reason:
    """The most specific reason that the cluster's message gives."""
    code = patterns.find_code(family, message)
    detail = patterns.plain(family, message)
    if code == "image_missing":
        # The embedded cluster's node says what may have been meant; registries repeat the image's name.
        said, found, rest = detail.partition("not found. ")
        detail = f". {rest}" if found and not said else f": {detail}"
    return reasons.make(code, who=wait.who, image=wait.image, detail=detail)


def _cause(message: str) -> str:
    """Without the back-off around it, which comes and goes while the cause stays.

    `Back-off pulling image "x": ErrImagePull: the cause` (Kubernetes 1.31 and newer).
    """
    _, found, cause = message.partition(": ErrImagePull: ")
    return cause if found else message


# The most telling first: one replica's broken image says more than another's queueing.
_WEIGHT = (
    "image_name",
    "container_config",
    "image_pull",
    "volume",
    "quota_refused",
    "placing",
    "fetching",
    "preparing",
    "creating",
)


def most_specific(found: list[Reason]) -> Reason:
    """The reason to show for the whole training; none when no replica waits."""
    if not found:
        return reasons.NONE
    return min(found, key=_weight)


def _weight(reason: Reason) -> int:
    family = patterns.family_of(reason.code)
    return _WEIGHT.index(family) if family in _WEIGHT else len(_WEIGHT)
