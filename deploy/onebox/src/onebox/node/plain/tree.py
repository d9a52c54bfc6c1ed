"""The processes below one, found by their parents: what a pid namespace would know."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection

_PAUSE_S = 0.002
_PATIENCE_S = 8.0


def descendants(root: int) -> list[int]:
    """Return the processes that descend from one, parents before children."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(_parent_of(name), []).append(int(name))
    found = []
    waiting = list(children.get(root, ()))
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting.extend(children.get(pid, ()))
    return found


def children_of(root: int) -> list[int]:
    """Return the children of a process."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if _parent_of(name) == root:
                    found.append(int(name))
    return found


def kill_descendants() -> None:
    """Kill and reap all that descends from this process, which adopts orphans (a subreaper)."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        _reap()
        found = descendants(os.getpid())
        if not found:
            return
        _kill(found)
        time.sleep(_PAUSE_S)


def kill_orphans(known: Collection[int]) -> None:
    """Kill every child of this process but the known ones, and all that descends from them."""
    for pid in children_of(os.getpid()):
        if pid not in known:
            _kill([pid, *descendants(pid)])


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _parent_of(name: str) -> int:
    with open(f"/proc/{name}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])
