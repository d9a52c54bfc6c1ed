"""What the cluster has to be split by weight, from its nodes. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    return capacity_of(map(_read, nodes), selector, now, known)


@dataclass(frozen=True)
class SplitNode:
    """What of a node says whether it counts, and with how much.

    Attributes:
        taints: key, value and effect of each.
        allocatable: cpu in millicores, memory in bytes, gpu.
        gpu_count: of its capacity: a device plugin that restarts takes its GPUs out of what is allocatable for
            seconds.
        ready_since: when `is_ready` became so; None: it was never reported.
    """

    labels: Mapping[str, str]
    taints: Sequence[tuple[str, str, str]]
    allocatable: Mapping[str, int]
    gpu_count: int
    is_ready: bool
    ready_since: datetime | None


def capacity_of(
    nodes: Iterable[SplitNode],
    selector: Mapping[str, str],
    now: datetime,
    known: Sequence[Pool] = (),
) -> dict[str, int]:
    """As `capacity`."""
    total = {"cpu": 0, "memory": 0, "gpu": 0}
    for node in nodes:
        if not _is_for_people(node, selector, known) or not _is_there(node, now):
            continue
        for kind in total:
            total[kind] += node.allocatable.get(kind, 0)
        total["gpu"] += max(0, node.gpu_count - node.allocatable.get("gpu", 0))
    return total


def _read(node: KubeNode) -> SplitNode:
    has = resources.of_resources(node.status.allocatable)
    ready = next((one for one in node.status.conditions if one.type == "Ready"), None)
    return SplitNode(
        node.metadata.labels,
        [(taint.key, taint.value, taint.effect) for taint in node.spec.taints],
        {"cpu": has.cpu_millicores, "memory": has.memory_bytes, "gpu": has.gpu_count},
        resources.of_resources(node.status.capacity).gpu_count,
        ready is not None and ready.status == "True",
        ready.last_transition_time if ready is not None else None,
    )


def _is_for_people(node: SplitNode, selector: Mapping[str, str], known: Sequence[Pool]) -> bool:
    foreign, _ = pools.closing(node.taints, pools.pool_of(node.labels, known))
    is_reserved = any(not key.startswith(_PASSING) for key, _, _ in foreign)
    return not is_reserved and selector.items() <= node.labels.items()


def _is_there(node: SplitNode, now: datetime) -> bool:
    if node.is_ready:
        return True
    return node.ready_since is not None and now - node.ready_since < AWAY
