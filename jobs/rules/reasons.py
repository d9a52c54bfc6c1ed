"""Why a training waits, failed or was stopped: a stable code, a sentence, and what to do next.

One table; `make` fills the facts in. The codes are part of the public surface (docs/api.md).
"""

import re
from collections.abc import Mapping
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
_WAIT = "No action needed; it starts automatically."
_ADMIN = "Tell your admin."
_RESUME = "Resume it to go on; a program that saves checkpoints continues from the latest one."

# code -> (sentence, next step); names in braces are the facts that `make` needs.
ROWS: dict[str, tuple[str, str]] = {
    # --- waits in the queue; the arithmetic is the sentence ---
    "quota": (
        "{text}",
        "Starts when enough of its namespace's work has ended; stop some, request less, or ask your lead for quota.",
    ),
    "quota_part": (
        "{text}",
        "Starts when its part grows: with nodes, weights or fixed quotas. Or request less.",
    ),
    "quota_unknown": ("{text}", _WAIT),
    "nodes": (
        "{text}",
        "Starts when enough capacity is free; what requests less may start sooner.",
    ),
    "no_nodes": ("{text}", _WAIT),
    "no_pool": (
        "Waiting for its pool: there is no pool {pool}, or it is not for its team.",
        "Submit it again with another pool, or tell your admin.",
    ),
    "image_guarded": (
        (
            "{image} could not be pulled three times within {window}; one workload tries it "
            "every ten minutes, next at {at}"
        ),
        "Starts when a pod with it runs. Check the image's name and tag, or the registry and its secret.",
    ),
    "catalog_wrong": ("Nothing starts, for {detail}.", _ADMIN),
    "queue": (
        "{text}",
        "Starts after that one; if this one is more urgent, move it to the front of its namespace's queue.",
    ),
    "withdrawn": (
        "{text}",
        "If this repeats, request less per replica, or show your admin what is said here.",
    ),
    "over_quota": ("{text}", "Delete it and submit a smaller one, or ask your lead for quota."),
    "over_node": ("{text}", "Delete it and request less per replica."),
    "over_cluster": ("{text}", "Delete it and submit a smaller one."),
    "tenant_not_ready": ("The namespace is being created.", _WAIT),
    "cluster_unreachable": ("The cluster cannot be reached.", _WAIT),
    # --- starts ---
    "creating": ("Its objects are being created in the cluster.", _WAIT),
    "placing": (
        "{who} waits for a node: {detail}",
        "If this lasts, it returns to the queue and is tried again.",
    ),
    "gpu_taken": (
        "{who} waits for free GPUs: {detail}.",
        "It starts when GPUs become free; the page of nodes shows which pods use them.",
    ),
    "cpu_taken": ("{who} waits for free CPU: {detail}.", "Request less CPU, or wait."),
    "memory_taken": ("{who} waits for free memory: {detail}.", "Request less memory, or wait."),
    "disk_taken": ("{who} waits for free disk on a node: {detail}.", _ADMIN),
    "pods_taken": ("{who} waits for a node that accepts one more pod: {detail}.", _WAIT),
    "node_reserved": (
        "{who} waits because the nodes with free capacity are reserved: {detail}.",
        "Wait for others; your admin knows what the reserved nodes are for.",
    ),
    "node_selector": ("{who} waits for a node that matches its selector: {detail}.", _ADMIN),
    "nodes_closed": (
        "{who} waits for nodes to come back: {detail}.",
        "Starts when a node comes back or an admin releases it; ask your admin when.",
    ),
    "volume_unbound": (
        "{who} waits for a volume that is not created yet: {detail}",
        "Tell your admin: the storage class may be unable to create volumes.",
    ),
    "volume_missing": (
        "{who} waits for a volume that does not exist: {detail}",
        "It is created again automatically; tell your admin if it does not return.",
    ),
    "volume_elsewhere": (
        "{who} waits because its volume cannot be used on the nodes with free capacity: {detail}.",
        "Wait, or ask your admin for a storage class that every node can mount.",
    ),
    "quota_refused": ("The cluster refused a pod: {detail}", "It is retried automatically."),
    "quota_exceeded": (
        "The cluster refused a pod because the quota of the namespace is exhausted: {detail}",
        "It is retried automatically; stop workloads that you no longer need.",
    ),
    "quota_unspecified": ("The cluster refused a pod: {detail}", _ADMIN),
    "limit_range": (
        "The cluster refused a pod because it requests more or less than one pod may: {detail}",
        "Delete it and request an amount within the limits.",
    ),
    "pod_security": ("The cluster's security rules refused a pod: {detail}", _ADMIN),
    "leftover": ("Objects of an earlier attempt are still being removed: {detail}", _WAIT),
    "secret_pending": ("The secret {detail} is being written to the cluster.", _WAIT),
    "secret_gone": (
        "{who} needs a secret that the cluster does not have: {detail}",
        "Enter its values again on the page Secrets, then submit or start it again.",
    ),
    "fetching": ("{who} is fetching the code.", _WAIT),
    "preparing": ("{who} is being prepared on node {node}.", _WAIT),
    "image_pull": (
        "The image {image} cannot be pulled: {detail}",
        "Check the image's name and tag. Until the start timeout the pull is retried.",
    ),
    "image_missing": (
        "Image {image} not found{detail}",
        "Correct the name or the tag, and submit again.",
    ),
    "image_denied": (
        "The registry denies this cluster the image {image}: {detail}",
        "Check the name; a private image needs a registry login on the page Secrets.",
    ),
    "image_rate_limit": (
        "The registry has reached its pull limit: {detail}",
        "It is retried automatically; ask your admin for a mirror if it repeats.",
    ),
    "image_platform": (
        "The image {image} was built for another kind of processor: {detail}",
        "Choose an image for this cluster's processors.",
    ),
    "image_no_space": ("The node's disk is too full for the image {image}: {detail}", _ADMIN),
    "registry_certificate": ("The registry's certificate is not trusted: {detail}", _ADMIN),
    "registry_unreachable": (
        "The registry of the image {image} cannot be reached: {detail}",
        "It is retried automatically; check the first part of the name, the registry's host.",
    ),
    "image_name": (
        "{image} is not a valid image reference.",
        "Correct the image and submit again.",
    ),
    "volume": ("A volume of {who} cannot be mounted: {detail}", _ADMIN),
    "volume_server": ("The storage server of {who} does not respond: {detail}", _ADMIN),
    "volume_attached": (
        "A volume of {who} is still attached to another node: {detail}",
        "It is released within minutes; tell your admin if it lasts.",
    ),
    "volume_slow": ("A volume of {who} takes long to mount: {detail}", _ADMIN),
    "volume_source_missing": ("Something that {who} mounts does not exist: {detail}", _ADMIN),
    "image_root": (
        "The image of {who} insists on running as root, which is not allowed: {detail}",
        "Choose an image that runs as any user.",
    ),
    "gpu_device": (
        "The node could not hand its GPUs to {who}: {detail}",
        "Tell your admin: the GPU driver or its device plugin on that node is broken.",
    ),
    "start_missing": (
        "The image of {who} lacks the program that starts it: {detail}",
        "Choose an image that has Python.",
    ),
    "probe": ("{who} does not pass its health check: {detail}", _LOG),
    "probe_refused": (
        "{who} does not listen yet: {detail}",
        "It may still be starting; read the end of its log if it lasts.",
    ),
    "probe_slow": (
        "{who} responds too slowly to its health check: {detail}",
        "Request more CPU or memory if it repeats.",
    ),
    "probe_status": ("{who} responds to its health check with an error: {detail}", _LOG),
    "container_config": ("{who} cannot be set up: {detail}", _ADMIN),
    "retrying": (
        "{cause} It is retried ({number} of {most}).",
        "No action needed; what it saved in its log directory is kept.",
    ),
    "disrupted_often": (
        (
            "The cluster has ended {count} attempts in a row within 10 minutes of their start, this "
            "one by taking {who} away; each further one counts as a failure."
        ),
        _ADMIN,
    ),
    "address_changed": (
        "{who} came back at another address, which the others cannot be told.",
        "No action needed; what it saved in its log directory is kept.",
    ),
    "cluster_restarted": (
        "The cluster was restarted: {who} starts again. It does not count as a failure.",
        "No action needed; what it saved in its log directory is kept.",
    ),
    "replaced": (
        "The cluster replaced {who}, which starts again. It does not count as a failure.",
        "No action needed; what it saved in its log directory is kept.",
    ),
    "node_lost": (
        "The node of {who} was lost; it starts again elsewhere. It does not count as a failure.",
        "No action needed; what it saved in its log directory is kept.",
    ),
    "preempted": ("{who} was preempted by a pod with a higher priority and starts again.", _WAIT),
    "evicted_retrying": (
        "{who} was evicted by its node: {detail} It starts again; it does not count as a failure.",
        "If it repeats, write less to /workspace and /tmp, or use less memory.",
    ),
    "drained": ("{who} was moved off its node for maintenance and starts again.", _WAIT),
    # --- notebooks and TensorBoards ---
    "app_starting": ("{program} is starting.", _WAIT),
    "app_restarting": (
        "{cause} It starts again.",
        "No action needed; after the third time within 10 minutes it fails.",
    ),
    "app_crash_loop": (
        "{who} ended {count} times within 10 minutes. Last time: {cause}",
        "Start it again with more memory or another image.",
    ),
    "app_ended": ("{program} ended: {detail}", "Start it again."),
    "app_missing": (
        "{program} cannot be started in the image {image}: {detail}",
        "Choose an image that has {program}.",
    ),
    "never_ready": (
        "{program} did not respond within {waited}: {detail}",
        "Start it again; tell your admin if it repeats.",
    ),
    "not_answering": (
        "{program} does not respond: {detail}",
        "It may be busy. Stop it and start it again if this lasts.",
    ),
    "prepare_failed": ("Its pod could not be prepared: {detail}", _ADMIN),
    "gate_failed": ("The gate in front of it cannot start: {detail}", _ADMIN),
    "max_duration": (
        "{program} has run for {most}, which is as long as it may here.",
        "What is on the volumes is kept; start it again when you need it.",
    ),
    "shut_down": ("{program} was shut down from inside.", "Start it again when you need it."),
    "starting_again": ("It is stopped first and then starts again.", _WAIT),
    "owner_disabled": ("The account of its owner is disabled.", "Ask your admin."),
    # --- runs ---
    "straggler": (
        "worker-0 has succeeded, but {who} still runs {waited} later.",
        (
            "A TensorFlow worker that waits for one that has ended never ends: give its session "
            "device_filters=['/job:ps', '/job:worker/task:%d' % task_index], or ask for sparse_spec "
            "with tf-ps. Stop the training if no more output is expected."
        ),
    ),
    # --- failed by its own program ---
    "exit_code": ("{who} ended with exit code {exit_code}{words}", _LOG),
    "missing_module": (
        "{who} ended because a Python module is missing: {detail}",
        "Choose an image that has it, or put it beside your code.",
    ),
    "cuda_out_of_memory": (
        "{who} ended because a GPU ran out of memory: {detail}",
        "Use a smaller batch, or a GPU with more memory.",
    ),
    "cuda_driver": (
        "{who} ended because the image's CUDA and the node's driver do not match: {detail}",
        "Choose an image with another CUDA version; your admin knows the driver's.",
    ),
    "no_gpu_seen": (
        "{who} ended because it found no GPU: {detail}",
        "Request a GPU in the form, or let the program run without one.",
    ),
    "gpu_fault": (
        "{who} ended because of an error on its GPU: {detail}",
        "Run it with CUDA_LAUNCH_BLOCKING=1 to see where; tell your admin if only one node has it.",
    ),
    "shared_memory_short": (
        "{who} ended because shared memory ran out: {detail}",
        "Request more `shm`, or use fewer data loader workers.",
    ),
    "peers_lost": (
        "{who} ended because it lost its peers: {detail}",
        "Check which replica failed first; its log has the cause.",
    ),
    "shared_library": (
        "{who} ended because a system library is missing: {detail}",
        "Choose an image that has it.",
    ),
    "disk_full": (
        "{who} ended because a disk was full: {detail}",
        "Delete what you no longer need, or write to another volume.",
    ),
    "volume_lost": (
        "{who} ended because a volume was no longer there: {detail}",
        "Continue from your last checkpoint; your admin sees on the node's page whether it is mounted again.",
    ),
    "read_only": (
        "{who} ended because it wrote to a read-only path: {detail}",
        "Write to LOG_DIR, DATA_DIR, /workspace or /tmp.",
    ),
    "file_missing": (
        "{who} ended because a file is missing: {detail}",
        "Check the path; your code is in /workspace, your data in /data.",
    ),
    "not_permitted": (
        "{who} ended because it was not permitted to do something: {detail}",
        "Write to LOG_DIR, DATA_DIR, /workspace or /tmp; programs do not run as root.",
    ),
    "host_memory": (
        "{who} ended because it could not allocate memory: {detail}",
        "Request more memory, or use a smaller batch.",
    ),
    "name_unknown": (
        "{who} ended because a host name could not be resolved: {detail}",
        "Check the name; pods may not reach every network.",
    ),
    "address_in_use": (
        "{who} ended because its port was in use: {detail}",
        "Use the port of the ClusterSpec for one server only.",
    ),
    "bad_arguments": (
        "{who} ended because its arguments are invalid: {detail}",
        (
            "Check the command. Flags like --ps_hosts and --task_index are added to it under "
            "“Cluster flags”."
        ),
    ),
    "syntax_error": (
        "{who} ended because its code is not valid Python: {detail}",
        "Correct the code; the image's Python may be older than the code needs.",
    ),
    "script_missing": (
        "{who} ended because it did not find what it was to run: {detail}",
        (
            "Correct the path or the module's name. The program starts in /workspace, where the code "
            "is: files of an uploaded folder are there without the folder's own name, those of an "
            "archive as it has them."
        ),
    ),
    "shell_command_missing": (
        "{who} ended because a command was not found: {detail}",
        (
            "Check its name, and choose an image that has it. sh has no “source” and no “[[”, which bash "
            "has. Shells here read no .bashrc, which “conda activate” and “module” need."
        ),
    ),
    "windows_lines": (
        "{who} ended because a script has Windows line ends: {detail}",
        "Save it with the line ends of Linux (sed -i 's/\\r$//' FILE), and upload it again.",
    ),
    "notebook_as_script": (
        "{who} ended because a notebook was run as a script: {detail}",
        "Run it with jupyter nbconvert --to notebook --execute FILE.",
    ),
    "mpi_slots": (
        "{who} ended because mpirun cannot start so many processes: {detail}",
        "Request more workers, or more of what slots are counted by; or start fewer with -np.",
    ),
    "mpi_option": (
        "{who} ended because mpirun does not take its options: {detail}",
        "Write the options of the image's MPI, of Open MPI 5 with two dashes; mpirun --help lists them.",
    ),
    "command_not_executable": (
        "{who} could not run the command: {detail}",
        (
            "Start it by its interpreter, as bash run.sh or python train.py do, or make the file "
            "executable before you upload it."
        ),
    ),
    "command_not_found": (
        "{who} could not find the command: {detail}",
        "Check the command's first word, and choose an image that has what it needs.",
    ),
    "start_error": ("{who} could not be started: {detail}", "Check the command and the image."),
    "out_of_memory": (
        "{who} used more than its {limit} of memory and was ended.",
        "Request more memory, or use a smaller batch.",
    ),
    "process_out_of_memory": (
        "{who} reached its limit of {limit} of memory, and a process of it was ended; the rest went on.",
        (
            "Request more memory, or hold less at a time. What a notebook's kernel held is gone: it has "
            "started again without its variables."
        ),
    ),
    "signal": ("{who} was ended by signal {number} ({name}){words}", "{hint}"),
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
    "no_user": (
        "{who} runs as a user without a name: {detail}",
        "Choose an image whose /etc/passwd has this user, or add the line to it.",
    ),
    "no_tensorflow": (
        "{who} cannot serve: {detail}.",
        "Choose an image with TensorFlow.",
    ),
    # --- failed before the program ran ---
    "source_unreachable": (
        "{who} could not get the code: {detail}",
        "Check the address or path, and that pods may reach it; or upload the code.",
    ),
    "sha256_mismatch": (
        "The code that {who} fetched does not match its sha256: {detail}",
        "Correct the sha256, or find out why the file changed.",
    ),
    "git_denied": (
        "{who} may not read the git repository: {detail}",
        "Check the address, and of a private repository the secret with its password or key.",
    ),
    "git_host_key": (
        "The git server did not show {who} a key that the secret knows: {detail}",
        "Ask whoever runs the server; put a new key of it into known_hosts.",
    ),
    "git_ref": (
        "{who} did not find the requested revision: {detail}",
        "Correct the branch or tag, or give a commit with all of its digits.",
    ),
    "git_gone": (
        "The commit that this training uses is gone: {detail}",
        "Submit again with the newest commit, or push that commit again.",
    ),
    "git_path": (
        "{who} did not find the folder in the git repository: {detail}",
        "Correct the folder; it is relative to the top of the repository.",
    ),
    "no_git": (
        "{who} cannot fetch from git on its node: {detail}",
        "Tell your admin: the image that fetches code needs the program git.",
    ),
    "bundle_unsafe": (
        "The code was refused: {detail}",
        "Submit it again without that, as plain files and folders; put data on the data volume.",
    ),
    "bundle_broken": ("The code archive cannot be read: {detail}", "Create and upload it again."),
    "bundle_too_large": (
        "The code is too large: {detail}",
        "Put data on the data volume instead of into the code.",
    ),
    "volume_not_writable": ("A volume cannot be written by {who}: {detail}", _ADMIN),
    "volume_full": (
        "A volume is full: {detail}",
        "Delete what you no longer need from the data and log volumes.",
    ),
    "fetch_failed": ("{who} could not prepare the code: {detail}", _LOG),
    # --- failed by the cluster ---
    "evicted": ("{who} was evicted by its node: {detail}", "Write less to /workspace and /tmp."),
    "evicted_disk": (
        "{who} was evicted by its node because it wrote too much to the node's disk: {detail}",
        "Write to LOG_DIR or DATA_DIR instead of /workspace and /tmp.",
    ),
    "evicted_memory": (
        "{who} was evicted by its node because the node ran out of memory: {detail}",
        (
            "Request as much memory as it uses; pods that use more than they request are evicted "
            "first."
        ),
    ),
    "evicted_pids": (
        "{who} was evicted by its node because the node ran out of processes: {detail}",
        "Start fewer processes and threads.",
    ),
    "node_full": ("The node no longer had enough capacity for {who}: {detail}", "Submit again."),
    "node_shutdown": ("The node of {who} was shut down: {detail}", "Submit again."),
    "disrupted": ("The cluster ended {who}: {detail}", "Submit again."),
    "pod_deleted": (
        "{who} was deleted in the cluster outside Homeport.",
        "Submit again; use Homeport's stop and delete.",
    ),
    "lost_outcome": (
        "{who} failed, and the cluster removed its pod before the exit code was seen.",
        _LOG,
    ),
    "tasks_failed": (
        "{count} of {most} failed; one of them: {cause}",
        "Read their logs, then run the failed indexes again.",
    ),
    "job_failed": ("The cluster marked the training as failed: {detail}", _LOG),
    "root_deleted": (
        "The training's objects were deleted in the cluster outside Homeport.",
        "Submit again; use Homeport's stop and delete.",
    ),
    "namespace_gone": (
        "The namespace {namespace} was deleted from the cluster, and the training with it.",
        _ADMIN,
    ),
    "namespace_going": ("The namespace is being deleted outside Homeport.", "Its page says why."),
    "name_taken": (
        "The cluster has an object of the same name that is not this training's: {detail}",
        "Remove that object, then submit again.",
    ),
    "refused": ("The cluster refused the training's objects: {detail}", _ADMIN),
    "change_refused": (
        "The cluster refuses a change that Homeport requests: {detail} It is retried.",
        _ADMIN,
    ),
    "not_placed": (
        "Not all replicas were scheduled within {waited}, so it returned to the queue. {detail}",
        _WAIT,
    ),
    # --- ended by people ---
    "preempted_low": (
        "Stopped for a training of {who}, who is within quota{times}.",
        "It is queued again with its old place, and continues from its last checkpoint.",
    ),
    "preempted_held": (
        "Stopped: {why}{times}.",
        "It is queued again with its old place, and continues from its last checkpoint.",
    ),
    "suspended": ("Suspended on request.", _RESUME),
    "suspended_by": ("{who} suspended this.", _RESUME),
    "stopped": ("Stopped on request.", ""),
    "stopped_because": ("Stopped: {why}", ""),
    "stopped_by": ("{who} stopped this: {why}", ""),
    "stop_unconfirmed": (
        "Stopped, but the cluster has not confirmed the end of {who}.",
        "A node may be lost; its pods go when it comes back.",
    ),
    "tenant_suspended": (
        "The namespace is suspended.",
        "Ask your admin to resume the namespace; queued work then starts automatically.",
    ),
    "tenant_deleting": ("The namespace is being deleted.", "Ask your admin."),
    # --- ourselves ---
    "internal": (
        "Homeport could not process this training: {detail}",
        "It is retried automatically; tell your admin if it lasts.",
    ),
}


