"""Which PersistentVolume fits a claim? Pure.

Rules of k8s.io/component-helpers/storage/volume (FindMatchingVolume): same class and mode, all
access modes, enough capacity, not claimed by anyone else; of those the smallest.
"""

from __future__ import annotations

from collections.abc import Iterable

from onebox.api.controllers.matching import meets_selector
from onebox.api.controllers.objects import (
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from onebox.api.resources import Obj
from onebox.quantity import Quantity, parse_quantity


def requested(claim: Obj) -> Quantity:
    """The storage that the claim asks for."""
    resources = spec_of(claim).get("resources") or {}
    return parse_quantity((resources.get("requests") or {}).get("storage", "0"))


def capacity_of(volume: Obj) -> Quantity:
    """The storage that the volume has."""
    return parse_quantity((spec_of(volume).get("capacity") or {}).get("storage", "0"))


def claim_ref(volume: Obj) -> Obj:
    """spec.claimRef, empty when the volume is free."""
    return spec_of(volume).get("claimRef") or {}


def is_named(volume: Obj, claim: Obj) -> bool:
    """True if the volume's claimRef is this claim: the name, and the uid where one is given."""
    ref = claim_ref(volume)
    if (ref.get("namespace"), ref.get("name")) != (namespace_of(claim), name_of(claim)):
        return False
    return not ref.get("uid") or ref["uid"] == uid_of(claim)


def misfit(volume: Obj, claim: Obj) -> str | None:
    """Why the volume cannot serve the claim; None if it can."""
    wanted, offered = spec_of(claim), spec_of(volume)
    if capacity_of(volume) < requested(claim):
        return "requested PV is too small"
    if (wanted.get("storageClassName") or "") != (offered.get("storageClassName") or ""):
        return "storageClassName does not match"
    if (wanted.get("volumeMode") or "Filesystem") != (offered.get("volumeMode") or "Filesystem"):
        return "incompatible volumeMode"
    if not set(wanted.get("accessModes") or ()) <= set(offered.get("accessModes") or ()):
        return "incompatible accessMode"
    return None


def find_volume(claim: Obj, volumes: Iterable[Obj]) -> Obj | None:
    """The volume for an unbound claim: one reserved for it, else the smallest free one."""
    best: Obj | None = None
    for volume in volumes:
        if is_deleting(volume) or misfit(volume, claim) is not None:
            continue
        if claim_ref(volume):
            if is_named(volume, claim):
                return volume
            continue
        if status_of(volume).get("phase", "Available") not in ("Available", "Pending"):
            continue
        selector = spec_of(claim).get("selector")
        if selector is not None and not meets_selector(selector, labels_of(volume)):
            continue
        if best is None or capacity_of(volume) < capacity_of(best):
            best = volume
    return best
