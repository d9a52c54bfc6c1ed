"""Why a training waits, failed or was stopped: a stable code, a sentence, and what to do next.

One table; `make` fills the facts in. The codes are part of the public surface (docs/api.md).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """What a person reads; all three empty when there is nothing to say."""

    code: str = ""
    text: str = ""
    next_step: str = ""


NONE = Reason()
TEXT_MAX = 1000  # of facts that come from the cluster or from a program, characters

_LOG = "Read the end of its log."
_WAIT = "Nothing to do; it starts by itself."
_ADMIN = "Tell your admin."

# code -> (sentence, next step); names in braces are the facts that `make` needs.
ROWS: dict[str, tuple[str, str]] = {
    # --- waits in the queue; the arithmetic is the sentence ---
    "quota": ("{text}", "It starts when something of yours ends; stop what you no longer need."),
    "quota_unknown": ("{text}", _WAIT),
    "nodes": ("{text}", "It starts as soon as there is room."),
    "no_nodes": ("{text}", _WAIT),
    "queue": ("{text}", _WAIT),
    "withdrawn": ("{text}", "Ask for less per replica if this repeats."),
    "over_quota": ("{text}", "Delete it and submit a smaller one, or ask your lead for quota."),
    "over_node": ("{text}", "Delete it and ask for less per replica."),
    "over_cluster": ("{text}", "Delete it and submit a smaller one."),
    "tenant_not_ready": ("The namespace is being made.", _WAIT),
    "cluster_unreachable": ("The cluster cannot be reached now.", _WAIT),
    # --- starts ---
    "creating": ("Its objects are being made in the cluster.", _WAIT),
    "placing": ("{who} waits for a node: {detail}", "Given back and tried later if it lasts."),
    "quota_refused": ("The cluster refused a pod: {detail}", "It is tried again."),
    "leftover": ("What an earlier try made is still being removed: {detail}", _WAIT),
    "fetching": ("{who} gets the code.", _WAIT),
    "preparing": ("{who} is being prepared on node {node}.", _WAIT),
    "image_pull": (
        "The image {image} cannot be pulled: {detail}",
        "Check the image's name and tag; the pull is tried again until the start's deadline.",
    ),
    "image_name": ("{image} is no valid image reference.", "Correct the image and submit again."),
    "volume": ("A volume of {who} cannot be mounted: {detail}", _ADMIN),
    "container_config": ("{who} cannot be set up: {detail}", _ADMIN),
    "retrying": (
        "{cause} It is tried again ({number} of {most}).",
        "Nothing to do; what it saved in its log directory is still there.",
    ),
    "cluster_restarted": (
        "The cluster was restarted: {who} starts again. This counts as no failure.",
        "Nothing to do; what it saved in its log directory is still there.",
    ),
    "replaced": (
        "The cluster replaced {who}, which starts again. This counts as no failure.",
        "Nothing to do; what it saved in its log directory is still there.",
    ),
    "node_lost": (
        "The node of {who} was lost; it starts again elsewhere. This counts as no failure.",
        "Nothing to do; what it saved in its log directory is still there.",
    ),
    "preempted": ("{who} made room for more important work and starts again.", _WAIT),
    "evicted_retrying": (
        "The node put {who} out: {detail} It starts again; this counts as no failure.",
        "If it repeats, write less to /workspace and /tmp, or use less memory.",
    ),
    "drained": ("{who} was moved off its node for maintenance and starts again.", _WAIT),
    # --- runs ---
    "straggler": (
        "worker-0 has succeeded, but {who} still runs {waited} later.",
        (
            "A TensorFlow worker that waits for one that has ended waits for ever: give its "
            "session device_filters=['/job:ps', '/job:worker/task:%d' % task_index]. "
            "Stop the training if nothing more will come."
        ),
    ),
    # --- failed by its own program ---
    "exit_code": ("{who} ended with exit code {exit_code}.", _LOG),
    "missing_module": (
        "{who} ended because a Python module is missing: {detail}",
        "Choose an image that has it, or put it beside your code.",
    ),
    "cuda_out_of_memory": (
        "{who} ended because a GPU ran out of memory: {detail}",
        "Use a smaller batch, or a GPU with more memory.",
    ),
    "command_not_executable": (
        "{who} could not run the command: it is not executable.",
        "Start it by its interpreter (python train.py), or make the file executable.",
    ),
    "command_not_found": (
        "{who} could not find the command: {detail}",
        "Check the command's first word and that the image has it (it must have python3).",
    ),
    "start_error": ("{who} could not be started: {detail}", "Check the command and the image."),
    "out_of_memory": (
        "{who} used more than its {limit} of memory and was ended.",
        "Ask for more memory, or use a smaller batch.",
    ),
    "signal": ("{who} was ended by signal {number} ({name}).", "{hint}"),
    "deadline": (
        "The training reached its deadline of {deadline}.",
        "What it saved is in its log directory; submit again with a later deadline.",
    ),
    "ps_crash_loop": (
        "{who} started {count} times within 10 minutes. Last time: {cause}",
        "Read the end of that parameter server's log.",
    ),
    "peer_unresolved": (
        "{who} did not find the other replicas: {detail}",
        "Submit again; tell your admin if it repeats.",
    ),
    # --- failed before the program ran ---
    "source_unreachable": (
        "{who} could not get the code: {detail}",
        "Check the address and that pods may reach it, or upload the code.",
    ),
    "sha256_mismatch": (
        "The code that {who} got is not the one that was promised: {detail}",
        "Correct the sha256, or find out why the file changed.",
    ),
    "bundle_unsafe": (
        "The code archive was refused: {detail}",
        "Make the archive anew without links, absolute paths and '..'.",
    ),
    "bundle_broken": ("The code archive cannot be read: {detail}", "Make and upload it anew."),
    "bundle_too_large": (
        "The code archive is too large: {detail}",
        "Put data on the data volume instead of into the code.",
    ),
    "volume_not_writable": ("A volume cannot be written by {who}: {detail}", _ADMIN),
    "volume_full": (
        "A volume is full: {detail}",
        "Delete what you no longer need from the data and log volumes.",
    ),
    "fetch_failed": ("{who} could not prepare the code: {detail}", _LOG),
    # --- failed by the cluster ---
    "evicted": ("The node put {who} out: {detail}", "Write less to /workspace and /tmp."),
    "disrupted": ("The cluster ended {who}: {detail}", "Submit again."),
    "pod_deleted": (
        "{who} was deleted in the cluster, past Homeport.",
        "Submit again; use Homeport's stop and delete.",
    ),
    "lost_outcome": (
        "{who} failed, and the cluster removed its pod before the exit code was seen.",
        _LOG,
    ),
    "job_failed": ("The cluster gave up on the training: {detail}", _LOG),
    "root_deleted": (
        "Somebody deleted the training's objects in the cluster, past Homeport.",
        "Submit again; use Homeport's stop and delete.",
    ),
    "namespace_gone": (
        "The namespace {namespace} is gone from the cluster, and the training with it.",
        _ADMIN,
    ),
    "name_taken": (
        "The cluster has an object of the same name that is not this training's: {detail}",
        "Remove that object, then submit again.",
    ),
    "refused": ("The cluster refused the training's objects: {detail}", _ADMIN),
    "not_placed": ("Not all replicas found a node within {waited}. {detail}", _WAIT),
    # --- ended by people ---
    "stopped": ("Stopped on request.", ""),
    "stopped_because": ("Stopped: {why}", ""),
    "stopped_by": ("{who} stopped this: {why}", ""),
    "stop_unconfirmed": (
        "Stopped, but the cluster has not confirmed the end of {who}.",
        "A node may be lost; its pods go when it comes back.",
    ),
    "tenant_suspended": (
        "The namespace is suspended.",
        "Ask your lead or admin to resume the namespace, then submit again.",
    ),
    "tenant_deleting": ("The namespace is being deleted.", "Ask your admin."),
    # --- ourselves ---
    "internal": (
        "Homeport could not look after this training: {detail}",
        "It is tried again; tell your admin if it lasts.",
    ),
}


def clip(text: str, limit: int = TEXT_MAX) -> str:
    """Text from outside, in one line and not too long."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def make(code: str, **facts: str | int) -> Reason:
    """The row of the table with its facts filled in.

    Raises:
        KeyError: the code is not in the table, or a fact that its sentence needs is not given.
    """
    text, next_step = ROWS[code]
    clean = {name: clip(str(value)) for name, value in facts.items()}
    return Reason(code, text.format_map(clean), next_step.format_map(clean))


def stopped(*, by: str, why: str) -> Reason:
    """Why something ended on somebody's request.

    Args:
        by: the person's name, empty when it was the owner.
        why: as that person wrote it; may be empty.
    """
    if by:
        return make("stopped_by", who=by, why=why or "no reason was given.")
    return make("stopped_because", why=why) if why else make("stopped")


def duration_text(seconds: int) -> str:
    """`90 seconds`, `5 minutes`, `2 hours`: the largest unit that divides it."""
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            number = seconds // size
            return f"{number} {unit}" + ("" if number == 1 else "s")
    return "1 second" if seconds == 1 else f"{seconds} seconds"
