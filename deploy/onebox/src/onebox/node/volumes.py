"""The volumes of a pod: made ready below the pod's folder, and mounted into its containers."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onebox.node.client import Json
from onebox.node.downward import PodView
from onebox.node.environment import ConfigError, Reference
from onebox.node.expansion import expand
from onebox.node.projection import (
    File,
    VolumeError,
    projected_files,
    projected_objects,
    token_sources,
)
from onebox.node.spec import Mount
from onebox.quantity import memory_bytes

Find = Callable[[str, str | None, str], Awaitable[Json | None]]
"""find(plural, namespace or None, name): the object, or None when there is none."""

Issue = Callable[[Json, Json], Awaitable[str]]
"""issue(pod, source): a token of the pod's ServiceAccount for a projected source.

Raises VolumeError where the control plane issues none.
"""

_PROJECTED = ("configMap", "secret", "downwardAPI", "projected")


@dataclass(frozen=True)
class Volume:
    """A volume that is ready to be mounted; see `Mount` for `kind`, `source` and `size_bytes`."""

    source: str
    kind: Literal["bind", "tmpfs"] = "bind"
    size_bytes: int | None = None
    read_only: bool = False


@dataclass(frozen=True)
class Owner:
    """Who owns what the node writes for a pod; None leaves it to the node's own user.

    Args:
        uid, gid: of the pod's processes.
        has_fs_group: the pod asks for fsGroup (`gid` then), so its group may read and write.
    """

    uid: int
    gid: int
    has_fs_group: bool = False


@dataclass(frozen=True)
class VolumeSetup:
    """What making the volumes of one pod needs.

    Args:
        folder: of this pod's volumes; made and filled here.
        owner: None when the node is not root and cannot give files away.
    """

    pod: Json
    folder: Path
    view: PodView
    owner: Owner | None
    find: Find
    issue: Issue


async def prepare_volumes(setup: VolumeSetup) -> dict[str, Volume]:
    """Make every volume of the pod ready; may be called again after a failure.

    Raises:
        VolumeError: something is missing or not offered; the message names the volume.
    """
    setup.folder.mkdir(parents=True, exist_ok=True)
    ready = {}
    for volume in setup.pod["spec"].get("volumes") or []:
        try:
            ready[volume["name"]] = await _prepare(setup, volume)
        except VolumeError as error:
            raise VolumeError(
                f'MountVolume.SetUp failed for volume "{volume["name"]}": {error}'
            ) from error
    return ready


async def _prepare(setup: VolumeSetup, volume: Json) -> Volume:
    target = setup.folder / volume["name"]
    if "emptyDir" in volume:
        return _empty_dir(setup, volume, target)
    if "persistentVolumeClaim" in volume:
        return await _claim(setup, volume["persistentVolumeClaim"])
    if any(kind in volume for kind in _PROJECTED):
        objects = await find_all(setup, projected_objects(volume))
        tokens = {s["path"]: await setup.issue(setup.pod, s) for s in token_sources(volume)}
        files = projected_files(volume, objects, setup.view, tokens)
        await asyncio.to_thread(write_files, target, files, setup.owner)
        return Volume(str(target), read_only=True)
    kind = next((key for key in volume if key != "name"), "none")
    raise VolumeError(
        f"volumes of kind {kind} are not offered by this node; it offers emptyDir, "
        "configMap, secret, downwardAPI, projected and persistentVolumeClaim"
    )


async def find_all(setup: VolumeSetup, wanted: set[Reference]) -> dict[Reference, Json]:
    """Read the configmaps and secrets that exist, of the pod's namespace."""
    namespace = setup.pod["metadata"]["namespace"]
    found = {}
    for kind, name in sorted(wanted):
        obj = await setup.find(kind, namespace, name)
        if obj is not None:
            found[kind, name] = obj
    return found


