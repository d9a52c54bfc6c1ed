"""Rules for the volumes of a pod, and for how containers mount them.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

from onebox.api.resources import Obj
from onebox.api.rules import fields, names
from onebox.api.status import Cause
from onebox.quantity import parse_quantity

_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_NEEDED = {
    "secret": "secretName",
    "configMap": "name",
    "persistentVolumeClaim": "claimName",
    "hostPath": "path",
    "csi": "driver",
}
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")


def check_volumes(path: str, volumes: list[Obj]) -> list[Cause]:
    """Check the volumes of a pod spec."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for i, volume in enumerate(volumes):
        where = f"{path}[{i}]"
        name = volume.get("name", "")
        if not name:
            causes.append(fields.required(f"{where}.name"))
        else:
            causes.extend(fields.each_invalid(f"{where}.name", name, names.dns_label(name)))
        if name in seen:
            causes.append(fields.duplicate(f"{where}.name", name))
        seen.add(name)
        causes.extend(_check_source(where, volume))
    return causes


def _check_source(path: str, volume: Obj) -> list[Cause]:
    kinds = [key for key in volume if key != "name"]
    causes = [
        fields.forbidden(f"{path}.{kind}", "may not specify more than 1 volume type")
        for kind in kinds[1:]
    ]
    if not kinds:
        return [fields.required(path, "must specify a volume type")]
    kind = kinds[0]
    source = volume[kind]
    where = f"{path}.{kind}"
    needed = _NEEDED.get(kind)
    if needed and not source.get(needed):
        causes.append(fields.required(f"{where}.{needed}"))
    causes.extend(_check_mode(f"{where}.defaultMode", source.get("defaultMode")))
    causes.extend(_check_items(f"{where}.items", source.get("items", [])))
    if kind == "emptyDir" and parse_quantity(source.get("sizeLimit", "0")).nanos < 0:
        text = "SizeLimit field must be a valid resource quantity"
        causes.append(fields.forbidden(f"{where}.sizeLimit", text))
    for i, projection in enumerate(source.get("sources", []) if kind == "projected" else []):
        for part, body in projection.items():
            items = f"{where}.sources[{i}].{part}.items"
            causes.extend(_check_items(items, body.get("items", [])))
    return causes


def _check_items(path: str, items: list[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    for i, item in enumerate(items):
        where = f"{path}[{i}]"
        if not item.get("key") and "fieldRef" not in item and "resourceFieldRef" not in item:
            causes.append(fields.required(f"{where}.key"))
        if not item.get("path"):
            causes.append(fields.required(f"{where}.path"))
        else:
            causes.extend(check_local_path(f"{where}.path", item["path"]))
        causes.extend(_check_mode(f"{where}.mode", item.get("mode")))
    return causes


def _check_mode(path: str, mode: int | None) -> list[Cause]:
    if mode is None or 0 <= mode <= 0o777:
        return []
    return [fields.invalid(path, mode, _MODE)]


def check_local_path(path: str, value: str) -> list[Cause]:
    """Check a path that has to stay below where it is used."""
    if value.startswith("/"):
        return [fields.invalid(path, value, "must be a relative path")]
    if ".." in value.split("/"):
        return [fields.invalid(path, value, "must not contain '..'")]
    return []


def check_mounts(path: str, container: Obj, volumes: list[Obj]) -> list[Cause]:
    """Check what a container mounts against the volumes of its pod."""
    causes: list[Cause] = []
    known = {volume.get("name") for volume in volumes}
    points: set[str] = set()
    for i, mount in enumerate(container.get("volumeMounts", [])):
        where = f"{path}.volumeMounts[{i}]"
        name, point = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            causes.append(fields.required(f"{where}.name"))
        if name not in known:
            causes.append(fields.not_found(f"{where}.name", name))
        if not point:
            causes.append(fields.required(f"{where}.mountPath"))
        if point in points:
            causes.append(fields.invalid(f"{where}.mountPath", point, "must be unique"))
        points.add(point)
        causes.extend(_check_mount_options(where, mount, container))
    return causes


def _check_mount_options(path: str, mount: Obj, container: Obj) -> list[Cause]:
    causes: list[Cause] = []
    for field in ("subPath", "subPathExpr"):
        if mount.get(field):
            causes.extend(check_local_path(f"{path}.{field}", mount[field]))
    if mount.get("subPath") and mount.get("subPathExpr"):
        text = "subPathExpr and subPath are mutually exclusive"
        causes.append(fields.invalid(f"{path}.subPathExpr", mount["subPathExpr"], text))
    propagation = mount.get("mountPropagation")
    if propagation is not None:
        if propagation not in _PROPAGATIONS:
            where = f"{path}.mountPropagation"
            causes.append(fields.not_supported(where, propagation, _PROPAGATIONS))
        elif propagation == "Bidirectional" and not (container.get("securityContext") or {}).get(
            "privileged"
        ):
            text = "Bidirectional mount propagation is available only to privileged containers"
            causes.append(fields.forbidden(f"{path}.mountPropagation", text))
    return causes
