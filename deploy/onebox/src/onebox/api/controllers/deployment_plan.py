"""What a Deployment wants of its ReplicaSets: which one is new, how many replicas each. Pure.

Rules of k8s.io/kubernetes/pkg/controller/deployment (recreate.go, rolling.go, util). One
simplification: a rolling Deployment that is scaled in the middle of a rollout gives the change to
its new ReplicaSet and does not spread it over the old ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from onebox.api.controllers.objects import (
    annotations_of,
    controller_reference,
    created_at,
    is_deleting,
    name_of,
    spec_of,
    status_of,
)
from onebox.api.controllers.replicaset import wanted_replicas
from onebox.api.resources import Obj
from onebox.api.store import clone

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
NOT_COPIED = frozenset({LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED, MOST})

DEFAULT_HISTORY_LIMIT = 10
NO_DEADLINE_S = 2**31 - 1
_HASH_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # rand.SafeEncodeString upstream


def template_hash(template: Obj, collisions: int) -> str:
    """Hash a pod template into the value of the pod-template-hash label (10 characters at most).

    As upstream 32-bit FNV-1a in the safe alphabet, but over JSON: values differ from upstream's.
    """
    text = json.dumps(template, sort_keys=True, separators=(",", ":")) + str(collisions or "")
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return "".join(_HASH_ALPHABET[ord(digit) % len(_HASH_ALPHABET)] for digit in str(value))


def is_recreate(deployment: Obj) -> bool:
    """True for the strategy Recreate."""
    return (spec_of(deployment).get("strategy") or {}).get("type") == "Recreate"


def _plain(template: Obj) -> Obj:
    plain = clone(template)
    metadata = plain.setdefault("metadata", {})
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != HASH_LABEL}
    metadata["labels"] = labels
    return plain


def oldest_first(replicasets: Iterable[Obj]) -> list[Obj]:
    """Sort by creation, then name."""
    return sorted(replicasets, key=lambda rs: (created_at(rs), name_of(rs)))


def has_template_of(replicaset: Obj, deployment: Obj) -> bool:
    """True if the ReplicaSet's pods are what the Deployment asks for now."""
    ours = _plain(spec_of(deployment).get("template") or {})
    return ours == _plain(spec_of(replicaset).get("template") or {})


def find_new(deployment: Obj, replicasets: Iterable[Obj]) -> Obj | None:
    """The oldest ReplicaSet with the Deployment's template, if any."""
    return next((rs for rs in oldest_first(replicasets) if has_template_of(rs, deployment)), None)


def revision_of(obj: Obj) -> int:
    """The revision in the annotation; 0 when absent or no number."""
    text = annotations_of(obj).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def surge_of(deployment: Obj) -> int:
    """maxSurge in pods, rounded up; 0 unless RollingUpdate."""
    return 0 if is_recreate(deployment) else _bounds(deployment)[0]


def unavailable_of(deployment: Obj) -> int:
    """maxUnavailable in pods, rounded down, at most all; 0 unless RollingUpdate."""
    replicas = wanted_replicas(deployment)
    if is_recreate(deployment) or replicas == 0:
        return 0
    return min(_bounds(deployment)[1], replicas)


def _bounds(deployment: Obj) -> tuple[int, int]:
    rolling = (spec_of(deployment).get("strategy") or {}).get("rollingUpdate") or {}
    replicas = wanted_replicas(deployment)
    surge = _resolve(rolling.get("maxSurge", "25%"), replicas, round_up=True)
    unavailable = _resolve(rolling.get("maxUnavailable", "25%"), replicas, round_up=False)
    # Both zero would never move; upstream then lets one be unavailable.
    return surge, unavailable or (0 if surge else 1)


def _resolve(value: Any, total: int, *, round_up: bool) -> int:
    if isinstance(value, str) and value.endswith("%"):
        hundredths = int(value[:-1]) * total
        return -(-hundredths // 100) if round_up else hundredths // 100
    return int(value)


def render_replicaset(deployment: Obj, olds: Sequence[Obj], collisions: int) -> Obj:
    """Make the ReplicaSet for the Deployment's present template."""
    template = clone(spec_of(deployment).get("template") or {})
    hash_value = template_hash(template, collisions)
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), HASH_LABEL: hash_value}
    selector = clone(spec_of(deployment).get("selector") or {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: hash_value}
    spec: Obj = {"replicas": 0, "selector": selector, "template": template}
    if spec_of(deployment).get("minReadySeconds"):
        spec["minReadySeconds"] = spec_of(deployment)["minReadySeconds"]
    replicaset: Obj = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{name_of(deployment)}-{hash_value}",
            "labels": dict(metadata["labels"]),
            "annotations": new_annotations(deployment, {}, olds),
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": spec,
    }
    spec["replicas"] = replicas_of_new(deployment, replicaset, olds)
    replicaset["metadata"]["annotations"].update(size_annotations(deployment))
    return replicaset


