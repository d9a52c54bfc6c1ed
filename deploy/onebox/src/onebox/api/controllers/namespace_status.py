"""The conditions of a namespace that is being removed: what is left in it, and why. Pure.

Types, reasons and sentences of
k8s.io/kubernetes/pkg/controller/namespace/deletion/status_condition_utils.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from onebox.api.controllers.objects import finalizers_of, find_condition
from onebox.api.resources import Obj, Resource
from onebox.api.timestamps import format_time

FINE = {
    "NamespaceDeletionDiscoveryFailure": (
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


def removal_conditions(
    old: Sequence[Obj],
    left: Mapping[Resource, Sequence[Obj]],
    failures: Sequence[str],
    now: datetime,
) -> list[Obj]:
    """The conditions for what is left of each kind and the deletions that failed."""
    bad: dict[str, tuple[str, str]] = {}
    if failures:
        text = f"Failed to delete all resource types, {len(failures)} remaining: "
        bad["NamespaceDeletionContentFailure"] = (
            "ContentDeletionFailed",
            text + ", ".join(sorted(failures)),
        )
    counts = {kind: len(objects) for kind, objects in left.items() if objects}
    if counts:
        parts = sorted(
            f"{kind.plural}.{kind.group} has {count} resource instances"
            for kind, count in counts.items()
        )
        text = "Some resources are remaining: " + ", ".join(parts)
        bad["NamespaceContentRemaining"] = ("SomeResourcesRemain", text)
    finalizers = Counter(
        each for objects in left.values() for obj in objects for each in finalizers_of(obj)
    )
    if finalizers:
        parts = sorted(
            f"{name} in {count} resource instances" for name, count in finalizers.items()
        )
        text = "Some content in the namespace has finalizers remaining: " + ", ".join(parts)
        bad["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", text)
    others = [dict(c) for c in old if c.get("type") not in FINE]
    return others + [_condition(old, type_, bad.get(type_), now) for type_ in FINE]


def _condition(
    old: Sequence[Obj], type_: str, problem: tuple[str, str] | None, now: datetime
) -> Obj:
    reason, message = problem or FINE[type_]
    status = "True" if problem else "False"
    before = find_condition(old, type_)
    moment = format_time(now)
    if before is not None and before.get("status") == status:
        moment = before["lastTransitionTime"]
    return {
        "type": type_,
        "status": status,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }
