"""What a node takes of which pods, and to which pools these may go. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from jobs.rules.amounts import NodeCapacity, ReplicaRequest
from portal import pools
from portal.pools import Pool, Taint


def is_selected(labels: Mapping[str, str], selector: Mapping[str, str]) -> bool:
    """Whether a node has all labels that people's pods select by."""
    return selector.items() <= labels.items()


def capacity_of(
    node: NodeCapacity,
    *,
    takes_pods: bool,
    labels: Mapping[str, str],
    taints: Iterable[Taint],
    known: Sequence[Pool],
) -> NodeCapacity:
    """What a node takes: the one answer of form, preview and admission.

    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/

    Args:
        node: of which only name and amounts are known.
        takes_pods: it is ready, not cordoned and selected.
        known: the pools of the catalog.
    """
    pool = pools.pool_of(labels, known)
    foreign, only_gpu = pools.closing(taints, pool)
    domain = "" if pool.topology_key == pools.HOSTNAME else labels.get(pool.topology_key, "")
    is_open = takes_pods and not foreign
    return replace(node, is_open=is_open, only_gpu=only_gpu, pool=pool.name, domain=domain)


def where_to_run(
    asked: str | None, requests: Sequence[ReplicaRequest], known: Sequence[Pool], team: str | None
) -> tuple[tuple[str, ...], str]:
    """Names of the pools to try, and the one that lacks: it is gone, or no longer for this team.

    Args:
        asked: the pool that the workload names; None: any.
        requests: whose own pools count as well.
        team: the name of whose workload it is; None: it has no team.
    """
    has_gpu = any(request.each.gpu for request in requests)
    for name in (asked, *(request.pool for request in requests)):
        if name and not pools.candidates(name, known, team, has_gpu=has_gpu):
            return (), name
    return pools.candidates(asked, known, team, has_gpu=has_gpu), ""
