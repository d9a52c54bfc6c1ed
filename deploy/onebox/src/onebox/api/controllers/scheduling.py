"""May a pod run on a node, and on which one best? Pure.

Filters in the order and with the words of kube-scheduler 1.36 (pkg/scheduler/framework/plugins).
Known and not looked at: preferred affinities, host ports, topology spread (with one node it
always holds), dynamic resource claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from onebox.api.admission.totals import pod_total, read_amounts
from onebox.api.controllers.matching import has_labels, meets_all, meets_selector
from onebox.api.controllers.objects import (
    find_condition,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from onebox.api.resources import Obj
from onebox.quantity import NANOS

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"

Amounts = dict[str, int]  # resource -> whole nano-units, so that nothing is rounded


def pod_requests(pod: Obj) -> Amounts:
    """What a pod asks for, init containers and sidecars counted as upstream does."""
    return {name: amount.nanos for name, amount in pod_total(spec_of(pod), "requests").items()}


@dataclass
class NodeState:
    """A node and what its pods use of it.

    Attributes:
        used: requests of its pods that have not ended.
        pods: those pods.
    """

    node: Obj
    allocatable: Amounts
    used: Amounts = field(default_factory=dict)
    pods: list[Obj] = field(default_factory=list)

    def place(self, pod: Obj, requests: Amounts) -> None:
        """Count a pod in."""
        for name, amount in requests.items():
            self.used[name] = self.used.get(name, 0) + amount
        self.pods.append(pod)


@dataclass(frozen=True)
class Rejection:
    """Why a node does not take a pod.

    Attributes:
        reasons: one sentence for each thing at fault, counted over the nodes.
        room_could_be_made: fewer pods on the node would help.
    """

    reasons: tuple[str, ...]
    room_could_be_made: bool = False


@dataclass(frozen=True)
class Wish:
    """A pod to be placed, with what was looked up for it.

    Attributes:
        volume_terms: nodeAffinity.required of each volume that its claims are bound to.
        namespaces: labels of all namespaces (for namespaceSelector).
    """

    pod: Obj
    requests: Amounts
    volume_terms: tuple[Obj, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def read_node(node: Obj) -> NodeState:
    """Start counting a node without pods."""
    status = status_of(node)
    offered = read_amounts(status.get("allocatable") or status.get("capacity"))
    return NodeState(node, {name: amount.nanos for name, amount in offered.items()})


def choose(wish: Wish, nodes: Sequence[NodeState]) -> tuple[NodeState | None, dict[str, Rejection]]:
    """Find the best node that takes the pod; else why each node does not."""
    rejections: dict[str, Rejection] = {}
    fitting: list[NodeState] = []
    for state in nodes:
        rejection = reject(wish, state, nodes)
        if rejection is None:
            fitting.append(state)
        else:
            rejections[name_of(state.node)] = rejection
    if not fitting:
        return None, rejections
    return min(fitting, key=lambda s: (-least_allocated(wish, s), name_of(s.node))), rejections


def reject(wish: Wish, state: NodeState, nodes: Sequence[NodeState]) -> Rejection | None:
    """The first thing that keeps the pod off the node; None if nothing does."""
    pod, node = wish.pod, state.node
    if spec_of(node).get("unschedulable") and not _tolerates_cordon(pod):
        return Rejection(("node(s) were unschedulable",))
    if any(not is_tolerated(taint, pod) for taint in effective_taints(node)):
        return Rejection(("node(s) had untolerated taint(s)",))
    if not is_selected(pod, node):
        return Rejection(("node(s) didn't match Pod's node affinity/selector",))
    lacking = _lacking(wish, state)
    if lacking:
        return lacking
    if not all(meets_node_selector(terms, node) for terms in wish.volume_terms):
        return Rejection(("node(s) didn't match PersistentVolume's node affinity",))
    return _reject_by_pods(wish, state, nodes)


def effective_taints(node: Obj) -> list[Obj]:
    """Taints that keep pods away, including the one that an unready node is about to get."""
    taints = [
        taint
        for taint in spec_of(node).get("taints") or ()
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    ]
    ready = find_condition(status_of(node).get("conditions"), "Ready")
    state = ready.get("status") if ready else None
    if state != "True":
        key = UNREACHABLE if state == "Unknown" else NOT_READY
        taints.append({"key": key, "effect": "NoSchedule"})
    return taints


def is_tolerated(taint: Obj, pod: Obj) -> bool:
    """True if one of the pod's tolerations covers the taint."""
    for toleration in spec_of(pod).get("tolerations") or ():
        if toleration.get("effect") not in (None, "", taint.get("effect")):
            continue
        if toleration.get("key") not in (None, "", taint.get("key")):
            continue
        if toleration.get("operator") == "Exists":
            return True
        if toleration.get("key") and (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def _tolerates_cordon(pod: Obj) -> bool:
    return is_tolerated({"key": UNSCHEDULABLE, "effect": "NoSchedule"}, pod)


def is_selected(pod: Obj, node: Obj) -> bool:
    """True if nodeSelector and required node affinity both admit the node."""
    spec = spec_of(pod)
    if not has_labels(labels_of(node), spec.get("nodeSelector")):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or meets_node_selector(required, node)


def meets_node_selector(selector: Obj, node: Obj) -> bool:
    """True if one of the terms holds; a term without conditions holds nowhere."""
    fields = {"metadata.name": name_of(node)}
    for term in selector.get("nodeSelectorTerms") or ():
        expressions, of_fields = term.get("matchExpressions"), term.get("matchFields")
        if not expressions and not of_fields:
            continue
        if meets_all(expressions, labels_of(node)) and meets_all(of_fields, fields):
            return True
    return False


def _lacking(wish: Wish, state: NodeState) -> Rejection | None:
    reasons: list[str] = []
    could_fit = True
    if (len(state.pods) + 1) * NANOS > state.allocatable.get("pods", 0):
        reasons.append("Too many pods")
    for resource, amount in sorted(wish.requests.items(), key=_cpu_memory_first):
        total = state.allocatable.get(resource, 0)
        if amount > 0 and amount > total - state.used.get(resource, 0):
            reasons.append(f"Insufficient {resource}")
            could_fit = could_fit and amount <= total
    return Rejection(tuple(reasons), could_fit) if reasons else None


def _cpu_memory_first(item: tuple[str, int]) -> tuple[int, str]:
    order = ("cpu", "memory", "ephemeral-storage")
    return (order.index(item[0]) if item[0] in order else len(order), item[0])


def least_allocated(wish: Wish, state: NodeState) -> float:
    """Share of CPU and memory, from 0 to 1, that stays free with the pod on the node."""
    shares = []
    for resource in ("cpu", "memory"):
        total = state.allocatable.get(resource, 0)
        used = state.used.get(resource, 0) + wish.requests.get(resource, 0)
        shares.append((total - used) / total if total else 0.0)
    return sum(shares) / len(shares)


def _terms(pod: Obj, kind: str) -> Sequence[Obj]:
    affinity = (spec_of(pod).get("affinity") or {}).get(kind) or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()


def has_pod_affinity(pod: Obj) -> bool:
    """True if the pod wants to run where another pod runs."""
    return bool(_terms(pod, "podAffinity"))


def _reject_by_pods(wish: Wish, state: NodeState, nodes: Sequence[NodeState]) -> Rejection | None:
    pod = wish.pod
    for term in _terms(pod, "podAffinity"):
        if not _has_company(wish, term, state, nodes):
            return Rejection(("node(s) didn't match pod affinity rules",))
    for term in _terms(pod, "podAntiAffinity"):
        if any(_is_meant(wish, pod, term, other) for other in _same_domain(term, state, nodes)):
            return Rejection(
                ("node(s) didn't match pod anti-affinity rules",), room_could_be_made=True
            )
    for other in (other for each in nodes for other in each.pods):
        for term in _terms(other, "podAntiAffinity"):
            if other in _same_domain(term, state, nodes) and _is_meant(wish, other, term, pod):
                return Rejection(
                    ("node(s) didn't satisfy existing pods anti-affinity rules",),
                    room_could_be_made=True,
                )
    return None


def _has_company(wish: Wish, term: Obj, state: NodeState, nodes: Sequence[NodeState]) -> bool:
    if str(term.get("topologyKey")) not in labels_of(state.node):
        return False
    if any(_is_meant(wish, wish.pod, term, other) for other in _same_domain(term, state, nodes)):
        return True
    # The first of a group that wants to be together may go anywhere.
    nobody = not any(_is_meant(wish, wish.pod, term, o) for each in nodes for o in each.pods)
    return nobody and _is_meant(wish, wish.pod, term, wish.pod)


def _same_domain(term: Obj, state: NodeState, nodes: Sequence[NodeState]) -> list[Obj]:
    key = str(term.get("topologyKey"))
    domain = labels_of(state.node).get(key)
    if domain is None:
        return []
    return [pod for each in nodes if labels_of(each.node).get(key) == domain for pod in each.pods]


def _is_meant(wish: Wish, owner: Obj, term: Obj, pod: Obj) -> bool:
    """True if an affinity term of `owner` is about `pod`."""
    named = term.get("namespaces") or ()
    by_label = term.get("namespaceSelector")
    if not named and by_label is None:
        if namespace_of(pod) != namespace_of(owner):
            return False
    elif namespace_of(pod) not in named and not meets_selector(
        by_label, wish.namespaces.get(namespace_of(pod), {})
    ):
        return False
    return meets_selector(term.get("labelSelector"), labels_of(pod))


def priority_of(pod: Obj) -> int:
    """spec.priority; 0 when not set."""
    return int(spec_of(pod).get("priority") or 0)


def explain(wish: Wish, nodes: Sequence[NodeState], rejections: Mapping[str, Rejection]) -> str:
    """Say in kube-scheduler's words why no node takes the pod."""
    if not nodes:
        return "no nodes available to schedule pods"
    count = len(nodes)
    reasons = Counter(reason for each in rejections.values() for reason in each.reasons)
    parts = ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items()))
    text = f"0/{count} nodes are available: {parts}."
    return f"{text} no new claims to deallocate, {_preemption(wish, nodes, rejections)}"


