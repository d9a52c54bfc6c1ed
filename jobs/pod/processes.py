# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""The living processes of this container, as /proc shows them."""

import contextlib
import os
from typing import Dict, Iterable, List, NamedTuple, Set


class LivingProcess(NamedTuple):
    """One that has not ended: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html"""

    parent: int
    group: int
    session: int


def living() -> Dict[int, LivingProcess]:
    """Those of all users, by process id.

    Raises:
        OSError: there is no /proc.
    """
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended
            with open(f"/proc/{name}/stat", "rb") as file:
                state, *numbers = file.read().rpartition(b")")[2].split()[:4]
            if state not in (b"Z", b"X"):
                found[int(name)] = LivingProcess(*map(int, numbers))
    return found


def started_by(process: int) -> List[int]:
    """The living processes that this one has started, directly or not.

    A shell that somebody opens in the container from outside has no parent there.

    Raises:
        OSError: there is no /proc.
    """
    known = living()
    mine = {process}
    others = set(known) - mine
    while True:
        more = {pid for pid in others if known[pid].parent in mine}
        if not more:
            return sorted(mine - {process})
        mine |= more
        others -= more


def readers(processes: Iterable[int]) -> Set[int]:
    """Those whose input is the output of another of them, as a shell joins them: `tee` behind a program.

    They end by themselves when that one has ended; one that ended before would take away where it writes.
    """
    read: Dict[int, str] = {}
    written: Dict[str, Set[int]] = {}
    for pid in processes:
        for fd in range(3):
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                end = os.readlink(f"/proc/{pid}/fd/{fd}")
                if end.startswith("pipe:") and fd == 0:
                    read[pid] = end
                elif end.startswith("pipe:"):
                    written.setdefault(end, set()).add(pid)
    return {pid for pid, end in read.items() if written.get(end, set()) - {pid}}
