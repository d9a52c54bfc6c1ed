"""Why a workload waits in the queue; the arithmetic is the sentence."""

from jobs.rules.reason_rows.steps import TELL_ADMIN, WAIT

ROWS: dict[str, tuple[str, str]] = {
    "quota": (
        "{text}",
        "Starts when enough of its namespace's work has ended; stop some, request less, or ask your lead for quota.",
    ),
    "quota_part": (
        "{text}",
        "Starts when its part grows: with nodes, weights or fixed quotas. Or request less.",
    ),
    "quota_unknown": ("{text}", WAIT),
    "nodes": (
        "{text}",
        "Starts when enough capacity is free; what requests less may start sooner.",
    ),
    "no_nodes": ("{text}", WAIT),
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
    "catalog_wrong": ("Nothing starts, for {detail}.", TELL_ADMIN),
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
    "tenant_not_ready": ("The namespace is being created.", WAIT),
    "cluster_unreachable": ("The cluster cannot be reached.", WAIT),
}
