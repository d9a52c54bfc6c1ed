"""Why a start takes long or is tried again: room on nodes, refusals, images, volumes, health checks, disruptions."""

from jobs.rules.reason_rows.steps import READ_LOG, TELL_ADMIN, WAIT

ROWS: dict[str, tuple[str, str]] = {
    "creating": ("Its objects are being created in the cluster.", WAIT),
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
    "disk_taken": ("{who} waits for free disk on a node: {detail}.", TELL_ADMIN),
    "pods_taken": ("{who} waits for a node that accepts one more pod: {detail}.", WAIT),
    "node_reserved": (
        "{who} waits because the nodes with free capacity are reserved: {detail}.",
        "Wait for others; your admin knows what the reserved nodes are for.",
    ),
    "node_selector": ("{who} waits for a node that matches its selector: {detail}.", TELL_ADMIN),
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
    "quota_unspecified": ("The cluster refused a pod: {detail}", TELL_ADMIN),
    "limit_range": (
        "The cluster refused a pod because it requests more or less than one pod may: {detail}",
        "Delete it and request an amount within the limits.",
    ),
    "pod_security": ("The cluster's security rules refused a pod: {detail}", TELL_ADMIN),
    "leftover": ("Objects of an earlier attempt are still being removed: {detail}", WAIT),
    "secret_pending": ("The secret {detail} is being written to the cluster.", WAIT),
    "secret_gone": (
        "{who} needs a secret that the cluster does not have: {detail}",
        "Enter its values again on the page Secrets, then submit or start it again.",
    ),
    "fetching": ("{who} is fetching the code.", WAIT),
    "preparing": ("{who} is being prepared on node {node}.", WAIT),
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
    "image_no_space": ("The node's disk is too full for the image {image}: {detail}", TELL_ADMIN),
    "registry_certificate": ("The registry's certificate is not trusted: {detail}", TELL_ADMIN),
    "registry_unreachable": (
        "The registry of the image {image} cannot be reached: {detail}",
        "It is retried automatically; check the first part of the name, the registry's host.",
    ),
    "image_name": (
        "{image} is not a valid image reference.",
        "Correct the image and submit again.",
    ),
    "volume": ("A volume of {who} cannot be mounted: {detail}", TELL_ADMIN),
    "volume_server": ("The storage server of {who} does not respond: {detail}", TELL_ADMIN),
    "volume_attached": (
        "A volume of {who} is still attached to another node: {detail}",
        "It is released within minutes; tell your admin if it lasts.",
    ),
    "volume_slow": ("A volume of {who} takes long to mount: {detail}", TELL_ADMIN),
    "volume_source_missing": ("Something that {who} mounts does not exist: {detail}", TELL_ADMIN),
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
    "probe": ("{who} does not pass its health check: {detail}", READ_LOG),
    "probe_refused": (
        "{who} does not listen yet: {detail}",
        "It may still be starting; read the end of its log if it lasts.",
    ),
    "probe_slow": (
        "{who} responds too slowly to its health check: {detail}",
        "Request more CPU or memory if it repeats.",
    ),
    "probe_status": ("{who} responds to its health check with an error: {detail}", READ_LOG),
    "container_config": ("{who} cannot be set up: {detail}", TELL_ADMIN),
    "retrying": (
        "{cause} It is retried ({number} of {most}).",
        "No action needed; what it saved in its log directory is kept.",
    ),
    "disrupted_often": (
        (
            "The cluster has ended {count} attempts in a row within 10 minutes of their start, this "
            "one by taking {who} away; each further one counts as a failure."
        ),
        TELL_ADMIN,
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
    "preempted": ("{who} was preempted by a pod with a higher priority and starts again.", WAIT),
    "evicted_retrying": (
        "{who} was evicted by its node: {detail} It starts again; it does not count as a failure.",
        "If it repeats, write less to /workspace and /tmp, or use less memory.",
    ),
    "drained": ("{who} was moved off its node for maintenance and starts again.", WAIT),
}