def _empty_dir(setup: VolumeSetup, volume: Json, target: Path) -> Volume:
    source = volume["emptyDir"] or {}
    limit = source.get("sizeLimit")
    if source.get("medium") == "Memory":
        size_bytes = memory_bytes(str(limit)) if limit else None
        return Volume(volume["name"], "tmpfs", size_bytes)
    if source.get("medium") not in (None, ""):
        raise VolumeError(f"emptyDir medium {source['medium']} is not offered; use Memory or none")
    target.mkdir(exist_ok=True)
    own(target, setup.owner)
    # As the kubelet makes it; with fsGroup new files inherit the group.
    with_group = setup.owner is not None and setup.owner.has_fs_group
    target.chmod(0o2777 if with_group else 0o777)
    return Volume(str(target))


async def _claim(setup: VolumeSetup, source: Json) -> Volume:
    name = source["claimName"]
    claim = await setup.find("persistentvolumeclaims", setup.pod["metadata"]["namespace"], name)
    if claim is None:
        raise VolumeError(f'persistentvolumeclaim "{name}" not found')
    volume_name = claim["spec"].get("volumeName")
    if (claim.get("status") or {}).get("phase") != "Bound" or not volume_name:
        raise VolumeError(f'persistentvolumeclaim "{name}" is not bound to a volume yet')
    volume = await setup.find("persistentvolumes", None, volume_name)
    if volume is None:
        raise VolumeError(f'persistentvolume "{volume_name}" of the claim "{name}" is gone')
    spec = volume["spec"]
    folder = (spec.get("hostPath") or spec.get("local") or {}).get("path")
    if not folder:
        raise VolumeError(
            f'persistentvolume "{volume_name}" is no folder of this machine; '
            "this node mounts volumes of kind hostPath and local"
        )
    if not Path(folder).is_dir():
        raise VolumeError(f'the folder of persistentvolume "{volume_name}" does not exist')
    return Volume(folder, read_only=bool(source.get("readOnly")))


def write_files(target: Path, files: Mapping[str, File], owner: Owner | None) -> None:
    """Write a projected volume anew; blocking."""
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    target.chmod(0o755)
    own(target, owner)
    for path, file in files.items():
        full = target / path
        for folder in reversed(full.relative_to(target).parents[:-1]):
            (target / folder).mkdir(exist_ok=True)
            own(target / folder, owner)
        full.write_bytes(file.data)
        own(full, owner)
        extra = 0o440 if owner is not None and owner.has_fs_group else 0
        full.chmod(file.mode | extra)


def own(path: Path, owner: Owner | None) -> None:
    """Give a path to the pod's user, where the node may."""
    if owner is not None:
        os.chown(path, owner.uid, owner.gid)


def container_mounts(
    container: Json, volumes: Mapping[str, Volume], environment: Mapping[str, str]
) -> tuple[Mount, ...]:
    """Build the mounts of a container.

    Raises:
        ConfigError: a volumeMount names an unknown volume or its subPathExpr an unknown variable.
    """
    mounts = []
    for wanted in container.get("volumeMounts") or []:
        volume = volumes.get(wanted["name"])
        if volume is None:
            raise ConfigError(f'volumeMount names the unknown volume "{wanted["name"]}"')
        mounts.append(
            Mount(
                source=volume.source,
                path=wanted["mountPath"],
                read_only=volume.read_only or bool(wanted.get("readOnly")),
                kind=volume.kind,
                size_bytes=volume.size_bytes,
                sub_path=_sub_path(wanted, environment),
            )
        )
    return tuple(mounts)


def _sub_path(wanted: Json, environment: Mapping[str, str]) -> str:
    if wanted.get("subPathExpr"):
        text = expand(wanted["subPathExpr"], environment)
        if "$(" in text:
            raise ConfigError(f'missing value for the subPathExpr "{wanted["subPathExpr"]}"')
    else:
        text = wanted.get("subPath") or ""
    if text.startswith("/") or ".." in text.split("/"):
        raise ConfigError(f'subPath "{text}" must be relative and stay inside the volume')
    return text
