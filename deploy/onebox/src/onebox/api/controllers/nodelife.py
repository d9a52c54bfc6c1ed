"""Watches over nodes: one whose Lease is not renewed becomes Unknown, and so do its pods.

Rules and sentences of k8s.io/kubernetes/pkg/controller/nodelifecycle: after 40 s without a
heartbeat all conditions turn Unknown, the node gets the taints that its Ready condition asks for,
and its pods are no longer Ready. Unlike upstream, pods of a lost node are not evicted: with one
machine there is nowhere to go, and the node deals with its pods when it comes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from onebox.api.controllers.objects import (
    Key,
    created_at,
    find_condition,
    find_time,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from onebox.api.controllers.podstate import is_ready, is_terminal
from onebox.api.controllers.runtime import Controller
from onebox.api.controllers.scheduling import NOT_READY, UNREACHABLE
from onebox.api.resources import Obj
from onebox.api.store import clone
from onebox.api.timestamps import format_time

if TYPE_CHECKING:
    from onebox.api.registry import Api

COMPONENT = "node-controller"
LEASE_NAMESPACE = "kube-node-lease"
SILENCE_S = 40.0  # --node-monitor-grace-period of Kubernetes before 1.32; the node beats every 10 s
CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def wanted_taints(node: Obj, now: datetime) -> list[Obj]:
    """The node's taints, with those that follow from its Ready condition brought in line."""
    taints = spec_of(node).get("taints") or []
    ready = find_condition(status_of(node).get("conditions"), "Ready")
    state = str(ready.get("status")) if ready else "False"
    key = {"True": None, "Unknown": UNREACHABLE}.get(state, NOT_READY)
    others = [taint for taint in taints if taint.get("key") not in (NOT_READY, UNREACHABLE)]
    if key is None:
        return others
    ours = []
    for effect in ("NoSchedule", "NoExecute"):
        old = next((t for t in taints if (t.get("key"), t.get("effect")) == (key, effect)), None)
        new = {"key": key, "effect": effect, "timeAdded": format_time(now)}
        ours.append(old if old is not None else new)
    return others + ours


def silent_conditions(node: Obj, now: datetime) -> list[Obj]:
    """The conditions of a node that has stopped telling."""
    conditions = clone({"all": status_of(node).get("conditions") or []})["all"]
    moment = format_time(now)
    for type_ in CONDITIONS:
        old = find_condition(conditions, type_)
        if old is None:
            reason = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")
            old = {"type": type_, "lastHeartbeatTime": node["metadata"]["creationTimestamp"]}
            conditions.append(old)
        elif old.get("status") == "Unknown":
            continue
        else:
            reason = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
        old.update(status="Unknown", lastTransitionTime=moment, reason=reason[0], message=reason[1])
    return list(conditions)


class NodeLifecycle(Controller):
    """Keys are node names."""

    name = COMPONENT
    kinds = ("nodes", "leases")

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        # Silence counts from here: a node cannot beat while there is nobody to beat to.
        self._started_at = api.clock()

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """A node wakes itself, its Lease wakes it."""
        if plural == "leases" and namespace_of(obj) != LEASE_NAMESPACE:
            return ()
        return ((name_of(obj),),)

    def sync(self, key: Key) -> float | None:
        """Look at one node; come back when its silence would be too long."""
        node = self.api.find("nodes", None, key[0])
        if node is None:
            return None
        now = self.api.clock()
        silence_s = (now - self._last_beat(node)).total_seconds()
        if silence_s >= SILENCE_S:
            self._declare_silent(node, now)
        self._set_taints(key[0], now)
        return SILENCE_S - silence_s if silence_s < SILENCE_S else None

    def _last_beat(self, node: Obj) -> datetime:
        lease = self.api.find("leases", LEASE_NAMESPACE, name_of(node))
        beats = [created_at(node), self._started_at]
        renewed = find_time(spec_of(lease).get("renewTime")) if lease else None
        if renewed:
            beats.append(renewed)
        for condition in status_of(node).get("conditions") or ():
            heartbeat = find_time(condition.get("lastHeartbeatTime"))
            if heartbeat:
                beats.append(heartbeat)
        return max(beats)

    def _declare_silent(self, node: Obj, now: datetime) -> None:
        conditions = silent_conditions(node, now)
        if conditions != status_of(node).get("conditions"):
            changed = clone(node)
            changed.setdefault("status", {})["conditions"] = conditions
            self.api.update("nodes", None, name_of(node), changed, subresource="status")
            text = f"Node {name_of(node)} status is now: NodeNotReady"
            self.api.event(node, "Normal", "NodeNotReady", text, COMPONENT)
        # Again each time: a kill may have come between the node and its pods.
        self._unready_pods(name_of(node), now)

    def _unready_pods(self, node_name: str, now: datetime) -> None:
        for pod in list(self.api.list("pods")):
            if spec_of(pod).get("nodeName") != node_name or is_terminal(pod) or not is_ready(pod):
                continue
            changed = clone(pod)
            ready = find_condition(status_of(changed).get("conditions"), "Ready") or {}
            ready.update(status="False", lastTransitionTime=format_time(now))
            self.api.update("pods", namespace_of(pod), name_of(pod), changed, subresource="status")
            self.api.event(pod, "Warning", "NodeNotReady", "Node is not ready", COMPONENT)

    def _set_taints(self, name: str, now: datetime) -> None:
        node = self.api.get("nodes", None, name)
        taints = wanted_taints(node, now)
        if taints == (spec_of(node).get("taints") or []):
            return
        changed = clone(node)
        changed.setdefault("spec", {})["taints"] = taints
        if not taints:
            changed["spec"].pop("taints")
        self.api.update("nodes", None, name, changed)
