"""What a run left on this machine: processes, mounts and folders that name the run's folder.

Every process of a run has that folder in its environment (as TMPDIR), on its command line or, in a
pod, among its mounts. A network namespace is there as long as a process or a mount of it, so who
finds neither has found none. Besides, there are folders that upstream's programs make of
themselves wherever nobody names another one.
"""

import os
import shutil
import time
from pathlib import Path

from onebox.testing.processes import command_line, naming, others

_ENDING_S = 10.0  # what was killed goes a moment later
_SHOWN = 80  # characters of a command line
# Where programs of Kubernetes and etcd keep things unless they are told otherwise.
DEFAULTS = (
    Path("/usr/libexec/kubernetes"),
    Path("/etc/kubernetes"),
    Path("/etc/cni"),
    Path("/opt/cni"),
    Path("/run/kubernetes"),
    Path("/var/lib/etcd"),
    Path("/var/lib/kubelet"),
    Path("/var/lib/kubernetes"),
    Path("/var/log/containers"),
    Path("/var/log/pods"),
)


def by_default() -> frozenset[Path]:
    """Which of upstream's own folders are on this machine."""
    return frozenset(place for place in DEFAULTS if place.exists())


def made_by_default(before: frozenset[Path]) -> list[str]:
    """In words, which of them were not there before."""
    return [f"the folder {place}" for place in sorted(by_default() - before)]


def remove(folder: Path) -> list[str]:
    """Removes the folder when all has had a moment to end; in words, what is still there."""
    deadline_s = time.monotonic() + _ENDING_S
    while (found := _processes(folder)) and time.monotonic() < deadline_s:
        time.sleep(0.2)
    shutil.rmtree(folder, ignore_errors=True)
    found += [f"the mount {place}" for place in _mounts(folder)]
    if folder.exists():
        found.append(f"the folder {folder}")
    return found


def _processes(folder: Path) -> list[str]:
    shown = {pid: command_line(pid) for pid in {*naming(str(folder)), *_mounting(folder)}}
    return [f"process {pid} ({text[:_SHOWN].strip()})" for pid, text in shown.items() if text]


def _mounting(folder: Path) -> list[int]:
    """Processes that have it among mounts of their own."""
    needle, ours = os.fsencode(folder), Path("/proc/self/ns/mnt").readlink()
    found = []
    for pid in others():
        process = Path(f"/proc/{pid}")
        try:
            # Else its mounts are everybody's.
            is_apart = (process / "ns" / "mnt").readlink() != ours
            if is_apart and needle in (process / "mountinfo").read_bytes():
                found.append(pid)
        except OSError:  # it ended, or is somebody else's
            continue
    return found


def _mounts(folder: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines if str(folder) in line]
