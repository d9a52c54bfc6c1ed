"""Everything Homeport sees of the cluster, kept in memory by one watch per kind.

The reconciler reads it; nobody else needs to. Each event updates the indices, so that a question
about a job, a tenant or a node costs what its answer holds, whatever the size of the cluster.
Secrets are never watched. Everything happens on one event loop, so there are no locks.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from portal import supervise
from portal.cluster import labels, resources
from portal.cluster.client import Cluster
from portal.cluster.informer import Informer
from portal.cluster.listwatch import (
    NORMAL_TIMING,
    Key,
    ListOptions,
    ListWatch,
    ReconnectGate,
    WatchEvent,
    WatchTiming,
)
from portal.cluster.objects import (
    KubeDeployment,
    KubeEvent,
    KubeJob,
    KubeNamespace,
    KubeNode,
    KubePod,
    KubePodGroup,
    KubePVC,
    KubeQuota,
    KubeRoleBinding,
    KubeService,
    KubeServiceAccount,
    KubeSpecOnly,
    PartialObjectMetadata,
    Watchable,
)
from portal.cluster.resources import NOTHING, Resources

T = TypeVar("T", bound=Watchable)

_DELETED_PODS = 10_000  # a burst beyond it loses exit codes, nothing else
_TENANT_PREFIX = "u-"  # of every namespace that Homeport makes
_ENDED = {"Succeeded", "Failed"}  # phases of pods that hold nothing any more


@dataclass
class ClusterChanges:
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


class ClusterCache:
    """The informers, what changed on them, and what pods hold of the nodes."""

    def __init__(self, cluster: Cluster, timing: WatchTiming = NORMAL_TIMING) -> None:
        """Needs a running event loop; `run` fills it."""
        self.changed = asyncio.Event()
        # A pod that is stopped ends and is removed within milliseconds, between two ticks: its exit
        # code is then only in the state that was held when the removal arrived.
        self._deleted_pods: deque[KubePod] = deque(maxlen=_DELETED_PODS)
        self._changes = ClusterChanges()
        self._held: dict[str, Resources] = {}
        self._gpu_pods: dict[str, dict[Key, KubePod]] = defaultdict(dict)
        self._events_about: dict[tuple[str, str, str], dict[str, KubeEvent]] = defaultdict(dict)
        self._informers: list[Informer[Any]] = []

        gate = ReconnectGate()

        def add(chosen: ListOptions[T], note: Callable[[WatchEvent[T]], None]) -> Informer[T]:
            informer = Informer(cluster, chosen, note, timing=timing, gate=gate)
            self._informers.append(informer)
            return informer

        def managed(kind: str, seen: type[T], **more: Any) -> Informer[T]:
            selector = labels.MANAGED_SELECTOR
            return add(ListOptions(kind, seen, label_selector=selector, **more), self._note)

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
        self.pod_groups = managed("PodGroup", KubePodGroup, is_optional=True)
        # Pods of all namespaces: foreign ones hold capacity too.
        self.pods = add(ListOptions("Pod", KubePod), self._note_pod)
        self.nodes = add(ListOptions("Node", KubeNode), self._note_node)
        about_tenants = ListOptions("Event", KubeEvent, keep=_is_about_tenant)
        self.events = add(about_tenants, self._note_event)

    # --- life ---
    async def run(self) -> None:
        """Keeps all watches going until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                name = f"watch of {informer.watch.options.kind}"
                group.create_task(supervise.run_forever(name, informer.watch.run), name=name)

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed once; before, absence means nothing."""
        return all(informer.watch.synced.is_set() for informer in self._informers)

    async def wait_synced(self) -> None:
        for informer in self._informers:
            await informer.watch.synced.wait()

    @property
    def problem(self) -> str:
        """Why the cache may be out of date, as a sentence; empty when all watches work."""
        failing = [
            informer.watch.health for informer in self._informers if informer.watch.health.problem
        ]
        return min(failing, key=lambda health: health.problem_since).problem if failing else ""

    @property
    def watches(self) -> list[ListWatch[Any]]:
        """One for each kind that is served, for the health page."""
        watches = [informer.watch for informer in self._informers]
        return [watch for watch in watches if watch.is_served]

    def take_changes(self) -> ClusterChanges:
        """What changed since the last call; clears `changed`. Call once per tick."""
        taken, self._changes = self._changes, ClusterChanges()
        self.changed.clear()
        return taken

    @property
    def deleted_pods(self) -> Sequence[KubePod]:
        """What `take_deleted_pods` would answer; they stay to be taken."""
        return tuple(self._deleted_pods)

    def take_deleted_pods(self) -> list[KubePod]:
        """Pods of ours that went since the last call, in their last state."""
        taken = list(self._deleted_pods)
        self._deleted_pods.clear()
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
        if self._changes.heard_at is None:
            self._changes.heard_at = time.monotonic()
        self.changed.set()

    def _note(self, change: WatchEvent[Any]) -> None:
        for seen in (change.old, change.new):
            owner = seen.metadata.owner if seen is not None else ""
            if owner:
                self._changes.owners.add(owner)
                # A Namespace lies in no namespace: its own name is meant.
                self._changes.namespaces.add(change.key[0] or change.key[1])
        self._wake()

    def _note_pod(self, change: WatchEvent[KubePod]) -> None:
        old, new = change.old, change.new
        if old is not None and new is None and _is_ours(old):
            self._deleted_pods.append(old)
        if old is not None and new is not None and _is_held_alike(old, new):
            is_news = self._renew(change.key, old, new)
        else:
            is_news = self._hold_anew(change)
        if _is_ours(old) or _is_ours(new):
            self._note(change)
        elif is_news:
            self._wake()

    def _hold_anew(self, change: WatchEvent[KubePod]) -> bool:
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
            self._changes.nodes.add(new.spec.node_name)
        return is_news

    def _hold(self, node: str, total: Resources) -> None:
        self._changes.nodes.add(node)
        if total == NOTHING:
            self._held.pop(node, None)
        else:
            self._held[node] = total

    def _note_node(self, change: WatchEvent[KubeNode]) -> None:
        self._changes.nodes.add(change.key[1])
        self._wake()

    def _note_event(self, change: WatchEvent[KubeEvent]) -> None:
        if change.old is not None:
            self._forget_event(change.key[1], change.old)
        if change.new is not None:
            about = change.new.involved_object
            self._events_about[about.namespace, about.kind, about.name][change.key[1]] = change.new
            owner = self._owner_of(about.kind, about.namespace, about.name)
            if owner:
                self._changes.owners.add(owner)
            self._changes.namespaces.add(about.namespace)
            self._wake()

    def _forget_event(self, name: str, event: KubeEvent) -> None:
        about = event.involved_object
        key = (about.namespace, about.kind, about.name)
        self._events_about[key].pop(name, None)
        if not self._events_about[key]:
            del self._events_about[key]

    def _owner_of(self, kind: str, namespace: str, name: str) -> str:
        informers: dict[str, Informer[Any]] = {
            "Pod": self.pods,
            "Job": self.jobs,
            "Deployment": self.deployments,
            "PersistentVolumeClaim": self.claims,
        }
        informer = informers.get(kind)
        seen = informer.get(namespace, name) if informer is not None else None
        return seen.metadata.owner if seen is not None else ""


def _is_about_tenant(event: KubeEvent) -> bool:
    return event.involved_object.namespace.startswith(_TENANT_PREFIX)


def _is_ours(pod: KubePod | None) -> bool:
    return pod is not None and bool(pod.metadata.owner)


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
