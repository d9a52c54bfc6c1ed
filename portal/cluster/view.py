"""Everything Homeport sees of the cluster, kept in memory by one watch per kind.

The reconciler reads it; nobody else needs to. Each event updates the indices, so that a question
about a job, a tenant or a node costs what its answer holds, whatever the size of the cluster.
Secrets are never watched. Everything happens on one event loop, so there are no locks.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from portal import supervise
from portal.cluster import labels, resources
from portal.cluster.client import Cluster
from portal.cluster.index import Index
from portal.cluster.objects import (
    KubeDeployment,
    KubeEvent,
    KubeJob,
    KubeNamespace,
    KubeNode,
    KubePod,
    KubePVC,
    KubeQuota,
    KubeRoleBinding,
    KubeService,
    KubeServiceAccount,
    KubeSpecOnly,
    PartialObjectMetadata,
    Watchable,
    is_same,
)
from portal.cluster.resources import NOTHING, Resources
from portal.cluster.watch import NORMAL_PACE, Change, Key, Outage, Pace, Selection, Watch

T = TypeVar("T", bound=Watchable)

_TENANT_PREFIX = "u-"  # of every namespace that Homeport makes
_ENDED = {"Succeeded", "Failed"}  # phases of pods that hold nothing any more


@dataclass
class Dirty:
    """What changed since it was last taken.

    Attributes:
        owners: values of the `homeport.dev/owner` label: ids of jobs and tenants as text.
        namespaces: where anything of ours, or an event, changed.
        nodes: names of nodes that changed, or of which pods hold something else now.
        heard_at: monotonic seconds of the first of these changes; None: there is none.
    """

    owners: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    heard_at: float | None = None

    def __bool__(self) -> bool:
        return bool(self.owners or self.namespaces or self.nodes)


class Shelf(Generic[T]):
    """All objects of one kind: the watch that brings them and the index that finds them."""

    def __init__(
        self,
        cluster: Cluster,
        selection: Selection[T],
        note: Callable[[Change[T]], None],
        *,
        pace: Pace,
        outage: Outage,
    ) -> None:
        self._index: Index[T] = Index()
        self._note = note
        self.watch = Watch(cluster, selection, self._take, pace, outage)

    def _take(self, changes: Sequence[Change[T]]) -> None:
        for change in changes:
            self._index.apply(change)
            old, new = change.old, change.new
            if old is None or new is None or not is_same(old, new):
                self._note(change)

    def __len__(self) -> int:
        return len(self.watch.items)

    def get(self, namespace: str, name: str) -> T | None:
        """The object of this name, or None; namespace "" for cluster-scoped kinds."""
        return self.watch.items.get((namespace, name))

    def in_namespace(self, namespace: str) -> Mapping[str, T]:
        """Name -> object; do not keep it over an await."""
        return self._index.in_namespace(namespace)

    def of_owner(self, owner: str) -> list[T]:
        """What carries our owner label with this id."""
        return self._index.of_owner(owner)

    def count_of_owner(self, owner: str) -> int:
        """How many carry our owner label with this id."""
        return self._index.count_of_owner(owner)


class ClusterView:
    """The shelves, what changed on them, and what pods hold of the nodes."""

    def __init__(self, cluster: Cluster, pace: Pace = NORMAL_PACE) -> None:
        """Needs a running event loop; `run` fills it."""
        self.changed = asyncio.Event()
        self._dirty = Dirty()
        self._held: dict[str, Resources] = {}
        self._gpu_pods: dict[str, dict[Key, KubePod]] = defaultdict(dict)
        self._events_about: dict[tuple[str, str, str], dict[str, KubeEvent]] = defaultdict(dict)
        self._shelves: list[Shelf[Any]] = []

        outage = Outage()

        def put_up(chosen: Selection[T], note: Callable[[Change[T]], None]) -> Shelf[T]:
            shelf = Shelf(cluster, chosen, note, pace=pace, outage=outage)
            self._shelves.append(shelf)
            return shelf

        def managed(kind: str, seen: type[T], **more: Any) -> Shelf[T]:
            selector = labels.MANAGED_SELECTOR
            return put_up(Selection(kind, seen, label_selector=selector, **more), self._note)

        self.namespaces = managed("Namespace", KubeNamespace)
        self.quotas = managed("ResourceQuota", KubeQuota)
        self.limit_ranges = managed("LimitRange", KubeSpecOnly)
        self.network_policies = managed("NetworkPolicy", KubeSpecOnly)
        self.service_accounts = managed("ServiceAccount", KubeServiceAccount)
        self.role_bindings = managed("RoleBinding", KubeRoleBinding)
        self.claims = managed("PersistentVolumeClaim", KubePVC)
        self.jobs = managed("Job", KubeJob)
        self.deployments = managed("Deployment", KubeDeployment)
        self.services = managed("Service", KubeService)
        self.config_maps = managed("ConfigMap", PartialObjectMetadata, only_metadata=True)
        # Pods of all namespaces: foreign ones hold capacity too.
        self.pods = put_up(Selection("Pod", KubePod), self._note_pod)
        self.nodes = put_up(Selection("Node", KubeNode), self._note_node)
        about_tenants = Selection("Event", KubeEvent, keep=_is_about_tenant)
        self.events = put_up(about_tenants, self._note_event)

    # --- life ---
    async def run(self) -> None:
        """Keeps all watches going until cancelled."""
        async with asyncio.TaskGroup() as group:
            for shelf in self._shelves:
                name = f"watch of {shelf.watch.selection.kind}"
                group.create_task(supervise.run_forever(name, shelf.watch.run), name=name)

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed once; before, absence means nothing."""
        return all(shelf.watch.synced.is_set() for shelf in self._shelves)

    async def wait_synced(self) -> None:
        for shelf in self._shelves:
            await shelf.watch.synced.wait()

    @property
    def problem(self) -> str:
        """Why the view may be out of date, as a sentence; empty when all watches work."""
        failing = [shelf.watch.health for shelf in self._shelves if shelf.watch.health.problem]
        return min(failing, key=lambda health: health.problem_since).problem if failing else ""

    @property
    def watches(self) -> list[Watch[Any]]:
        """One for each kind, for the health page."""
        return [shelf.watch for shelf in self._shelves]

    def take_dirty(self) -> Dirty:
        """What changed since the last call; clears `changed`. Call once per tick."""
        taken, self._dirty = self._dirty, Dirty()
        self.changed.clear()
        return taken

    # --- questions ---
    def requested_on(self, node: str) -> Resources:
        """What pods that have not ended hold of a node, foreign ones included."""
        return self._held.get(node, NOTHING)

    def gpu_pods_of(self, node: str) -> list[KubePod]:
        """Pods that hold GPUs of a node, foreign ones included."""
        return list(self._gpu_pods.get(node, {}).values())

    def allocatable_of(self, node: str) -> Resources:
        """What a node has for pods; nothing when it is unknown."""
        seen = self.nodes.get("", node)
        return NOTHING if seen is None else resources.of_resources(seen.status.allocatable)

    def capacity_of(self, node: str) -> Resources:
        """What a node is built of; the unhealthy part of it is not allocatable."""
        seen = self.nodes.get("", node)
        return NOTHING if seen is None else resources.of_resources(seen.status.capacity)

    def events_about(self, namespace: str, kind: str, name: str) -> list[KubeEvent]:
        """Events of one object, oldest first."""
        found = self._events_about.get((namespace, kind, name), {})
        return sorted(found.values(), key=lambda event: event.at.timestamp() if event.at else 0.0)

    # --- notes ---
    def _wake(self) -> None:
        if self._dirty.heard_at is None:
            self._dirty.heard_at = time.monotonic()
        self.changed.set()

    def _note(self, change: Change[Any]) -> None:
        for seen in (change.old, change.new):
            owner = seen.metadata.owner if seen is not None else ""
            if owner:
                self._dirty.owners.add(owner)
                # A Namespace lies in no namespace: its own name is meant.
                self._dirty.namespaces.add(change.key[0] or change.key[1])
        self._wake()

    def _note_pod(self, change: Change[KubePod]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and _is_held_alike(old, new):
            is_news = self._renew(change.key, old, new)
        else:
            is_news = self._hold_anew(change)
        if any(seen is not None and seen.metadata.owner for seen in (old, new)):
            self._note(change)
        elif is_news:
            self._wake()

    def _hold_anew(self, change: Change[KubePod]) -> bool:
        """Whether what pods hold of a node is something else now."""
        (old_node, old), (node, new) = _holding(change.old), _holding(change.new)
        if old_node:
            self._hold(old_node, self.requested_on(old_node) - old)
        if old.gpu_count:
            self._gpu_pods[old_node].pop(change.key, None)
        if node:
            self._hold(node, self.requested_on(node) + new)
        if new.gpu_count and change.new is not None:
            self._gpu_pods[node][change.key] = change.new
        return bool(old_node or node)

    def _renew(self, key: Key, old: KubePod, new: KubePod) -> bool:
        """Whether another thing is known of the GPUs that a pod holds as before."""
        gpu_pods = self._gpu_pods.get(new.spec.node_name, {})
        if key not in gpu_pods:
            return False
        gpu_pods[key] = new
        # Which GPUs they are is told a little later than how many.
        is_news = new.metadata.annotations.gpu_indices != old.metadata.annotations.gpu_indices
        if is_news:
            self._dirty.nodes.add(new.spec.node_name)
        return is_news

    def _hold(self, node: str, total: Resources) -> None:
        self._dirty.nodes.add(node)
        if total == NOTHING:
            self._held.pop(node, None)
        else:
            self._held[node] = total

    def _note_node(self, change: Change[KubeNode]) -> None:
        self._dirty.nodes.add(change.key[1])
        self._wake()

    def _note_event(self, change: Change[KubeEvent]) -> None:
        if change.old is not None:
            self._forget_event(change.key[1], change.old)
        if change.new is not None:
            about = change.new.involved_object
            self._events_about[about.namespace, about.kind, about.name][change.key[1]] = change.new
            owner = self._owner_of(about.kind, about.namespace, about.name)
            if owner:
                self._dirty.owners.add(owner)
            self._dirty.namespaces.add(about.namespace)
            self._wake()

    def _forget_event(self, name: str, event: KubeEvent) -> None:
        about = event.involved_object
        key = (about.namespace, about.kind, about.name)
        self._events_about[key].pop(name, None)
        if not self._events_about[key]:
            del self._events_about[key]

    def _owner_of(self, kind: str, namespace: str, name: str) -> str:
        shelves: dict[str, Shelf[Any]] = {
            "Pod": self.pods,
            "Job": self.jobs,
            "Deployment": self.deployments,
            "PersistentVolumeClaim": self.claims,
        }
        shelf = shelves.get(kind)
        seen = shelf.get(namespace, name) if shelf is not None else None
        return seen.metadata.owner if seen is not None else ""


def _is_about_tenant(event: KubeEvent) -> bool:
    return event.involved_object.namespace.startswith(_TENANT_PREFIX)


def _is_held_alike(old: KubePod, new: KubePod) -> bool:
    """Whether a pod goes on holding what it held, or nothing."""
    if old.spec == new.spec:  # nearly always, and cheaper than adding up both
        return (old.status.phase in _ENDED) == (new.status.phase in _ENDED)
    return _holding(old) == _holding(new)


def _holding(pod: KubePod | None) -> tuple[str, Resources]:
    """Node and amount that a pod holds; ("", nothing) when it holds nothing."""
    if pod is None or not pod.spec.node_name or pod.status.phase in _ENDED:
        return "", NOTHING
    return pod.spec.node_name, resources.of_pod(pod.spec)
