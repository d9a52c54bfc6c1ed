"""Keeps the rows of `jobs.models.Node` true: what each node has, and what pods hold of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from jobs.engine.capacity import amount_of, is_ready
from jobs.kinds.observe import gpu_indices
from jobs.leader.lease import Lease
from jobs.models import Node
from jobs.rules.amounts import Amount, NodeCapacity
from jobs.rules.nodes import capacity_of, is_selected
from portal import pools
from portal.catalog import get_catalog, known_pools
from portal.cluster import resources
from portal.cluster.cache import ClusterCache
from portal.cluster.objects import KubeNode, KubePod
from portal.errors import ConfigurationError
from portal.pools import CLOSING_EFFECTS

_LABELS_MAX = 100
_TAINTS_MAX = 50
_WRITTEN_AT_ONCE = 100
_TEXT_MAX = 1000  # of what a node says of itself


@dataclass(frozen=True)
class NodeRow:
    """One node as its row has it; the JSON columns have the shapes that `Node` says."""

    name: str
    is_ready: bool
    is_schedulable: bool
    capacity: Amount
    allocatable: Amount
    requested: Amount
    labels: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[Mapping[str, str | None], ...] = ()
    taints: tuple[Mapping[str, str], ...] = ()
    holders: tuple[Mapping[str, Any], ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, str] | None = None


def look(cache: ClusterCache, names: Iterable[str] | None = None) -> dict[str, NodeRow]:
    """Nodes by name, all of them when none are named. On the event loop.

    What is named and does not exist is left out.
    """
    if names is None:
        names = [name for _, name in cache.nodes.watch.items]
    return {name: row for name in names if (row := _look_at(cache, name)) is not None}


def _look_at(cache: ClusterCache, name: str) -> NodeRow | None:
    node = cache.nodes.get("", name)
    if node is None:
        return None
    return NodeRow(
        name=name,
        is_ready=is_ready(node),
        is_schedulable=not node.spec.unschedulable,
        capacity=amount_of(cache.capacity_of(name)),
        allocatable=amount_of(cache.allocatable_of(name)),
        requested=amount_of(cache.requested_on(name)),
        labels=_labels(node.metadata.labels),
        conditions=_conditions(node),
        taints=tuple(
            {"key": taint.key, "value": taint.value, "effect": taint.effect}
            # Those first that keep pods away: none of them may be cut off.
            for taint in sorted(node.spec.taints, key=lambda t: t.effect not in CLOSING_EFFECTS)[
                :_TAINTS_MAX
            ]
        ),
        holders=_holders(cache.gpu_pods_of(name)),
        about=_about(node),
        images=_images(node.metadata.annotations.images),
    )


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Those first that decide whether people's pods come here: none of them may be cut off."""
    wanted = set(settings.NODE_SELECTOR)
    with suppress(ConfigurationError):  # which the health page tells
        wanted |= pools.keys_of(get_catalog().pools)
    ordered = sorted(labels.items(), key=lambda pair: (pair[0] not in wanted, pair))
    return dict(sorted(ordered[:_LABELS_MAX]))


def _conditions(node: KubeNode) -> tuple[Mapping[str, str | None], ...]:
    return tuple(
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "since": _iso(condition.last_transition_time),
        }
        for condition in node.status.conditions
    )


def _holders(pods: list[KubePod]) -> tuple[Mapping[str, Any], ...]:
    rows = [
        {
            "namespace": pod.metadata.namespace,
            "pod": pod.metadata.name,
            "owner": pod.metadata.owner,
            "gpu": resources.of_pod(pod.spec).gpu_count,
            "gpus": gpus_of_all(pod.metadata.annotations.gpu_indices),
            "since": _iso(pod.status.start_time or pod.metadata.creation_timestamp),
        }
        for pod in pods
    ]
    return tuple(sorted(rows, key=lambda row: (row["namespace"], row["pod"])))


