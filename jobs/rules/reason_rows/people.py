"""Why people, or what they decided about namespaces and priorities, ended or suspended a workload."""

from jobs.rules.reason_rows.steps import RESUME

ROWS: dict[str, tuple[str, str]] = {
    "preempted_low": (
        "Stopped for a training of {who}, who is within quota{times}.",
        "It is queued again with its old place, and continues from its last checkpoint.",
    ),
    "preempted_held": (
        "Stopped: {why}{times}.",
        "It is queued again with its old place, and continues from its last checkpoint.",
    ),
    "suspended": ("Suspended on request.", RESUME),
    "suspended_by": ("{who} suspended this.", RESUME),
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
}
