"""The rows of volumes, claims and classes."""

from __future__ import annotations

from datetime import datetime

from onebox.api.admission.defaults import DEFAULT_CLASS
from onebox.api.resources import Obj
from onebox.api.tables.cells import AGE, NAME, UNSET, Cell, Column, age, name_of, wide

VOLUME = (
    NAME,
    Column("Capacity"),
    Column("Access Modes"),
    Column("Reclaim Policy"),
    Column("Status"),
    Column("Claim"),
    Column("StorageClass"),
    Column("VolumeAttributesClass"),
    Column("Reason"),
    AGE,
    wide("VolumeMode"),
)
CLAIM = (
    NAME,
    Column("Status"),
    Column("Volume"),
    Column("Capacity"),
    Column("Access Modes"),
    Column("StorageClass"),
    Column("VolumeAttributesClass"),
    AGE,
    wide("VolumeMode"),
)
CLASS = (
    NAME,
    Column("Provisioner"),
    Column("ReclaimPolicy"),
    Column("VolumeBindingMode"),
    Column("AllowVolumeExpansion"),
    AGE,
)

_SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: list[str]) -> str:
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in modes)


def _phase(obj: Obj) -> str:
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return str(obj.get("status", {}).get("phase", ""))


def volume_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a PersistentVolume."""
    spec = obj["spec"]
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        spec.get("capacity", {}).get("storage", "0"),
        _modes(spec.get("accessModes", [])),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", UNSET),
        obj.get("status", {}).get("reason", ""),
        age(obj, now),
        spec.get("volumeMode", UNSET),
    ]


def claim_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a PersistentVolumeClaim."""
    spec, status = obj["spec"], obj.get("status", {})
    bound = bool(spec.get("volumeName"))
    return [
        name_of(obj),
        _phase(obj),
        spec.get("volumeName", ""),
        status.get("capacity", {}).get("storage", "0") if bound else "",
        _modes(status.get("accessModes", [])) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", UNSET),
        age(obj, now),
        spec.get("volumeMode", UNSET),
    ]


def class_row(obj: Obj, now: datetime) -> list[Cell]:
    """Give the cells of a StorageClass."""
    default = obj["metadata"].get("annotations", {}).get(DEFAULT_CLASS) == "true"
    return [
        f"{name_of(obj)} (default)" if default else name_of(obj),
        obj["provisioner"],
        obj["reclaimPolicy"],
        obj["volumeBindingMode"],
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]