def explain_before_filter(reason: str, node_count: int) -> str:
    """Say why the pod was not tried on any node (its volumes)."""
    if not node_count:
        return "no nodes available to schedule pods"
    nodes = f"0/{node_count} nodes are available:"
    return f"{nodes} {reason}. preemption: {nodes} {node_count} {NOT_HELPFUL}."


def _preemption(wish: Wish, nodes: Sequence[NodeState], rejections: Mapping[str, Rejection]) -> str:
    if spec_of(wish.pod).get("preemptionPolicy") == "Never":
        return "preemption: not eligible due to preemptionPolicy=Never."
    answers: Counter[str] = Counter()
    for state in nodes:
        if not rejections[name_of(state.node)].room_could_be_made:
            answers[NOT_HELPFUL] += 1
        elif any(priority_of(other) < priority_of(wish.pod) for other in state.pods):
            # kube-scheduler would now evict them; onebox never does.
            answers["Running pods of lower priority are not preempted on onebox"] += 1
        else:
            answers[NO_VICTIMS] += 1
    parts = ", ".join(sorted(f"{number} {answer}" for answer, number in answers.items()))
    return f"preemption: 0/{len(nodes)} nodes are available: {parts}."


def wish_for(
    pod: Obj,
    volumes: Iterable[Obj] = (),
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
) -> Wish:
    """Gather what is needed to place a pod; `volumes` are the PVs of its bound claims."""
    terms = tuple(
        required
        for volume in volumes
        if (required := (spec_of(volume).get("nodeAffinity") or {}).get("required"))
    )
    return Wish(pod, pod_requests(pod), terms, namespaces or {})
