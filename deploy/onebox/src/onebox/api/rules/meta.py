"""Rules for object metadata, on create and on update.

https://github.com/kubernetes/apimachinery/blob/v0.36.3/pkg/api/validation/objectmeta.go
"""

from __future__ import annotations

from typing import Any

from onebox.api.metadata import NameRule
from onebox.api.resources import Obj
from onebox.api.rules import fields, labels, names
from onebox.api.status import Cause

_PATH = "metadata"
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")


def check_meta(meta: Obj, name_rule: NameRule) -> list[Cause]:
    """Check the metadata of a new or changed object."""
    name = meta.get("name", "")
    causes = fields.each_invalid(f"{_PATH}.name", name, name_rule(name))
    if meta.get("namespace"):
        wrong = names.dns_label(meta["namespace"])
        causes.extend(fields.each_invalid(f"{_PATH}.namespace", meta["namespace"], wrong))
    causes.extend(labels.check_labels(f"{_PATH}.labels", meta.get("labels")))
    causes.extend(labels.check_annotations(f"{_PATH}.annotations", meta.get("annotations")))
    causes.extend(_check_owners(meta.get("ownerReferences", [])))
    causes.extend(_check_finalizers(meta.get("finalizers", [])))
    return causes


def _check_owners(owners: list[dict[str, Any]]) -> list[Cause]:
    path = f"{_PATH}.ownerReferences"
    causes: list[Cause] = []
    controllers: list[str] = []
    for number, owner in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                causes.append(fields.required(f"{path}[{number}].{field}", "must not be empty"))
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            text = "/v1, Kind=Event is disallowed from being an owner"
            causes.append(fields.invalid(path, owner, text))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        text = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0]} and {controllers[1]}"
        )
        causes.append(fields.invalid(path, owners, text))
    return causes


def _check_finalizers(finalizers: list[str]) -> list[Cause]:
    path = f"{_PATH}.finalizers"
    causes: list[Cause] = []
    for name in finalizers:
        causes.extend(fields.each_invalid(path, name, names.label_key(name)))
    for i, name in enumerate(finalizers):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(fields.invalid(f"{path}[{i}]", name, text))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(fields.invalid(path, finalizers, text))
    return causes


def check_meta_update(new: Obj, old: Obj) -> list[Cause]:
    """Check what an update changes in the metadata, and what is bound to no name."""
    causes = labels.check_labels(f"{_PATH}.labels", new.get("labels"))
    causes.extend(labels.check_annotations(f"{_PATH}.annotations", new.get("annotations")))
    causes.extend(_check_owners(new.get("ownerReferences", [])))
    causes.extend(fields.immutable(f"{_PATH}.uid", new["uid"], old["uid"]))
    causes.extend(_check_new_finalizers(new, old))
    return causes


def _check_new_finalizers(new: Obj, old: Obj) -> list[Cause]:
    if "deletionTimestamp" not in old:
        return []
    extra = sorted(set(new.get("finalizers", [])) - set(old.get("finalizers", [])))
    if not extra:
        return []
    listed = ", ".join(f'"{name}"' for name in extra)
    text = (
        "no new finalizers can be added if the object is being deleted, "
        f"found new finalizers []string{{{listed}}}"
    )
    return [fields.forbidden(f"{_PATH}.finalizers", text)]
