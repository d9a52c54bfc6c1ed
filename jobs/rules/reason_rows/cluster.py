"""What the cluster did to a workload, or to its objects, from outside it."""

from jobs.rules.reason_rows.steps import READ_LOG, TELL_ADMIN, WAIT

ROWS: dict[str, tuple[str, str]] = {
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
        READ_LOG,
    ),
    "tasks_failed": (
        "{count} of {most} failed; one of them: {cause}",
        "Read their logs, then run the failed indexes again.",
    ),
    "job_failed": ("The cluster marked the training as failed: {detail}", READ_LOG),
    "root_deleted": (
        "The training's objects were deleted in the cluster outside Homeport.",
        "Submit again; use Homeport's stop and delete.",
    ),
    "namespace_gone": (
        "The namespace {namespace} was deleted from the cluster, and the training with it.",
        TELL_ADMIN,
    ),
    "namespace_going": ("The namespace is being deleted outside Homeport.", "Its page says why."),
    "name_taken": (
        "The cluster has an object of the same name that is not this training's: {detail}",
        "Remove that object, then submit again.",
    ),
    "refused": ("The cluster refused the training's objects: {detail}", TELL_ADMIN),
    "change_refused": (
        "The cluster refuses a change that Homeport requests: {detail} It is retried.",
        TELL_ADMIN,
    ),
    "not_placed": (
        "Not all replicas were scheduled within {waited}, so it returned to the queue. {detail}",
        WAIT,
    ),
}