def clip(text: str, limit: int = TEXT_MAX) -> str:
    """Text from outside, in one line and not too long."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


# What to do when a wait has ended in failure, for steps that speak of the wait.
AFTER_THE_END: Mapping[str, str] = {
    "image_pull": "Check the image's name and tag, and submit again.",
    "image_rate_limit": "Submit again later; ask your admin for a mirror if it repeats.",
    "registry_unreachable": "Check the first part of the name, the registry's host, and submit again.",
    "quota_refused": "Submit again; tell your admin if it repeats.",
    "quota_exceeded": "Stop workloads that you no longer need, and submit again.",
    "volume_attached": "Submit again later; tell your admin if it repeats.",
}


_BEFORE_A_SENTENCE = re.compile(r"\{(\w+)\} [A-Z]")  # a fact that another sentence follows


def make(code: str, **facts: str | int) -> Reason:
    """The row of the table with its facts filled in.

    Raises:
        KeyError: the code is not in the table, or a fact that its sentence needs is not given.
    """
    text, next_step = ROWS[code]
    clean = {name: clip(str(value)) for name, value in facts.items()}
    for name in _BEFORE_A_SENTENCE.findall(text):
        if clean[name] and clean[name][-1] not in ".!?…":
            clean[name] += "."
    sentence = text.format_map(clean)
    if sentence.startswith("the "):  # "the notebook"; replicas have names, which stay as they are
        sentence = f"The {sentence.removeprefix('the ')}"
    return Reason(code, sentence, next_step.format_map(clean))


def stopped(*, by: str, why: str) -> Reason:
    """Why something ended on somebody's request.

    Args:
        by: the person's name, empty when it was the owner.
        why: as that person wrote it; may be empty.
    """
    if by:
        return make("stopped_by", who=by, why=why or "no reason was given.")
    return make("stopped_because", why=why) if why else make("stopped")


def suspended(*, by: str) -> Reason:
    """Why a training was suspended; `by` as above."""
    return make("suspended_by", who=by) if by else make("suspended")


def preempted(who: str, why: str, count: int) -> Reason:
    """Why a training of low priority is stopped, for the `count`th time.

    Args:
        who: for whose training; else `why` says it.
    """
    times = "" if count == 1 else f" ({count} times by now)"
    return make("preempted_held" if why else "preempted_low", who=who, why=why, times=times)


def duration_text(seconds: int) -> str:
    """`90 seconds`, `5 minutes`, `2 hours`: the largest unit that divides it."""
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            number = seconds // size
            return f"{number} {unit}" + ("" if number == 1 else "s")
    return "1 second" if seconds == 1 else f"{seconds} seconds"
