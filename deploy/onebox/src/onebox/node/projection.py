"""Which files a configMap, secret, downwardAPI or projected volume holds. Pure.

Rules: pkg/volume/{configmap,secret,downwardapi,projected} of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType

from onebox.node.client import Json
from onebox.node.downward import DownwardError, PodView, field_text, resource_text
from onebox.node.environment import Reference, object_bytes

DEFAULT_MODE = 0o644


class VolumeError(Exception):
    """A volume cannot be set up now; the message goes into a FailedMount event."""


@dataclass(frozen=True)
class File:
    """One file of a volume; `mode` are permission bits."""

    data: bytes
    mode: int


def projected_objects(volume: Json) -> set[Reference]:
    """Name the configmaps and secrets that a volume needs."""
    found: set[Reference] = set()
    for source in _sources(volume):
        if "configMap" in source:
            found.add(("configmaps", source["configMap"]["name"]))
        if "secret" in source:
            found.add(("secrets", source["secret"]["name"]))
    return found


def token_sources(volume: Json) -> list[Json]:
    """Give the tokens of the pod's ServiceAccount that a volume needs (ServiceAccountToken...)."""
    return [s["serviceAccountToken"] for s in _sources(volume) if "serviceAccountToken" in s]


def projected_files(
    volume: Json,
    objects: Mapping[Reference, Json],
    view: PodView,
    tokens: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, File]:
    """Compute the files of a volume: path below its root -> content and mode.

    Args:
        objects: configmaps and secrets that were found.
        tokens: path of each of `token_sources` -> token.

    Raises:
        VolumeError: an object or key that is not optional is missing, or a source is unknown.
    """
    default_mode = _default_mode(volume)
    files: dict[str, File] = {}
    for source in _sources(volume):
        if "configMap" in source:
            files.update(_from_object("configmaps", source["configMap"], objects, default_mode))
        elif "secret" in source:
            files.update(_from_object("secrets", source["secret"], objects, default_mode))
        elif "downwardAPI" in source:
            files.update(_from_fields(source["downwardAPI"], view, default_mode))
        elif "serviceAccountToken" in source:
            path = source["serviceAccountToken"]["path"]
            files[checked_path(path)] = File(tokens[path].encode(), default_mode)
        else:
            kind = next(iter(source), "nothing")
            raise VolumeError(
                f'volume "{volume["name"]}": a projected {kind} is not offered by this node; '
                "it projects configMap, secret, downwardAPI and serviceAccountToken"
            )
    return files


def _sources(volume: Json) -> list[Json]:
    """See all four kinds of volume as a list of projected sources."""
    if "projected" in volume:
        return list(volume["projected"].get("sources") or [])
    if "secret" in volume:
        # A secret volume calls its object secretName, a projected one calls it name.
        return [{"secret": {**volume["secret"], "name": volume["secret"].get("secretName", "")}}]
    if "configMap" in volume:
        return [{"configMap": volume["configMap"]}]
    return [{"downwardAPI": volume["downwardAPI"]}] if "downwardAPI" in volume else []


def _default_mode(volume: Json) -> int:
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        if kind in volume:
            mode = volume[kind].get("defaultMode")
            return DEFAULT_MODE if mode is None else int(mode)
    return DEFAULT_MODE


def _from_object(
    kind: str, source: Json, objects: Mapping[Reference, Json], default_mode: int
) -> dict[str, File]:
    found = objects.get((kind, source["name"]))
    word = kind.removesuffix("s")
    if found is None:
        if source.get("optional"):
            return {}
        raise VolumeError(f'{word} "{source["name"]}" not found')
    entries = object_bytes(kind, found)
    items = source.get("items")
    if items is None:
        return {key: File(data, default_mode) for key, data in entries.items()}
    files = {}
    for item in items:
        if item["key"] in entries:
            path = checked_path(item["path"])
            files[path] = File(entries[item["key"]], _mode(item, default_mode))
        elif not source.get("optional"):
            raise VolumeError(f'{word} "{source["name"]}" has no key "{item["key"]}"')
    return files


def _from_fields(source: Json, view: PodView, default_mode: int) -> dict[str, File]:
    files = {}
    for item in source.get("items") or []:
        try:
            if "fieldRef" in item:
                text = field_text(view, item["fieldRef"]["fieldPath"])
            else:
                text = resource_text(view, item["resourceFieldRef"], None)
        except DownwardError as error:
            raise VolumeError(str(error)) from error
        files[checked_path(item["path"])] = File(text.encode(), _mode(item, default_mode))
    return files


def _mode(item: Json, default_mode: int) -> int:
    return default_mode if item.get("mode") is None else int(item["mode"])


def checked_path(path: str) -> str:
    """Refuse a path that would leave the volume.

    Raises:
        VolumeError: absolute, empty or with "..".
    """
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts:
        raise VolumeError(f'path "{path}" must be relative and stay inside the volume')
    return str(pure)
