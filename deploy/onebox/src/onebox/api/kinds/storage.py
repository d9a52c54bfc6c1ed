"""PersistentVolumes, PersistentVolumeClaims and StorageClasses.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from onebox.api.resources import Obj
from onebox.api.rules import fields, labels, names
from onebox.api.status import Cause
from onebox.api.store import clone
from onebox.api.strategy import Context, Strategy
from onebox.api.timestamps import format_time
from onebox.quantity import parse_quantity

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM = ("Delete", "Recycle", "Retain")
_BINDING = ("Immediate", "WaitForFirstConsumer")
_NOT_SOURCES = frozenset(
    [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ]
)


def _check_modes(path: str, modes: list[str]) -> list[Cause]:
    causes = [fields.not_supported(path, mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        causes.append(fields.forbidden(path, text))
    return causes


def _check_size(path: str, text: str | None) -> list[Cause]:
    if text is None:
        return [fields.required(path)]
    if parse_quantity(text).nanos <= 0:
        return [fields.invalid(path, text, fields.NOT_POSITIVE)]
    return []


def _check_class(path: str, name: str | None) -> list[Cause]:
    return fields.each_invalid(path, name, names.dns_subdomain(name)) if name else []


class ClaimStrategy(Strategy):
    """The rules of PersistentVolumeClaims."""

    def defaults(self, obj: Obj) -> None:
        """Fill in what the user left out."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("volumeMode", "Filesystem")
        spec.setdefault("resources", {})

    def prepare_create(self, ctx: Context, obj: Obj) -> None:
        """Start as Pending."""
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: Obj) -> list[Cause]:
        """Check the whole spec."""
        spec = obj["spec"]
        modes = spec.get("accessModes", [])
        causes = _check_modes("spec.accessModes", modes)
        if not modes:
            text = "at least 1 access mode is required"
            causes.append(fields.required("spec.accessModes", text))
        causes.extend(labels.check_selector("spec.selector", spec.get("selector")))
        size = spec["resources"].get("requests", {}).get("storage")
        causes.extend(_check_size("spec.resources[storage]", size))
        causes.extend(_check_class("spec.storageClassName", spec.get("storageClassName")))
        if spec["volumeMode"] not in _VOLUME_MODES:
            mode = spec["volumeMode"]
            causes.append(fields.not_supported("spec.volumeMode", mode, _VOLUME_MODES))
        return causes

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Check that nothing but the binding, a late class and a growing size has changed."""
        after, before = clone(new["spec"]), clone(old["spec"])
        bound = old.get("status", {}).get("phase") == "Bound"
        causes: list[Cause] = []
        if not before.get("volumeName"):
            after.pop("volumeName", None)
            before.pop("volumeName", None)
        if "storageClassName" not in before:
            after.pop("storageClassName", None)
        wanted = after["resources"].get("requests", {}).get("storage", "0")
        had = before["resources"].get("requests", {}).get("storage", "0")
        if bound:
            after["resources"].get("requests", {}).pop("storage", None)
            before["resources"].get("requests", {}).pop("storage", None)
        if after != before:
            text = (
                "spec is immutable after creation except resources.requests and "
                "volumeAttributesClassName for bound claims"
            )
            causes.append(fields.forbidden("spec", text))
        if parse_quantity(wanted) < parse_quantity(had):
            text = "field can not be less than status.capacity"
            causes.append(fields.forbidden("spec.resources.requests.storage", text))
        return causes


class VolumeStrategy(Strategy):
    """The rules of PersistentVolumes."""

    def defaults(self, obj: Obj) -> None:
        """Fill in what the user left out."""
        spec = obj.setdefault("spec", {})
        spec["persistentVolumeReclaimPolicy"] = (
            spec.get("persistentVolumeReclaimPolicy") or "Retain"
        )
        spec.setdefault("volumeMode", "Filesystem")
        if "hostPath" in spec:
            spec["hostPath"].setdefault("type", "")

    def prepare_create(self, ctx: Context, obj: Obj) -> None:
        """Start as Pending; the binder makes it Available."""
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": format_time(ctx.now)}

    def validate(self, obj: Obj) -> list[Cause]:
        """Check the whole spec."""
        spec = obj["spec"]
        modes = spec.get("accessModes", [])
        causes = _check_modes("spec.accessModes", modes)
        if not modes:
            causes.append(fields.required("spec.accessModes"))
        capacity = spec.get("capacity", {})
        if set(capacity) != {"storage"}:
            causes.append(fields.not_supported("spec.capacity", capacity, ("storage",)))
        else:
            causes.extend(_check_size("spec.capacity[storage]", capacity["storage"]))
        policy = spec["persistentVolumeReclaimPolicy"]
        causes.extend(fields.one_of("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM))
        causes.extend(_check_class("spec.storageClassName", spec.get("storageClassName")))
        sources = [field for field in spec if field not in _NOT_SOURCES]
        if not sources:
            causes.append(fields.required("spec", "must specify a volume type"))
        for field in sources[1:]:
            text = "may not specify more than 1 volume type"
            causes.append(fields.forbidden(f"spec.{field}", text))
        if "local" in spec and "nodeAffinity" not in spec:
            text = "Local volume requires node affinity"
            causes.append(fields.required("spec.nodeAffinity", text))
        for kind in ("local", "hostPath"):
            if kind in spec and not spec[kind].get("path"):
                causes.append(fields.required(f"spec.{kind}.path"))
        return causes

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Check that the place of the data stays."""
        after, before = new["spec"], old["spec"]
        changed = sorted(
            field
            for field in after.keys() | before.keys()
            if field not in _NOT_SOURCES and after.get(field) != before.get(field)
        )
        causes = fields.immutable("volumeMode", after.get("volumeMode"), before.get("volumeMode"))
        if changed:
            text = f"spec.persistentvolumesource is immutable after creation ({', '.join(changed)})"
            causes.append(fields.forbidden("spec.persistentvolumesource", text))
        return causes


class ClassStrategy(Strategy):
    """The rules of StorageClasses."""

    def defaults(self, obj: Obj) -> None:
        """Fill in what the user left out."""
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: Obj) -> list[Cause]:
        """Check the whole class."""
        causes: list[Cause] = []
        provisioner = obj.get("provisioner", "")
        if not provisioner:
            causes.append(fields.required("provisioner"))
        else:
            wrong = names.label_key(provisioner.lower())
            causes.extend(fields.each_invalid("provisioner", provisioner, wrong))
        policy, mode = obj["reclaimPolicy"], obj["volumeBindingMode"]
        causes.extend(fields.one_of("reclaimPolicy", policy, ("Delete", "Retain")))
        causes.extend(fields.one_of("volumeBindingMode", mode, _BINDING))
        return causes

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Check that only labels, annotations and expansion have changed; values are not told."""
        names = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        changed = [name for name in names if new.get(name) != old.get(name)]
        return [fields.invalid(name, None, fields.IMMUTABLE) for name in changed]