def gpus_of_all(annotation: str) -> str:
    """The indices of all containers as `0,1`; what is no number is left out."""
    lists = gpu_indices(annotation).values()
    numbers = {index for indices in lists for index in indices if isinstance(index, int)}
    return ",".join(str(number) for number in sorted(numbers))


def _about(node: KubeNode) -> dict[str, str]:
    annotations, info = node.metadata.annotations, node.status.node_info
    told = {
        "gpu_models": annotations.gpu_models,
        "gpu_note": annotations.gpu_note,
        "kubelet": info.kubelet_version,
        "system": info.os_image,
        "machine": info.architecture,
    }
    return {name: text[:_TEXT_MAX] for name, text in told.items() if text}


def _images(annotation: str) -> dict[str, str] | None:
    """What the node says of its images; None: nothing, or what cannot be read."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(annotation, type=dict[str, str]) if annotation else None
    return None


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _takes_pods(row: NodeRow, known: Sequence[pools.Pool]) -> bool:
    """Whether the node is one that takes people's pods; not, whether it is avoided or held for a time."""
    return capacity_of(
        NodeCapacity(row.name, row.allocatable, row.allocatable - row.requested),
        takes_pods=row.is_ready
        and row.is_schedulable
        and is_selected(row.labels, settings.NODE_SELECTOR),
        labels=row.labels,
        taints=((taint["key"], taint["value"], taint["effect"]) for taint in row.taints),
        known=known,
    ).is_open


class NodesPass:
    """Writes the rows of nodes that changed, and tells whether any did.

    After the first look at all of them, a look costs what changed, whatever the size of the cluster.
    """

    def __init__(self, cache: ClusterCache, lease: Lease) -> None:
        self._cache = cache
        self._lease = lease
        self._written: dict[str, NodeRow] | None = None  # None: not known, all are to be written
        self._dirty: set[str] = set()

    def note(self, names: Iterable[str], *, everything: bool = False) -> None:
        """These nodes, or what pods hold of them, changed."""
        self._dirty.update(names)
        if everything:
            self._written = None

    def gpus(self) -> Counter[str]:
        """How many GPUs pods hold (`used`), could hold (`free`), and cannot as the node is (`closed`)."""
        found = Counter(used=0, free=0, closed=0)
        known = known_pools()
        for row in (self._written or {}).values():
            free = max(0, row.allocatable.gpu - row.requested.gpu)
            found["used"] += row.requested.gpu
            found["free" if _takes_pods(row, known) else "closed"] += free
        return found

    async def run_once(self) -> bool:
        """Writes what differs; whether anything did.

        Raises:
            DatabaseError: nothing was written, and what changed is still known.
        """
        if not self._cache.synced or (self._written is not None and not self._dirty):
            return False
        dirty, before = self._dirty, self._written
        if before is None:
            seen = look(self._cache)
            known = await sync_to_async(known_names)()
            before, gone = {}, sorted(set(known) - seen.keys())
        else:
            seen = look(self._cache, dirty)
            gone = sorted(name for name in dirty if name in before and name not in seen)
        changed = [row for name, row in seen.items() if before.get(name) != row]
        # What changes from here on, is for the next look.
        self._dirty = set()
        try:
            if changed or gone:
                await self._lease.commit(partial(write, changed, gone))
        except DatabaseError:
            self._dirty |= dirty
            raise
        self._written = {name: row for name, row in (before | seen).items() if name not in gone}
        return bool(changed or gone)


def known_names() -> list[str]:
    """Nodes that have a row. Blocking."""
    return list(Node.objects.values_list("name", flat=True))


def write(changed: list[NodeRow], gone: list[str]) -> None:
    """Blocking; call inside `Lease.commit`."""
    at = timezone.now()
    Node.objects.bulk_create(
        [Node(**asdict(row), seen_at=at) for row in changed],
        batch_size=_WRITTEN_AT_ONCE,
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=[*(one.name for one in fields(NodeRow) if one.name != "name"), "seen_at"],
    )
    Node.objects.filter(name__in=gone).delete()
