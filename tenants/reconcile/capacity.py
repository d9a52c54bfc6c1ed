"""What the cluster has to be split by weight, from its nodes. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from portal import pools
from portal.cluster import resources
from portal.cluster.objects import KubeNode
from portal.pools import Pool

# A node that restarts comes back: quotas do not shrink and grow again for that.
AWAY = timedelta(minutes=10)
# The cluster's own taints: cordoned, not ready, short of something; they come and go.
_PASSING = "node.kubernetes.io/"


def capacity(
    nodes: Iterable[KubeNode],
    selector: Mapping[str, str],
    now: datetime,
    known: Sequence[Pool] = (),
) -> dict[str, int]:
    """CPU in millicores, memory in bytes and GPUs of the nodes that people's pods may come to.

    A node counts until it is gone or has not been ready for `AWAY`, also when it is cordoned.

    Args:
        selector: labels that such a node has.
        now: aware.
        known: the pools of the catalog.
    """
    total = {"cpu": 0, "memory": 0, "gpu": 0}
    for node in nodes:
        if not _is_for_people(node, selector, known) or not _is_there(node, now):
            continue
        has = resources.of_resources(node.status.allocatable)
        # A device plugin that restarts takes its GPUs out of what is allocatable for seconds.
        gpus = resources.of_resources(node.status.capacity).gpu_count
        total["cpu"] += has.cpu_millicores
        total["memory"] += has.memory_bytes
        total["gpu"] += max(gpus, has.gpu_count)
    return total


def _is_for_people(node: KubeNode, selector: Mapping[str, str], known: Sequence[Pool]) -> bool:
    taints = ((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
    foreign, _ = pools.closing(taints, pools.pool_of(node.metadata.labels, known))
    is_reserved = any(not key.startswith(_PASSING) for key, _, _ in foreign)
    return not is_reserved and selector.items() <= node.metadata.labels.items()


def _is_there(node: KubeNode, now: datetime) -> bool:
    for condition in node.status.conditions:
        if condition.type == "Ready":
            since = condition.last_transition_time
            return condition.status == "True" or (since is not None and now - since < AWAY)
    return False
