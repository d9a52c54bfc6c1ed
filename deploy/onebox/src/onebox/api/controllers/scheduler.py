"""The scheduler: binds pending pods to nodes, highest priority first, then first come.

A pod that fits nowhere is parked with the reason in its PodScheduled condition and an Event, and
tried again when something happens that may help: room is freed, a node changes, a claim is
bound, the pod itself changes. No timers. Decisions are in `scheduling`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onebox.api.controllers import scheduling
from onebox.api.controllers.objects import (
    Key,
    annotations_of,
    created_at,
    find_condition,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from onebox.api.controllers.podstate import is_terminal
from onebox.api.controllers.runtime import Controller
from onebox.api.resources import Obj
from onebox.api.status import StatusError
from onebox.api.store import clone
from onebox.api.strategy import WriteOptions
from onebox.api.timestamps import format_time

if TYPE_CHECKING:
    from onebox.api.registry import Api

COMPONENT = "default-scheduler"
CYCLE: Key = ("cycle",)
PODS_PER_SYNC = 50  # then requests get their turn
SELECTED_NODE = "volume.kubernetes.io/selected-node"


@dataclass(frozen=True)
class Waiting:
    """A pod in the queue: where it is, what is asked, how it is ordered."""

    key: Key
    order: tuple[int, float, int]
    fingerprint: str
    has_claims: bool
    has_affinity: bool


@dataclass
class Claims:
    """The volume claims of a pod.

    Attributes:
        problem: why the pod cannot be placed yet.
        volumes: the PersistentVolumes of the bound ones.
        late: unbound ones that wait for a node to be chosen.
    """

    problem: str | None = None
    volumes: list[Obj] = field(default_factory=list)
    late: list[Obj] = field(default_factory=list)


class Scheduler(Controller):
    """Places pods. One key: a cycle over all that is waiting."""

    name = COMPONENT
    kinds = (
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses",
        "namespaces",
        "pods",
    )

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._queue: dict[str, Waiting] = {}  # by uid
        self._parked: dict[str, Waiting] = {}
        self._nodes: dict[str, str] = {}  # name -> fingerprint of what matters here
        self._requests: dict[str, scheduling.Amounts] = {}  # by uid; a pod's requests do not change
        self._arrivals = 0
        self._namespaces: dict[str, dict[str, str]] = {}  # name -> labels, as of this cycle

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """Queue or drop the pod, and bring back those that the change may help."""
        match plural:
            case "pods":
                self._note_pod(event, obj)
            case "nodes":
                self._note_node(event, obj)
            case "namespaces":
                self._unpark(lambda waiting: waiting.has_affinity)
            case _:
                self._unpark(lambda waiting: waiting.has_claims)
        return (CYCLE,) if self._queue else ()

    def _note_pod(self, event: str, pod: Obj) -> None:
        uid = uid_of(pod)
        gone = event == "DELETED"
        if gone or is_terminal(pod):
            self._requests.pop(uid, None)
        if gone or not is_waiting(pod):
            self._queue.pop(uid, None)
            self._parked.pop(uid, None)
            if not spec_of(pod).get("nodeName"):
                return
            if gone or is_terminal(pod):
                self._unpark(lambda _: True)  # room was freed
            else:
                self._unpark(lambda waiting: waiting.has_affinity)
            return
        known = self._queue.get(uid) or self._parked.get(uid)
        fingerprint = _fingerprint(pod)
        if known is not None and known.fingerprint == fingerprint:
            return
        self._parked.pop(uid, None)
        self._arrivals += 1
        arrival = known.order[2] if known else self._arrivals
        order = (-scheduling.priority_of(pod), created_at(pod).timestamp(), arrival)
        has_claims = any(_claim_name(volume, pod) for volume in spec_of(pod).get("volumes") or ())
        affinity = scheduling.has_pod_affinity(pod)
        self._queue[uid] = Waiting(key_of(pod), order, fingerprint, has_claims, affinity)

    def _note_node(self, event: str, node: Obj) -> None:
        name = name_of(node)
        if event == "DELETED":
            self._nodes.pop(name, None)
            return
        fingerprint = _node_fingerprint(node)
        if self._nodes.get(name) != fingerprint:
            self._nodes[name] = fingerprint
            self._unpark(lambda _: True)

    def _unpark(self, test: Callable[[Waiting], bool]) -> None:
        for uid in [uid for uid, waiting in self._parked.items() if test(waiting)]:
            self._queue[uid] = self._parked.pop(uid)

    def sync(self, key: Key) -> float | None:
        """Place the pods that are waiting, some at a time."""
        nodes = self._snapshot()
        self._namespaces = {name_of(ns): labels_of(ns) for ns in self.api.list("namespaces")}
        ordered = sorted(self._queue.items(), key=lambda item: item[1].order)
        for uid, waiting in ordered[:PODS_PER_SYNC]:
            pod = self.api.find("pods", waiting.key[0], waiting.key[1])
            if pod is None or uid_of(pod) != uid or not is_waiting(pod):
                self._queue.pop(uid, None)
                continue
            bound = self._place(pod, nodes)
            left = self._queue.pop(uid, None)
            if left is not None and not bound:
                self._parked[uid] = left
        return 0.0 if self._queue else None

    def _snapshot(self) -> list[scheduling.NodeState]:
        states = {name_of(node): scheduling.read_node(node) for node in self.api.list("nodes")}
        for pod in self.api.list("pods"):
            state = states.get(spec_of(pod).get("nodeName") or "")
            if state is not None and not is_terminal(pod):
                state.place(pod, self._requests_of(pod))
        return list(states.values())

    def _requests_of(self, pod: Obj) -> scheduling.Amounts:
        uid = uid_of(pod)
        if uid not in self._requests:
            self._requests[uid] = scheduling.pod_requests(pod)
        return self._requests[uid]

    def _place(self, pod: Obj, nodes: list[scheduling.NodeState]) -> bool:
        claims = self._look_up_claims(pod)
        if claims.problem is not None:
            self._fail(pod, scheduling.explain_before_filter(claims.problem, len(nodes)))
            return False
        wish = scheduling.wish_for(pod, claims.volumes, self._namespaces)
        state, rejections = scheduling.choose(wish, nodes)
        if state is None:
            self._fail(pod, scheduling.explain(wish, nodes, rejections))
            return False
        if claims.late:
            self._select_node(claims.late, name_of(state.node))
            return False  # the claims wake the pod when they are bound
        return self._bind(pod, state, wish)

    def _look_up_claims(self, pod: Obj) -> Claims:
        claims = Claims()
        for volume in spec_of(pod).get("volumes") or ():
            name = _claim_name(volume, pod)
            if not name:
                continue
            claim = self.api.find("persistentvolumeclaims", namespace_of(pod), name)
            claims.problem = self._claim_problem(name, claim)
            if claims.problem is not None or claim is None:
                return claims
            if status_of(claim).get("phase") != "Bound":
                claims.late.append(claim)
                continue
            volume_name = str(spec_of(claim).get("volumeName"))
            bound = self.api.find("persistentvolumes", None, volume_name)
            if bound is not None:
                claims.volumes.append(bound)
        return claims

    def _claim_problem(self, name: str, claim: Obj | None) -> str | None:
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        phase = status_of(claim).get("phase")
        if phase == "Lost":
            volume = spec_of(claim).get("volumeName")
            return (
                f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
            )
        if is_deleting(claim):
            return f'persistentvolumeclaim "{name}" is being deleted'
        if phase == "Bound" or self._binds_late(claim):
            return None
        return "pod has unbound immediate PersistentVolumeClaims"

    def _binds_late(self, claim: Obj) -> bool:
        class_name = spec_of(claim).get("storageClassName")
        found = self.api.find("storageclasses", None, class_name) if class_name else None
        return found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"

    def _select_node(self, claims: Iterable[Obj], node_name: str) -> None:
        for claim in claims:
            if SELECTED_NODE in annotations_of(claim):
                continue
            changed = clone(claim)
            changed["metadata"].setdefault("annotations", {})[SELECTED_NODE] = node_name
            self.api.update("persistentvolumeclaims", namespace_of(claim), name_of(claim), changed)

    def _bind(self, pod: Obj, state: scheduling.NodeState, wish: scheduling.Wish) -> bool:
        node_name = name_of(state.node)
        try:
            bound = self.api.bind(namespace_of(pod), name_of(pod), node_name, uid=uid_of(pod))
        except StatusError as error:
            if error.code in (404, 409):  # deleted or bound meanwhile
                return False
            raise
        state.place(bound, wish.requests)
        where = f"{namespace_of(pod)}/{name_of(pod)}"
        text = f"Successfully assigned {where} to {node_name}"
        self.api.event(pod, "Normal", "Scheduled", text, COMPONENT)
        return True

    def _fail(self, pod: Obj, message: str) -> None:
        """Show why the pod waits; the same reason again is not told again."""
        conditions = status_of(pod).get("conditions")
        old = find_condition(conditions, "PodScheduled")
        if old is not None and old.get("status") == "False" and old.get("message") == message:
            return
        moment = format_time(self.api.clock())
        same = old is not None and old.get("status") == "False"
        new = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": old["lastTransitionTime"] if old and same else moment,
            "reason": "Unschedulable",
            "message": message,
        }
        changed = clone(pod)
        status = changed.setdefault("status", {})
        others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
        status["conditions"] = [*others, new]
        status.setdefault("phase", "Pending")
        self.api.update(
            "pods",
            namespace_of(pod),
            name_of(pod),
            changed,
            subresource="status",
            options=WriteOptions(manager="kube-scheduler", is_internal=True),
        )
        self.api.event(pod, "Warning", "FailedScheduling", message, COMPONENT)


def is_waiting(pod: Obj) -> bool:
    """True if the pod is for this scheduler to place."""
    spec = spec_of(pod)
    if spec.get("nodeName") or is_terminal(pod) or is_deleting(pod):
        return False
    if spec.get("schedulingGates"):
        return False
    return bool(spec.get("schedulerName", COMPONENT) == COMPONENT)


def _claim_name(volume: Obj, pod: Obj) -> str | None:
    if volume.get("persistentVolumeClaim"):
        return str(volume["persistentVolumeClaim"].get("claimName"))
    if volume.get("ephemeral"):
        return f"{name_of(pod)}-{volume.get('name')}"
    return None


def _fingerprint(pod: Obj) -> str:
    return repr((labels_of(pod), spec_of(pod)))


def _node_fingerprint(node: Obj) -> str:
    """What of a node matters to placing; heartbeats change nothing in it."""
    status, spec = status_of(node), spec_of(node)
    ready = find_condition(status.get("conditions"), "Ready") or {}
    parts = (labels_of(node), spec.get("taints"), spec.get("unschedulable"))
    return repr((*parts, status.get("allocatable"), ready.get("status")))
