"""Reading Kubernetes objects: identity, conditions, owners, labels.

Pure functions over plain JSON dicts. Nothing here changes its argument: objects that come from
the Api are shared and read-only.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from onebox.api.resources import Obj
from onebox.api.timestamps import parse_time

Key = tuple[str, ...]


def name_of(obj: Mapping[str, Any]) -> str:
    """The object's name."""
    return str(obj["metadata"]["name"])


def namespace_of(obj: Mapping[str, Any]) -> str:
    """The object's namespace; empty for cluster-scoped kinds."""
    return str(obj["metadata"].get("namespace") or "")


def uid_of(obj: Mapping[str, Any]) -> str:
    """The object's uid."""
    return str(obj["metadata"]["uid"])


def key_of(obj: Mapping[str, Any]) -> tuple[str, str]:
    """(namespace, name): the work-queue key of namespaced kinds."""
    return (namespace_of(obj), name_of(obj))


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """The labels, empty when there are none."""
    return obj.get("metadata", {}).get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """The annotations, empty when there are none."""
    return obj.get("metadata", {}).get("annotations") or {}


def finalizers_of(obj: Mapping[str, Any]) -> list[str]:
    """The finalizers, empty when there are none."""
    return obj["metadata"].get("finalizers") or []


def spec_of(obj: Mapping[str, Any]) -> Obj:
    """The spec, empty when there is none."""
    return obj.get("spec") or {}


def status_of(obj: Mapping[str, Any]) -> Obj:
    """The status, empty when there is none."""
    return obj.get("status") or {}


def is_deleting(obj: Mapping[str, Any]) -> bool:
    """True once a deletion has been asked for."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def find_time(value: object) -> datetime | None:
    """Read a timestamp that may be absent (None or empty)."""
    return parse_time(str(value)) if value else None


def created_at(obj: Mapping[str, Any]) -> datetime:
    """When the object was created (whole seconds)."""
    return parse_time(str(obj["metadata"]["creationTimestamp"]))


def owners_of(obj: Mapping[str, Any]) -> list[Obj]:
    """The ownerReferences, empty when there are none."""
    return obj["metadata"].get("ownerReferences") or []


def find_controller(obj: Mapping[str, Any]) -> Obj | None:
    """The one ownerReference with `controller: true`, if any."""
    return next((ref for ref in owners_of(obj) if ref.get("controller")), None)


def is_controlled_by(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """True if `owner` is the object's controller (by uid)."""
    ref = find_controller(obj)
    return ref is not None and ref.get("uid") == uid_of(owner)


def controller_reference(owner: Mapping[str, Any]) -> Obj:
    """The ownerReference that a controller writes on what it creates."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def find_condition(conditions: Iterable[Obj] | None, type_: str) -> Obj | None:
    """The condition of that type, if any."""
    return next((c for c in conditions or () if c.get("type") == type_), None)


def has_condition(obj: Mapping[str, Any], type_: str) -> bool:
    """True if `status.conditions` has the type with status True."""
    condition = find_condition(status_of(obj).get("conditions"), type_)
    return condition is not None and condition.get("status") == "True"
