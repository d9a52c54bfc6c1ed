"""Looks at processes from outside, for tests of what is left behind."""

from __future__ import annotations

import os
import time
from pathlib import Path


def command_line(pid: int) -> str:
    """A process's program and arguments; "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def others() -> list[int]:
    """All processes of this machine but ourselves."""
    found = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in found if pid != os.getpid()]


def naming(text: str) -> list[int]:
    """Processes that have a text in command line or environment."""
    found = []
    for pid in others():
        folder = Path(f"/proc/{pid}")
        try:
            texts = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:  # it ended, or is somebody else's
            continue
        if os.fsencode(text) in texts:
            found.append(pid)
    return found


def processes_named(command: str) -> list[int]:
    """Return this machine's processes with exactly this command line."""
    wanted = command.replace(" ", "\0").encode() + b"\0"
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes() == wanted:
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def parent(pid: int) -> int:
    """The process that started this one (0: gone)."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def descendants(pid: int) -> list[int]:
    """All processes below one, by parentage."""
    children: dict[int, list[int]] = {}
    for other in others():
        children.setdefault(parent(other), []).append(other)
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def wait_for_below(pid: int, command: str, timeout_s: float = 30) -> int:
    """Wait for a process below one whose command line begins so; its pid."""
    deadline_s = time.monotonic() + timeout_s
    while not (found := [p for p in descendants(pid) if command_line(p).startswith(command)]):
        assert time.monotonic() < deadline_s, f"no {command} below {pid}"
        time.sleep(0.02)
    return found[0]


def wait_for_none(pids: list[int], timeout_s: float = 30) -> None:
    """Wait until none of these processes exists."""
    deadline_s = time.monotonic() + timeout_s
    while alive := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline_s, [(pid, command_line(pid)) for pid in alive]
        time.sleep(0.02)


def cpu_seconds(pids: list[int]) -> float:
    """CPU time that these processes have used."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / 100
