"""What a pod writes to this machine's disk, and whether that is more than it may.

Rules, their order and their words: localStorageEviction in pkg/kubelet/eviction/eviction_manager.go.
What a container writes to its own root lies in memory and is bounded there, where pods have namespaces;
without them it lies on disk, and counts.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onebox.node.client import Json
from onebox.quantity import memory_bytes

RESOURCE = "ephemeral-storage"


@dataclass(frozen=True)
class Bounds:
    """What a pod may write, as its manifest writes the amounts.

    Attributes:
        volumes: emptyDir on disk -> its sizeLimit; "" without one.
        containers: name -> its limit, for those that have one.
        of_pod_bytes: all containers together; None: one of them has no limit.
    """

    volumes: Mapping[str, str] = field(default_factory=dict)
    containers: Mapping[str, str] = field(default_factory=dict)
    of_pod_bytes: int | None = None

    def __bool__(self) -> bool:
        return bool(any(self.volumes.values()) or self.containers)


@dataclass(frozen=True)
class Used:
    """Bytes on disk.

    Attributes:
        volumes: by name.
        containers: their logs and own files, by name.
        memory_bytes: what should lie in memory, on a machine without any to give.
    """

    volumes: Mapping[str, int]
    containers: Mapping[str, int]
    memory_bytes: int = 0


@dataclass(frozen=True)
class Folders:
    """Where a pod's files lie.

    Attributes:
        volumes, logs: the folders of its volumes by name, and of its containers' logs by name.
        own: (container, folder) of what each run of a container has to itself on disk.
        memory: of what should lie in memory; None: it does.
    """

    volumes: Path
    logs: Path
    own: Sequence[tuple[str, Path]] = ()
    memory: Path | None = None


def read_bounds(pod: Json) -> Bounds:
    """Read a pod's bounds; false where it has none."""
    spec = pod["spec"]
    volumes = {
        volume["name"]: str((volume["emptyDir"] or {}).get("sizeLimit") or "")
        for volume in spec.get("volumes") or []
        if "emptyDir" in volume and (volume["emptyDir"] or {}).get("medium") != "Memory"
    }
    groups = [spec.get("containers") or [], spec.get("initContainers") or []]
    limits = {
        container["name"]: str(limit)
        for group in groups
        for container in group
        if (limit := ((container.get("resources") or {}).get("limits") or {}).get(RESOURCE))
    }
    # As pods are counted: those that run together, or the largest of those that run before them.
    together = [*groups[0], *(c for c in groups[1] if c.get("restartPolicy") == "Always")]
    of_pod = None
    if together and all(container["name"] in limits for container in together):
        running = sum(memory_bytes(limits[container["name"]]) for container in together)
        before = [memory_bytes(limits[c["name"]]) for c in groups[1] if c["name"] in limits]
        of_pod = max([running, *before])
    return Bounds(volumes, limits, of_pod)


def used_bytes(bounds: Bounds, folders: Folders) -> Used:
    """Measure what a pod has on disk; blocking."""
    containers = {name: folder_bytes(folders.logs / name) for name in bounds.containers}
    for name, folder in folders.own:
        if name in containers:
            containers[name] += folder_bytes(folder)
    return Used(
        {name: folder_bytes(folders.volumes / name) for name in bounds.volumes},
        containers,
        0 if folders.memory is None else folder_bytes(folders.memory),
    )


def folder_bytes(folder: Path) -> int:
    """Return the bytes that a folder takes on disk: a file with several names counts once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for status in _files(str(folder)):
        if status.st_nlink > 1:
            file = (status.st_dev, status.st_ino)
            if file in seen:
                continue
            seen.add(file)
        total += status.st_blocks * 512
    return total


def _files(folder: str) -> Iterator[os.stat_result]:
    """Walk without following links; what goes meanwhile, or cannot be read, is passed over."""
    waiting = [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    yield entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)


def find_excess(bounds: Bounds, used: Used) -> str:
    """Return the kubelet's sentence about the first bound that is exceeded; "": none is."""
    for name, limit in bounds.volumes.items():
        if limit and used.volumes[name] > memory_bytes(limit):
            return f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
    total = sum(used.volumes.values()) + sum(used.containers.values()) + used.memory_bytes
    if bounds.of_pod_bytes is not None and total > bounds.of_pod_bytes:
        limit = amount_text(bounds.of_pod_bytes)
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
    for name, limit in bounds.containers.items():
        if used.containers[name] > memory_bytes(limit):
            return f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
    return ""


def amount_text(size_bytes: int) -> str:
    """Return an amount as manifests write it."""
    for suffix, unit in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if size_bytes % unit == 0:
            return f"{size_bytes // unit}{suffix}"
    return str(size_bytes)
