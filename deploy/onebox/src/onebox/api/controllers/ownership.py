"""Which objects a controller owns: adopting orphans that match, letting go of strangers.

The rules of k8s.io/kubernetes/pkg/controller/controller_ref_manager.go. Adoption and release are
written to the Api at once, so the caller gets the objects as they are afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onebox.api.controllers.matching import meets_selector
from onebox.api.controllers.objects import (
    controller_reference,
    finalizers_of,
    find_controller,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    owners_of,
    spec_of,
    uid_of,
)
from onebox.api.resources import Obj
from onebox.api.status import StatusError
from onebox.api.store import clone

if TYPE_CHECKING:
    from onebox.api.registry import Api

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Claim:
    """What an owner wants to own.

    Attributes:
        plural: kind of the owned objects.
        finalizer: put on adopted objects and taken off released ones; None for none.
    """

    owner: Obj
    plural: str
    finalizer: str | None = None


def claim_owned(api: Api, claim: Claim) -> list[Obj]:
    """Return what the owner owns after adopting and releasing, in the Api's order."""
    owned: list[Obj] = []
    for obj in list(api.list(claim.plural, namespace_of(claim.owner))):
        kept = _claim_one(api, claim, obj)
        if kept is not None:
            owned.append(kept)
    return owned


def _claim_one(api: Api, claim: Claim, obj: Obj) -> Obj | None:
    ref = find_controller(obj)
    matches = meets_selector(spec_of(claim.owner).get("selector"), labels_of(obj))
    if ref is not None:
        if ref.get("uid") != uid_of(claim.owner):
            return None
        if matches:
            return obj
        if not is_deleting(claim.owner):
            _release(api, claim, obj)
        return None
    if not matches or is_deleting(claim.owner) or is_deleting(obj):
        return None
    return _adopt(api, claim, obj)


def _adopt(api: Api, claim: Claim, obj: Obj) -> Obj | None:
    new = clone(obj)
    new["metadata"]["ownerReferences"] = [*owners_of(obj), controller_reference(claim.owner)]
    if claim.finalizer and claim.finalizer not in finalizers_of(obj):
        new["metadata"]["finalizers"] = [*finalizers_of(obj), claim.finalizer]
    try:
        return api.update(claim.plural, namespace_of(obj), name_of(obj), new)
    except StatusError as error:
        log.warning("%s %s cannot be adopted: %s", claim.plural, name_of(obj), error)
        return None


def _release(api: Api, claim: Claim, obj: Obj) -> None:
    new = clone(obj)
    uid = uid_of(claim.owner)
    references = [ref for ref in owners_of(obj) if ref.get("uid") != uid]
    _set_or_drop(new, "ownerReferences", references)
    _set_or_drop(new, "finalizers", without(finalizers_of(obj), claim.finalizer))
    try:
        api.update(claim.plural, namespace_of(obj), name_of(obj), new)
    except StatusError as error:
        log.warning("%s %s cannot be released: %s", claim.plural, name_of(obj), error)


def _set_or_drop(obj: Obj, field: str, items: list[Any]) -> None:
    if items:
        obj["metadata"][field] = items
    else:
        obj["metadata"].pop(field, None)


def without(items: Iterable[str], item: str | None) -> list[str]:
    """The items except one."""
    return [each for each in items if each != item]


def remove_finalizer(api: Api, plural: str, obj: Obj, finalizer: str) -> None:
    """Take a finalizer off an object, if both are still there (by name and uid)."""
    current = api.find(plural, namespace_of(obj) or None, name_of(obj))
    if current is None or uid_of(current) != uid_of(obj):
        return
    if finalizer not in finalizers_of(current):
        return
    new = clone(current)
    _set_or_drop(new, "finalizers", without(finalizers_of(current), finalizer))
    api.update(plural, namespace_of(obj) or None, name_of(obj), new)
