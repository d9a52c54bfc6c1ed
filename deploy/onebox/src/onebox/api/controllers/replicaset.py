"""The ReplicaSet controller: keeps the wanted number of active pods, replaces those that ended.

Rules of k8s.io/kubernetes/pkg/controller/replicaset. `decide` and `status_for` are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from onebox.api.controllers.creationhold import CreationHolds
from onebox.api.controllers.matching import has_labels, meets_selector
from onebox.api.controllers.objects import (
    Key,
    annotations_of,
    controller_reference,
    finalizers_of,
    find_condition,
    find_controller,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from onebox.api.controllers.ownership import Claim, claim_owned
from onebox.api.controllers.podstate import (
    available_in_s,
    cheapest_first,
    is_active,
    is_ready,
    is_terminating,
)
from onebox.api.controllers.podwriter import PodWriter
from onebox.api.controllers.runtime import Controller
from onebox.api.resources import Obj
from onebox.api.status import StatusError
from onebox.api.store import clone
from onebox.api.timestamps import format_time

if TYPE_CHECKING:
    from onebox.api.registry import Api

COMPONENT = "replicaset-controller"
MOST_PODS_PER_SYNC = 500


@dataclass(frozen=True)
class Decision:
    """How many pods to create, or which to delete."""

    create: int = 0
    delete: tuple[Obj, ...] = ()


def wanted_replicas(workload: Obj) -> int:
    """spec.replicas of a ReplicaSet or Deployment; 1 when not set."""
    replicas = spec_of(workload).get("replicas")
    return 1 if replicas is None else int(replicas)


def decide(replicaset: Obj, active: Sequence[Obj]) -> Decision:
    """Decide about the active pods of a ReplicaSet."""
    if is_deleting(replicaset):
        return Decision()
    missing = wanted_replicas(replicaset) - len(active)
    if missing >= 0:
        return Decision(create=min(missing, MOST_PODS_PER_SYNC))
    surplus = min(-missing, MOST_PODS_PER_SYNC)
    return Decision(delete=tuple(cheapest_first(active)[:surplus]))


def render_pod(replicaset: Obj) -> Obj:
    """Make a pod from the template; hostname and subdomain stay as the template has them."""
    template = clone(spec_of(replicaset).get("template") or {})
    template.setdefault("metadata", {})
    metadata: Obj = {
        "generateName": f"{name_of(replicaset)}-",
        "labels": dict(labels_of(template)),
        "ownerReferences": [controller_reference(replicaset)],
    }
    if annotations_of(template):
        metadata["annotations"] = dict(annotations_of(template))
    if finalizers_of(template):
        metadata["finalizers"] = list(finalizers_of(template))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec_of(template)}


@dataclass(frozen=True)
class Failure:
    """Why the number of pods could not be reached: FailedCreate or FailedDelete."""

    reason: str
    message: str


def status_for(
    replicaset: Obj, pods: Sequence[Obj], failure: Failure | None, now: datetime
) -> tuple[Obj, float | None]:
    """Work out the status.

    Args:
        pods: all that the ReplicaSet owns.

    Returns:
        the status, and the seconds until the next ready pod becomes available (None: none will).
    """
    status = clone(status_of(replicaset))
    spec = spec_of(replicaset)
    template_labels = labels_of(spec.get("template") or {})
    min_ready_s = int(spec.get("minReadySeconds") or 0)
    active = [pod for pod in pods if is_active(pod)]
    waits = [available_in_s(pod, min_ready_s, now) for pod in active]
    status["replicas"] = len(active)
    status["terminatingReplicas"] = sum(is_terminating(pod) for pod in pods)
    counts = {
        "fullyLabeledReplicas": sum(has_labels(labels_of(p), template_labels) for p in active),
        "readyReplicas": sum(is_ready(pod) for pod in active),
        "availableReplicas": sum(wait_s == 0 for wait_s in waits),
    }
    for field, count in counts.items():
        if count:
            status[field] = count
        else:
            status.pop(field, None)
    status["observedGeneration"] = replicaset["metadata"].get("generation", 1)
    _set_failure(status, failure, now)
    return status, min((s for s in waits if s), default=None)


def _set_failure(status: Obj, failure: Failure | None, now: datetime) -> None:
    old = find_condition(status.get("conditions"), "ReplicaFailure")
    others = [c for c in status.get("conditions") or () if c.get("type") != "ReplicaFailure"]
    if failure is None:
        if others:
            status["conditions"] = others
        else:
            status.pop("conditions", None)
    elif old is None:
        condition = {
            "type": "ReplicaFailure",
            "status": "True",
            "lastTransitionTime": format_time(now),
            "reason": failure.reason,
            "message": failure.message,
        }
        status["conditions"] = [*others, condition]


class ReplicaSetController(Controller):
    """Runs ReplicaSets."""

    name = COMPONENT
    kinds = ("replicasets", "pods", "resourcequotas")

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._writer = PodWriter(api, COMPONENT)
        self._holds = CreationHolds()

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """A ReplicaSet wakes itself, a pod its owner, a quota those that it may hold up."""
        if plural == "replicasets":
            if event == "DELETED":
                self._holds.forget(key_of(obj))
            return (key_of(obj),)
        if plural == "resourcequotas":
            return self._holds.relieve(event, obj)
        ref = find_controller(obj)
        if ref is not None:
            kind, name = ref.get("kind"), str(ref["name"])
            return ((namespace_of(obj), name),) if kind == "ReplicaSet" else ()
        return [
            key_of(replicaset)
            for replicaset in self.api.list("replicasets", namespace_of(obj))
            if meets_selector(spec_of(replicaset).get("selector"), labels_of(obj))
        ]

    def sync(self, key: Key) -> float | None:
        """Bring the pods of one ReplicaSet to the wanted number."""
        namespace, name = key
        replicaset = self.api.find("replicasets", namespace, name)
        if replicaset is None:
            return None
        now = self.api.clock()
        pods = claim_owned(self.api, Claim(replicaset, "pods"))
        decision = decide(replicaset, [pod for pod in pods if is_active(pod)])
        failure = self._apply(key, replicaset, decision, now)
        owned = [p for p in self.api.list("pods", namespace) if _owns(replicaset, p)]
        status, available_in = status_for(replicaset, owned, failure, now)
        new = {**replicaset, "status": status}
        self.api.update("replicasets", namespace, name, new, subresource="status")
        hold = self._holds.find(key, now)
        waits = [available_in, hold.left_s(now) if hold else None]
        return min((wait_s for wait_s in waits if wait_s is not None), default=None)

    def _apply(
        self, key: Key, replicaset: Obj, decision: Decision, now: datetime
    ) -> Failure | None:
        for pod in decision.delete:
            try:
                self._writer.delete(replicaset, pod)
            except StatusError as error:
                self._holds.refused(key, error.message, now)
                return Failure("FailedDelete", error.message)
        hold = self._holds.find(key, now) if decision.create else None
        if hold is not None:
            return Failure("FailedCreate", hold.message)
        for _ in range(decision.create):
            refusal = self._writer.create(replicaset, render_pod(replicaset))
            if refusal is not None:
                self._holds.refused(key, refusal, now)
                return Failure("FailedCreate", refusal)
        self._holds.forget(key)
        return None


def _owns(replicaset: Obj, pod: Obj) -> bool:
    ref = find_controller(pod)
    return ref is not None and ref["uid"] == replicaset["metadata"]["uid"]
