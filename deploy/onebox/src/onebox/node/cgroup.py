"""Limits by the kernel's control groups, version 1 and 2: memory, processor time, processes.

One group per run of a container, at `<base>/<pod uid>/<container>`. As root the base lies at the top
of a version 2 hierarchy, or below our own group of a version 1 hierarchy; as an ordinary user in the
nearest group that was delegated to that user. The node half makes the groups and opens their
cgroup.procs; the container's program moves itself in through that before it gives up its rights.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CONTROLLERS = ("memory", "cpu", "pids")
# Enough for many threads, far from what a fork bomb needs to hurt the machine.
_MOST_PROCESSES = 8192
_CPU_PERIOD_US = 100_000
# A group cannot be removed before the kernel has let go of its last process, which takes moments.
_REMOVE_TRIES = 40
_REMOVE_PAUSE_S = 0.025


@dataclass(frozen=True)
class Resources:
    """What a container may use; None is no limit, 0 shares the least weight."""

    memory_bytes: int | None
    cpu_millicores: int | None
    cpu_shares_millicores: int


def cpu_shares(millicores: int) -> int:
    """Return the version 1 weight of a request, as the kubelet counts it (1024 per core)."""
    return max(2, millicores * 1024 // 1000)


def cpu_weight(millicores: int) -> int:
    """Return the version 2 weight: 2 ... 262144 shares onto 1 ... 10000.

    https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/2254-cgroup-v2
    """
    return 1 + (min(cpu_shares(millicores), 262_144) - 2) * 9999 // 262_142


def settings_v1(resources: Resources) -> list[tuple[str, str, str]]:
    """Return (controller, file, text) in the order in which they must be written."""
    settings = [
        ("pids", "pids.max", str(_MOST_PROCESSES)),
        ("cpu", "cpu.shares", str(cpu_shares(resources.cpu_shares_millicores))),
    ]
    if resources.memory_bytes is not None:
        text = str(resources.memory_bytes)
        settings.append(("memory", "memory.limit_in_bytes", text))
        # Memory and swap together: without this a container over its limit would swap.
        settings.append(("memory", "memory.memsw.limit_in_bytes", text))
    if resources.cpu_millicores is not None:
        quota_us = max(1000, resources.cpu_millicores * _CPU_PERIOD_US // 1000)
        settings.append(("cpu", "cpu.cfs_period_us", str(_CPU_PERIOD_US)))
        settings.append(("cpu", "cpu.cfs_quota_us", str(quota_us)))
    return settings


def settings_v2(resources: Resources) -> list[tuple[str, str, str]]:
    """Return (controller, file, text) in the order in which they must be written."""
    settings = [
        ("pids", "pids.max", str(_MOST_PROCESSES)),
        ("cpu", "cpu.weight", str(cpu_weight(resources.cpu_shares_millicores))),
    ]
    if resources.memory_bytes is not None:
        settings.append(("memory", "memory.max", str(resources.memory_bytes)))
        settings.append(("memory", "memory.swap.max", "0"))
        # All of the container or nothing of it: half a training hangs instead of failing.
        settings.append(("memory", "memory.oom.group", "1"))
    if resources.cpu_millicores is not None:
        quota_us = max(1000, resources.cpu_millicores * _CPU_PERIOD_US // 1000)
        settings.append(("cpu", "cpu.max", f"{quota_us} {_CPU_PERIOD_US}"))
    return settings


# https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
_SEEN_AT = {
    "memory.events": "/sys/fs/cgroup/memory.events",
    "memory.oom_control": "/sys/fs/cgroup/memory/memory.oom_control",
}


class Group:
    """The group (in version 1: one per controller) of one run of a container."""

    def __init__(self, folders: Sequence[Path], events: Path | None) -> None:
        self._folders = folders
        self._events = events

    def open(self) -> list[int]:
        """Return descriptors to which a process writes "0" to join; the caller closes them."""
        flags = os.O_WRONLY | os.O_CLOEXEC
        return [os.open(folder / "cgroup.procs", flags) for folder in self._folders]

    @property
    def events(self) -> tuple[Path, str] | None:
        """The file in which the kernel counts, and where a container with this group of its own sees it."""
        if self._events is None:
            return None
        return self._events, _SEEN_AT[self._events.name]

    def oom_kills(self) -> int:
        """Return how many processes the kernel killed here for memory."""
        if self._events is None:
            return 0
        with contextlib.suppress(OSError):
            for line in self._events.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
        return 0

    async def remove(self) -> None:
        """Remove the group; its processes have ended, or end now."""
        for folder in self._folders:
            await _remove_folder(folder)


class Cgroups:
    """The hierarchy below `bases` (one folder per controller; in version 2 the same for all)."""

    def __init__(self, version: int, bases: Mapping[str, Path]) -> None:
        self.version = version
        self.controllers = frozenset(bases)
        self._bases = bases

    def make(self, pod_uid: str, name: str, resources: Resources) -> Group:
        """Make the group of one run of a container.

        Raises:
            OSError: the kernel refused; nothing is left behind.
        """
        settings = settings_v1(resources) if self.version == 1 else settings_v2(resources)
        folders: list[Path] = []
        try:
            self.prepare()  # an administrator may have tidied up
            for base in sorted(set(self._bases.values())):
                pod = base / pod_uid
                pod.mkdir(exist_ok=True)
                if self.version == 2:
                    _enable(pod, self.controllers)
                folder = pod / name
                folder.mkdir()
                folders.append(folder)
            for controller, file, text in settings:
                if controller in self._bases:
                    path = self._bases[controller] / pod_uid / name / file
                    # Swap accounting and group kills are missing from some kernels.
                    if path.exists():
                        path.write_text(text)
        except OSError:
            for folder in folders:
                folder.rmdir()
            raise
        events_name = "memory.oom_control" if self.version == 1 else "memory.events"
        events = None
        if "memory" in self._bases:
            events = self._bases["memory"] / pod_uid / name / events_name
        return Group(folders, events)

    async def remove_pod(self, pod_uid: str) -> None:
        """Remove the groups that a pod still has."""
        for base in set(self._bases.values()):
            await _remove_tree(base / pod_uid)

    async def remove_all(self) -> None:
        """Remove the bases with every group below."""
        for base in set(self._bases.values()):
            await _remove_tree(base)

    def prepare(self) -> None:
        """Make the bases.

        Raises:
            OSError: the kernel refused.
        """
        for base in set(self._bases.values()):
            base.mkdir(exist_ok=True)
            if self.version == 2:
                _enable(base, self.controllers)


def _enable(folder: Path, controllers: frozenset[str]) -> None:
    text = " ".join(f"+{controller}" for controller in sorted(controllers))
    (folder / "cgroup.subtree_control").write_text(text)


async def _remove_folder(folder: Path) -> None:
    for _ in range(_REMOVE_TRIES):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
                raise
            await asyncio.sleep(_REMOVE_PAUSE_S)
        else:
            return


async def _remove_tree(folder: Path) -> None:
    if not folder.is_dir():
        return
    for child in folder.iterdir():
        if child.is_dir():
            await _remove_tree(child)
    await _remove_folder(folder)


@dataclass(frozen=True)
class _Hierarchy:
    """One mounted control group file system, and our own group in it."""

    version: int
    mount: Path
    controllers: frozenset[str]
    own: Path


def _hierarchies(mountinfo: str, own_groups: str) -> Iterator[_Hierarchy]:
    """Read /proc/self/mountinfo and /proc/self/cgroup (see cgroups(7))."""
    own: dict[str, str] = {}
    for line in own_groups.splitlines():
        _number, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            own[controller] = path  # version 2 has the empty name
    for line in mountinfo.splitlines():
        fields = line.split()
        separator = fields.index("-")
        root, mount, kind = fields[3], Path(fields[4]), fields[separator + 1]
        options = fields[separator + 3].split(",")
        if kind == "cgroup2" and "" in own:
            yield _Hierarchy(2, mount, frozenset(), _inside(mount, root, own[""]))
        elif kind == "cgroup":
            here = frozenset(options) & frozenset(CONTROLLERS) & own.keys()
            for controller in sorted(here):
                folder = _inside(mount, root, own[controller])
                yield _Hierarchy(1, mount, frozenset([controller]), folder)


def _inside(mount: Path, root: str, group: str) -> Path:
    """Return where a group lies below a mount that may show only a part of the hierarchy."""
    if root != "/" and group.startswith(root):
        group = group[len(root) :]
    return mount / group.lstrip("/")


async def remove_stale(home: Path) -> None:
    """Remove what a node half of this home left that was killed, in whichever group that ran."""
    name = _base_name(home)
    found = await asyncio.to_thread(_folders_named, name, _own_hierarchies())
    for folder in found:
        with contextlib.suppress(OSError):
            await _remove_tree(folder)


def _folders_named(name: str, hierarchies: list[_Hierarchy]) -> list[Path]:
    return [
        Path(parent, name)
        for mount in {hierarchy.mount for hierarchy in hierarchies}
        for parent, folders, _files in os.walk(mount)
        if name in folders
    ]


def _base_name(home: Path) -> str:
    return f"onebox-{hashlib.sha256(os.fsencode(home)).hexdigest()[:12]}"


def _own_hierarchies() -> list[_Hierarchy]:
    mountinfo = Path("/proc/self/mountinfo").read_text()
    return list(_hierarchies(mountinfo, Path("/proc/self/cgroup").read_text()))


def find_cgroups(home: Path, *, is_root: bool) -> Cgroups | None:
    """Return the control groups that this process may use, tried out; None: there are none."""
    name = _base_name(home)
    hierarchies = _own_hierarchies()
    for found in (*_version_2(hierarchies, name, is_root=is_root), *_version_1(hierarchies, name)):
        with contextlib.suppress(OSError):
            found.prepare()
            return found
    return None


def _version_2(hierarchies: list[_Hierarchy], name: str, *, is_root: bool) -> Iterator[Cgroups]:
    for hierarchy in hierarchies:
        if hierarchy.version != 2:
            continue
        # A group with processes cannot have groups with limits below it; the top one can.
        own = hierarchy.own
        above = [path for path in own.parents if path.is_relative_to(hierarchy.mount)]
        for parent in [hierarchy.mount] if is_root else above:
            controllers = _usable_controllers(parent)
            if "memory" in controllers:
                yield Cgroups(2, dict.fromkeys(sorted(controllers), parent / name))


def _usable_controllers(parent: Path) -> frozenset[str]:
    """Return which controllers groups directly below `parent` may have; tries to enable them."""
    try:
        available = (parent / "cgroup.controllers").read_text().split()
        for controller in CONTROLLERS:
            if controller in available:
                with contextlib.suppress(OSError):
                    _enable(parent, frozenset([controller]))
        enabled = (parent / "cgroup.subtree_control").read_text().split()
    except OSError:
        return frozenset()
    return frozenset(enabled) & frozenset(CONTROLLERS)


def _version_1(hierarchies: list[_Hierarchy], name: str) -> Iterator[Cgroups]:
    bases: dict[str, Path] = {}
    for hierarchy in hierarchies:
        for controller in hierarchy.controllers:
            if os.access(hierarchy.own, os.W_OK):
                bases.setdefault(controller, hierarchy.own / name)
    if "memory" in bases:
        yield Cgroups(1, bases)
