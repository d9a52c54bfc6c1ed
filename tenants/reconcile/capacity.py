"""What the cluster has to be split by weight, from its nodes. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from portal.cluster import resources
from portal.cluster.objects import KubeNode

# A node that restarts comes back: quotas do not shrink and grow again for that.
AWAY = timedelta(minutes=10)
_CLOSING = frozenset({"NoSchedule", "NoExecute"})
# The cluster's own taints: cordoned, not ready, short of something; they come and go.
_PASSING = "node.kubernetes.io/"


def capacity(
    nodes: Iterable[KubeNode], selector: Mapping[str, str], now: datetime
) -> dict[str, int]:
    """CPU in millicores, memory in bytes and GPUs of the nodes that people's pods may come to.

    A node counts until it is gone or has not been ready for `AWAY`, also when it is cordoned.

    Args:
        selector: labels that such a node has.
        now: aware.
    """
    total = {"cpu": 0, "memory": 0, "gpu": 0}
    for node in nodes:
        if not _is_for_people(node, selector) or not _is_there(node, now):
            continue
        has = resources.of_resources(node.status.allocatable)
        # A device plugin that restarts takes its GPUs out of what is allocatable for seconds.
        gpus = resources.of_resources(node.status.capacity).gpu_count
        total["cpu"] += has.cpu_millicores
        total["memory"] += has.memory_bytes
        total["gpu"] += max(gpus, has.gpu_count)
    return total


def _is_for_people(node: KubeNode, selector: Mapping[str, str]) -> bool:
    closing = {taint.key for taint in node.spec.taints if taint.effect in _CLOSING}
    foreign = {key for key in closing if not key.startswith(_PASSING)} - {resources.GPU}
    return not foreign and selector.items() <= node.metadata.labels.items()


def _is_there(node: KubeNode, now: datetime) -> bool:
    for condition in node.status.conditions:
        if condition.type == "Ready":
            since = condition.last_transition_time
            return condition.status == "True" or (since is not None and now - since < AWAY)
    return False
