"""What holds up a namespace that is being removed: which object, which finalizer, and what to do.

Kubernetes tells kinds, counts and finalizers in the namespace's conditions; the objects themselves
are looked up, where Homeport knows the kind.
https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from portal.cluster.client import Cluster
from portal.cluster.errors import ClusterError
from portal.cluster.kinds import KINDS

Object = dict[str, Any]

MOST = 20  # objects that are told
# "persistentvolumeclaims. has 1 resource instances", "widgets.example.org has 2 resource instances"
_REMAINS = re.compile(r"([a-z0-9-]+)\.([a-z0-9.-]*) has (\d+) resource instance")
# Conditions of a namespace's removal that say why it does not go on, the most telling first.
_TELLING = (
    "NamespaceDeletionContentFailure",
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceFinalizersRemaining",
    "NamespaceContentRemaining",
)
_CLAIM_IN_USE = "kubernetes.io/pvc-protection"
# Listing Secrets is reading them, which no account of ours may; nothing holds up an Event.
_NOT_LISTED = frozenset({"Secret", "Event"})
# Until all pods are gone nothing else is removed, and the conditions say that nothing is left.
# https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/#deletion-order
_FIRST_TO_GO = "Pod"
_COLLECTED = frozenset({"foregroundDeletion", "orphan"})


@dataclass(frozen=True)
class Blocker:
    """One object that is still there.

    Attributes:
        finalizers: what must be taken off it before it can go; empty: it only takes its time.
    """

    kind: str
    name: str
    namespace: str = ""
    finalizers: tuple[str, ...] = ()

    @property
    def detail(self) -> str:
        """A sentence for the list of objects."""
        if not self.finalizers:
            return "is being removed"
        return f"is held by the finalizer {', '.join(self.finalizers)}"


@dataclass(frozen=True)
class Blockers:
    """Why a namespace is not gone yet, and the next step."""

    text: str
    next_step: str
    held: tuple[Blocker, ...] = ()


def remaining(conditions: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """`plural.group` -> how many are left, as the namespace's conditions say."""
    found: dict[str, int] = {}
    for condition in conditions:
        if condition.get("status") != "True":
            continue
        for plural, group, count in _REMAINS.findall(str(condition.get("message", ""))):
            found[f"{plural}.{group}".rstrip(".")] = int(count)
    return found


async def find(
    cluster: Cluster, namespace: str, conditions: Sequence[Mapping[str, Any]]
) -> Blockers:
    """Looks up pods and the objects that the conditions count; what may not be read is left out."""
    left = remaining(conditions)
    held: list[Blocker] = []
    for kind in KINDS.values():
        plural = f"{kind.plural}.{kind.group}".rstrip(".")
        is_told = plural in left or kind.name == _FIRST_TO_GO
        if not is_told or not kind.is_namespaced or kind.name in _NOT_LISTED:
            continue
        with suppress(ClusterError):
            held += [_blocker(obj) for obj in await cluster.list(kind.name, namespace)]
    return explain(conditions, held[:MOST])


def _blocker(obj: Object) -> Blocker:
    meta = obj["metadata"]
    finalizers = tuple(str(name) for name in meta.get("finalizers") or ())
    return Blocker(str(obj["kind"]), str(meta["name"]), str(meta.get("namespace", "")), finalizers)


def explain(conditions: Sequence[Mapping[str, Any]], held: Sequence[Blocker]) -> Blockers:
    """The objects and conditions in words. Pure."""
    by_type = {c.get("type"): str(c.get("message", "")) for c in conditions if _is_true(c)}
    said = next((by_type[name] for name in _TELLING if by_type.get(name)), "")
    if shown := [obj for obj in held if obj.finalizers] or held:
        first, more = shown[0], f" and {len(shown) - 1} more" if len(shown) > 1 else ""
        text = f"{first.kind} {first.name} {first.detail}{more}"
        return Blockers(text, _next_step(first), tuple(held))
    if said:
        step = "Look with kubectl at the objects named there, and remove what holds them."
        return Blockers(f"The cluster says: {said}", step)
    return Blockers("The cluster is removing what is in it", "")


def _is_true(condition: Mapping[str, Any]) -> bool:
    return condition.get("status") == "True"


def _next_step(held: Blocker) -> str:
    if not held.finalizers:
        if held.kind == "Pod":
            return (
                "Pods have up to two minutes to end. One that stays longer is on a node that does "
                "not respond: bring the node back, or remove it from the cluster."
            )
        return ""
    if _CLAIM_IN_USE in held.finalizers:
        return "A pod still uses this volume; it is removed when the pod has ended."
    if _COLLECTED.issuperset(held.finalizers):
        return "The cluster's garbage collector removes it; no action needed."
    foreign = next(name for name in held.finalizers if name not in _COLLECTED)
    return (
        f"The controller behind {foreign} must finish its work and remove the finalizer. If "
        "that controller no longer exists, remove the finalizer by hand: kubectl edit "
        f"{held.kind.lower()} {held.name} -n {held.namespace}, and delete it from "
        "metadata.finalizers."
    )
