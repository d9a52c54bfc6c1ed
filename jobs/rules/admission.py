"""Whether a workload fits: its quota and the nodes' free room, with the arithmetic in words.

Pure. The form asks it before a submit (can this ever fit?), the reconciler at every look at the
queue. Packing is a guess about the scheduler (which also knows taints, affinity and images), so the
reconciler withdraws what was admitted and is then not placed.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Literal

from jobs.rules.amounts import RESOURCES, Amount, NodeCapacity, ReplicaRequest, total_of
from portal import quantity
from portal.pools import DEFAULT

# Of a quota: what can be a part of the cluster by weight; the others are always fixed.
BY_WEIGHT = frozenset({"gpu", "cpu", "memory"})
_LESS_OR_MORE_QUOTA = "Request less, or ask your lead for more quota."
_FIELDS = {"cpu": "cpu", "memory": "memory", "gpu": "gpu", "pods": "count", "nodeports": "count"}


@dataclass(frozen=True)
class Fit:
    """The answer.

    Attributes:
        kind: now, later (as soon as something ends) or never (as things are).
        code: stable word for the reason, empty when it fits now.
        text: sentences for people.
        field: which field of the submit body a `never` is about.
        next_step: what a researcher does before it is submitted; empty: nothing is known, or the text says it.
        free, whole: of the nodes that the text is about; None: it is about something else.
    """

    kind: Literal["now", "later", "never"]
    code: str = ""
    text: str = ""
    field: str = ""
    next_step: str = ""
    free: Amount | None = dataclasses.field(default=None, compare=False)
    whole: Amount | None = dataclasses.field(default=None, compare=False)


NOW = Fit("now")


class KnownNodes:
    """All nodes at one moment; what each request asks of them is counted once."""

    def __init__(self, nodes: Sequence[NodeCapacity], of: str = "") -> None:
        """
        Args:
            of: " of the pool a100", where that are not all nodes.
        """
        self.all = sorted(nodes, key=_filling)
        self.of = of
        self.within = cache(self._within)

    @cached_property
    def pools(self) -> frozenset[str]:
        """Names of those that have nodes."""
        return frozenset(node.pool for node in self.all)

    def _within(self, names: frozenset[str]) -> "KnownNodes":
        """Those of some pools."""
        if self.pools <= names:
            return self
        *others, last = sorted(names)
        of = f"s {', '.join(others)} and {last}" if others else f" {last}"
        return KnownNodes([node for node in self.all if node.pool in names], f" of the pool{of}")

    def resolve(
        self, requests: Sequence[ReplicaRequest], names: Sequence[str]
    ) -> "list[tuple[list[ReplicaRequest], KnownNodes]]":
        """In each of the pools that have nodes: the requests there, and the nodes that these are about.

        All pools stand, where none of them has nodes.
        """
        is_only = len(names) == 1 and self.pools == {names[0]}
        if is_only and not any(request.pool for request in requests):
            return [([request.on_node for request in requests], self)]  # no pools: mostly so
        found = []
        for name in [name for name in names if name in self.pools] or names:
            chosen = pools_of_roles(requests, name, self.pools)
            asked = [replace(request.on_node, pool=chosen[request.role]) for request in requests]
            found.append((asked, self.within(frozenset(chosen.values()))))
        return found

    @cached_property
    def whole(self) -> Amount:
        """What all have, closed ones included."""
        return _sum(node.allocatable for node in self.all)

    @cached_property
    def free(self) -> Amount:
        """What is free on those that take pods."""
        return _sum(node.free for node in self.all if node.is_open)

    @cached_property
    def closed_count(self) -> int:
        return sum(not node.is_open for node in self.all)

    @cached_property
    def kinds(self) -> list[tuple[NodeCapacity, int]]:
        """An empty node of each kind, and how many there are."""
        counts = Counter((node.allocatable, node.only_gpu, node.pool) for node in self.all)
        return [
            (NodeCapacity("", allocatable, allocatable, only_gpu=only_gpu, pool=pool), count)
            for (allocatable, only_gpu, pool), count in counts.items()
        ]


def _filling(node: NodeCapacity) -> tuple[int, int, str]:
    return node.free.gpu, node.free.cpu, node.name


def pools_of_roles(
    requests: Sequence[ReplicaRequest], name: str, known: Collection[str]
) -> dict[str, str]:
    """Role -> the pool where its replicas run, of a workload that runs in the pool of this name.

    The pool is for replicas with GPUs, and for all where none has any; the others run on the nodes of
    `default`, where there are such ones.

    Args:
        known: the pools that have nodes.
    """
    has_gpu = any(request.each.gpu for request in requests)
    rest = DEFAULT if has_gpu and DEFAULT in known else name
    return {
        request.role: request.pool or (name if request.each.gpu else rest) for request in requests
    }


def amount_text(resource: str, number: int) -> str:
    """`3 CPU`, `0.5 CPU`, `16Gi memory`, `2 GPUs`, `4 pods`; below zero reads as zero."""
    number = max(0, number)
    if resource == "cpu":
        whole, thousandths = divmod(number, 1000)
        return f"{whole}.{thousandths:03}".rstrip("0").rstrip(".") + " CPU"
    if resource == "memory":
        return f"{quantity.memory_text(number)} memory"
    if resource == "gpu":
        return "1 GPU" if number == 1 else f"{number} GPUs"
    if resource == "nodeports":
        return (
            "1 notebook or TensorBoard" if number == 1 else f"{number} notebooks and TensorBoards"
        )
    return "1 pod" if number == 1 else f"{number} pods"


def _bare(resource: str, number: int) -> str:
    return amount_text(resource, number).split(" ", 1)[0]


def needs_text(resource: str, wanted: int, free: int, whole: int) -> str:
    """`needs 3 CPU, 1 of 8 free`."""
    return (
        f"needs {amount_text(resource, wanted)}, {_bare(resource, free)} of "
        f"{_bare(resource, whole)} free"
    )


def fit(
    requests: Sequence[ReplicaRequest],
    hard: Amount | None,
    left: Amount | None,
    nodes: Sequence[NodeCapacity],
    *,
    by_weight: bool = False,
    pools: Sequence[str] = (DEFAULT,),
) -> Fit:
    """Whether all replicas together fit now, later or never.

    Args:
        requests: one entry for each role.
        hard: the tenant's whole quota; None while the cluster has not counted it yet.
        left: what of it nobody holds: hard - used - admitted but not yet visible.
        nodes: all nodes with what is free; empty when they are not known (then only the quota is
            looked at, and `now` becomes `later`).
        by_weight: the quota is a part of the cluster by weight; see `over_part`.
        pools: names of those where it may run, in the order to try.
    """
    known = KnownNodes(nodes)
    if found := find_too_large(requests, hard, known, by_weight=by_weight, pools=pools):
        return found
    if hard is None or left is None:
        return Fit("later", "quota_unknown", "Waiting for the cluster to count its quota")
    total = total_of(requests)
    lacking = left.lacking(total)
    if lacking:
        words = "; ".join(needs_text(r, total.get(r), left.get(r), hard.get(r)) for r in lacking)
        return Fit("later", "quota", f"Waiting for quota: {words}")
    return placement(requests, known, pools)


def find_too_large(
    requests: Sequence[ReplicaRequest],
    hard: Amount | None,
    nodes: KnownNodes,
    *,
    by_weight: bool = False,
    pools: Sequence[str] = (DEFAULT,),
) -> Fit | None:
    """What is larger than the whole quota or than all nodes can never start as things are; see `fit`.

    What is larger only than a quota by weight waits, and its answer says so.
    """
    part = over_part(requests, hard) if by_weight else None
    never = None if part else _over_quota(requests, hard)
    if never is None:
        over = [_over_cluster(*resolved) for resolved in nodes.resolve(requests, pools)]
        never = over[0] if all(over) else None
        if never is not None and len(over) > 1:
            text = never.text.replace("never start:", "never start in any of its pools:")
            never = replace(never, text=text)
    return never or part


def over_part(requests: Sequence[ReplicaRequest], hard: Amount | None) -> Fit | None:
    """What is more than a whole quota by weight waits: it grows again with nodes and weights.

    None where it is no more, or where it lacks also what is fixed.
    """
    total = total_of(requests)
    lacking = hard.lacking(total) if hard is not None else []
    if hard is None or not lacking or not BY_WEIGHT.issuperset(lacking):
        return None
    words = "; ".join(
        f"needs {amount_text(r, total.get(r))}, its part by weight is {_bare(r, hard.get(r))} now"
        for r in lacking
    )
    return Fit(
        "later", "quota_part", f"Waiting for quota: {words}", _field_of(requests, lacking[0])
    )


def _over_quota(requests: Sequence[ReplicaRequest], hard: Amount | None) -> Fit | None:
    if hard is None:
        return None
    total = total_of(requests)
    lacking = hard.lacking(total)
    if not lacking:
        return None
    words = "; ".join(
        f"needs {amount_text(r, total.get(r))}, the whole quota is {_bare(r, hard.get(r))}"
        for r in lacking
    )
    text = f"This can never start: {words}."
    return Fit("never", "over_quota", text, _field_of(requests, lacking[0]), _LESS_OR_MORE_QUOTA)


def _field_of(requests: Sequence[ReplicaRequest], resource: str) -> str:
    """The field that weighs most for this resource."""
    heaviest = max(requests, key=lambda request: request.total.get(resource))
    return f"replicas.{heaviest.role}.{_FIELDS[resource]}"


def _over_cluster(requests: Sequence[ReplicaRequest], nodes: KnownNodes) -> Fit | None:
    """Never, when even empty nodes would not do; nodes that are down now count as well."""
    if not nodes.all or not {request.pool for request in requests} - {""} <= nodes.pools:
        return None
    for request in requests:
        kinds = [kind for kind, _ in nodes.kinds if request.pool in ("", kind.pool)]
        if any(kind.places(request.each) for kind in kinds):
            continue
        largest = Amount()
        for kind in kinds:
            largest = largest.largest(kind.allocatable)
        lacking = largest.lacking(request.each)
        words = "; ".join(
            f"needs {amount_text(r, request.each.get(r))}, the largest node{nodes.of} has "
            f"{_bare(r, largest.get(r))}"
            for r in lacking
        )
        words = words or f"needs {_all_text(request.each)}, which no single node{nodes.of} has"
        who, less = ("it", "") if _is_alone(requests) else (f"each {request.role}", " per replica")
        text = f"This can never start: {who} {words}."
        field = f"replicas.{request.role}" + (f".{_FIELDS[lacking[0]]}" if lacking else "")
        step = f"Request less{less}."
        return Fit("never", "over_node", text, field, step, nodes.free, nodes.whole)
    if _have_nodes_of_their_own(requests, nodes.kinds):
        return None
    empty = [replace(kind, name=str(n)) for kind, count in nodes.kinds for n in range(count)]
    if pack(requests, empty) is not None:
        return None
    lacking = nodes.whole.lacking(total_of(requests))
    words = "; ".join(
        f"needs {amount_text(r, total_of(requests).get(r))}, all nodes{nodes.of} in total have "
        f"{_bare(r, nodes.whole.get(r))}"
        for r in lacking
    )
    words = words or "its replicas do not fit on the nodes even when these are empty"
    field = _field_of(requests, lacking[0]) if lacking else "replicas"
    text = f"This can never start: {words}."
    return Fit("never", "over_cluster", text, field, "", nodes.free, nodes.whole)


def _have_nodes_of_their_own(
    requests: Sequence[ReplicaRequest], kinds: Sequence[tuple[NodeCapacity, int]]
) -> bool:
    """Whether there are empty nodes enough for each role apart: mostly so, and quickly said."""
    left = [count for _, count in kinds]
    for request in requests:
        count = request.count
        for place, (kind, _) in enumerate(kinds):
            if request.pool in ("", kind.pool) and (each := kind.places(request.each)):
                taken = min(left[place], -(-count // each))
                left[place] -= taken
                count -= taken * each
            if count <= 0:
                break
        if count > 0:
            return False
    return True


def _is_alone(requests: Sequence[ReplicaRequest]) -> bool:
    return len(requests) == requests[0].count == 1


def _all_text(amount: Amount) -> str:
    return " and ".join(
        amount_text(r, amount.get(r)) for r in RESOURCES if r != "pods" and amount.get(r)
    )


def _sum(amounts: Iterable[Amount]) -> Amount:
    listed = list(amounts)
    return Amount(**{resource: sum(a.get(resource) for a in listed) for resource in RESOURCES})


def placement(
    asked: Sequence[ReplicaRequest], nodes: KnownNodes, pools: Sequence[str] = (DEFAULT,)
) -> Fit:
    """Now, or later with what lacks on the nodes: of several pools, in the first that could have room."""
    resolved = nodes.resolve(asked, pools)
    if len(resolved) > 1:
        resolved = [one for one in resolved if _over_cluster(*one) is None] or resolved[:1]
    answers = [_placement(*one) for one in resolved]
    found = next((answer for answer in answers if answer.kind == "now"), answers[0])
    if found.kind == "now" or len(answers) == 1:
        return found
    return replace(found, text=f"{found.text}; the other pools that it may use have no room either")


def _placement(requests: Sequence[ReplicaRequest], nodes: KnownNodes) -> Fit:
    if not nodes.all:
        text = "Waiting for the cluster: its nodes are not known yet"
        if nodes.of:
            text = f"Waiting for a node: there is none{nodes.of} now"
        return Fit("later", "no_nodes", text)
    total, left_over = total_of(requests), 0
    lacking = nodes.free.lacking(total)
    if not lacking:
        left_over = _fill(requests, nodes.all)[1]
        if not left_over:
            return NOW
    if nodes.closed_count == len(nodes.all):
        words = (
            f"Waiting for a node: all{nodes.of} are cordoned, not ready, reserved, or lack the label of "
            "NODE_SELECTOR"
        )
        return Fit("later", "nodes_closed", words, "", "", nodes.free, nodes.whole)
    words = "; ".join(
        needs_text(r, total.get(r), nodes.free.get(r), nodes.whole.get(r)) for r in lacking
    )
    if not words:
        count = sum(request.count for request in requests)
        placed = count - left_over
        largest = max(
            requests, key=lambda request: (request.each.gpu, request.each.cpu, request.each.memory)
        )
        words = (
            f"enough is free in total, but only {placed} of {count} replicas fit on single nodes{nodes.of} "
            f"(each {largest.role} needs {_all_text(largest.each)} on one node)"
        )
        if _is_alone(requests):
            words = f"needs {_all_text(largest.each)} on one node; no node has that much free"
    if nodes.closed_count:
        words += f"; {nodes.closed_count} of {len(nodes.all)} nodes{nodes.of} take no pods"
    text = f"Waiting for free nodes: {words}"
    return Fit("later", "nodes", text, "", "", nodes.free, nodes.whole)


def pack(
    requests: Sequence[ReplicaRequest], nodes: Sequence[NodeCapacity]
) -> list[NodeCapacity] | None:
    """The nodes with what stays free after all replicas were placed; None when one finds no room.

    First fit, largest replica first (GPUs, then CPU, then memory); nodes with fewer GPUs come
    first, so that what needs none leaves the GPU nodes free.
    """
    filled, left_over = _fill(requests, sorted(nodes, key=_filling))
    return None if left_over else filled


def reserve(
    requests: Sequence[ReplicaRequest], nodes: Sequence[NodeCapacity]
) -> tuple[list[NodeCapacity], dict[str, Amount]]:
    """The nodes after replicas that are admitted already, and what these took of which.

    In the order of the nodes; one without room takes none away.
    """
    after = _fill(requests, nodes)[0]
    pairs = zip(nodes, after, strict=True)
    return after, {old.name: old.free - new.free for old, new in pairs if new is not old}


def without(nodes: Sequence[NodeCapacity], taken: Mapping[str, Amount]) -> list[NodeCapacity]:
    """The nodes with what is free when this is taken of them, by their names."""
    return [
        replace(node, free=node.free - taken[node.name]) if node.name in taken else node
        for node in nodes
    ]


def in_order_of_filling(
    nodes: Iterable[NodeCapacity], last: Collection[str] = ()
) -> list[NodeCapacity]:
    """The fullest first, as `pack` takes them; those of the names `last` after all others."""
    return sorted(nodes, key=lambda node: (node.name in last, _filling(node)))


def _fill(
    requests: Sequence[ReplicaRequest], nodes: Sequence[NodeCapacity]
) -> tuple[list[NodeCapacity], int]:
    """In the order of the nodes: what stays free of each, and how many replicas found no room."""
    filled = list(nodes)
    counts: dict[tuple[Amount, str], int] = {}
    for request in requests:
        key = request.each.on_node, request.pool
        counts[key] = counts.get(key, 0) + request.count
    left_over = 0
    order = sorted(counts, key=lambda one: (one[0].gpu, one[0].cpu, one[0].memory), reverse=True)
    for each, pool in order:
        # A node that has no room for one has none for the next of the same size: one walk for all.
        count = counts[each, pool]
        for place, node in enumerate(filled):
            if not count:
                break
            if node.free.gpu < each.gpu > 0 or node.free.cpu < each.cpu > 0:
                continue  # most of a full cluster, said without a call
            if pool not in ("", node.pool):
                continue
            if taken := min(count, node.places(each)):
                filled[place] = replace(node, free=node.free - each.times(taken))
                count -= taken
        left_over += count
    return filled, left_over
