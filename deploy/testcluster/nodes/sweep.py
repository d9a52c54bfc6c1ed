"""Removes what outlives a cluster of nodes when whoever started it has ended: cgroups, its folder.

`python -m deploy.testcluster.nodes.sweep` is started beside a cluster and waits until its standard
input closes, which the kernel does when whoever started it has ended, be it by SIGKILL. Everything
else (processes, mounts, devices, routes, packet filters) goes with namespaces.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
_ENDING_S = 30.0
_GRACE_S = 10.0  # of the control plane's programs, which hear SIGTERM from the kernel


def hierarchies() -> list[Path]:
    """The roots of cgroup v1's hierarchies, or v2's only one."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]


def make(name: str) -> None:
    """A cgroup of this name in every hierarchy, in which a kubelet can make its own."""
    for root in hierarchies():
        folder = root / name
        folder.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):  # v1: empty until somebody says
            if (root / file).exists():
                (folder / file).write_text((root / file).read_text())
        if root == CGROUPS:
            names = (root / "cgroup.controllers").read_text().split()
            for place in (root, folder):
                with contextlib.suppress(OSError):  # a container's own root has processes
                    (place / "cgroup.subtree_control").write_text(" ".join(f"+{n}" for n in names))


def left(name: str) -> list[Path]:
    """The cgroups of this name, deepest first."""
    found = []
    for root in hierarchies():
        for place, _names, _files in os.walk(root / name, topdown=False):
            found.append(Path(place))
    return found


def remove(name: str) -> None:
    """Remove them when their processes, which are killed, have gone."""
    deadline = time.monotonic() + _ENDING_S
    while places := left(name):
        for place in places:
            with contextlib.suppress(OSError):
                place.rmdir()
                continue
            for pid in _processes(place):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def _processes(place: Path) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(line) for line in (place / "cgroup.procs").read_text().split()]
    return []


def end(folder: str) -> None:
    """End the processes that name the folder on their command line: one that is asked to end while
    it starts may wait for another one that has ended already."""
    deadline = time.monotonic() + _GRACE_S
    while pids := _naming(folder):
        if time.monotonic() > deadline:
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def _naming(folder: str) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(folder) in (place / "cmdline").read_bytes():
                found.append(int(place.name))
    return [pid for pid in found if pid != os.getpid()]


def main() -> None:
    """Arguments: the cluster's folder, "keep" or "remove" for it, then names of cgroups."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folder, fate, *names = sys.argv[1:]
    sys.stdin.read()
    end(f"{folder}/")
    for name in names:
        remove(name)
    if fate == "remove":
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