def new_annotations(
    deployment: Obj, existing: dict[str, str], olds: Iterable[Obj]
) -> dict[str, str]:
    """Annotations of the new ReplicaSet: the Deployment's, and the next revision."""
    copied = {k: v for k, v in annotations_of(deployment).items() if k not in NOT_COPIED}
    result = {**existing, **copied}
    revision = max((revision_of(rs) for rs in olds), default=0) + 1
    old_text = existing.get(REVISION, "")
    if (int(old_text) if old_text.isdecimal() else 0) < revision:
        result[REVISION] = str(revision)
        if old_text:  # a roll-back to this template: remember what it was before
            history = existing.get(REVISION_HISTORY)
            result[REVISION_HISTORY] = f"{history},{old_text}" if history else old_text
    return result


def size_annotations(deployment: Obj) -> dict[str, str]:
    """Annotations that tell a ReplicaSet what the whole Deployment wants."""
    replicas = wanted_replicas(deployment)
    return {DESIRED: str(replicas), MOST: str(replicas + surge_of(deployment))}


def replicas_of_new(deployment: Obj, new: Obj, olds: Iterable[Obj]) -> int:
    """How many replicas the new ReplicaSet may have now."""
    replicas, present = wanted_replicas(deployment), wanted_replicas(new)
    if is_recreate(deployment) or present > replicas:
        return replicas
    total = present + sum(wanted_replicas(rs) for rs in olds)
    room = replicas + surge_of(deployment) - total
    return present if room <= 0 else present + min(room, replicas - present)


def replicas_of_olds(deployment: Obj, new: Obj, olds: Iterable[Obj]) -> dict[str, int]:
    """How many replicas the old ReplicaSets of a rolling Deployment may keep, if fewer.

    Unhealthy replicas go first, then as many as availability allows, oldest first.
    """
    keep = {name_of(rs): wanted_replicas(rs) for rs in olds}
    before = dict(keep)
    least = wanted_replicas(deployment) - unavailable_of(deployment)
    total = wanted_replicas(new) + sum(keep.values())
    may_go = total - least - (wanted_replicas(new) - available_of(new))
    ordered = oldest_first(olds)
    for rs in ordered:
        unhealthy = min(max(0, may_go), max(0, keep[name_of(rs)] - available_of(rs)))
        keep[name_of(rs)] -= unhealthy
        may_go -= unhealthy
    if total - least - (wanted_replicas(new) - available_of(new)) > 0:
        spare = available_of(new) + sum(available_of(rs) for rs in ordered) - least
        for rs in ordered:
            gone = min(max(0, spare), keep[name_of(rs)])
            keep[name_of(rs)] -= gone
            spare -= gone
    return {name: count for name, count in keep.items() if count != before[name]}


def available_of(replicaset: Obj) -> int:
    """status.availableReplicas."""
    return int(status_of(replicaset).get("availableReplicas") or 0)


def actual_of(replicaset: Obj) -> int:
    """status.replicas."""
    return int(status_of(replicaset).get("replicas") or 0)


def forgotten(deployment: Obj, olds: Iterable[Obj]) -> list[Obj]:
    """Old ReplicaSets beyond revisionHistoryLimit that have no pods left."""
    limit = spec_of(deployment).get("revisionHistoryLimit")
    limit = DEFAULT_HISTORY_LIMIT if limit is None else int(limit)
    alive = sorted((rs for rs in olds if not is_deleting(rs)), key=revision_of)
    surplus = alive[: max(0, len(alive) - limit)]
    return [
        rs
        for rs in surplus
        if actual_of(rs) == 0
        and wanted_replicas(rs) == 0
        and int(status_of(rs).get("observedGeneration") or 0) >= rs["metadata"].get("generation", 1)
    ]
