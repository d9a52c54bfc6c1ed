# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""The living processes of this container, as /proc shows them."""

import contextlib
import os
import time
from typing import Dict, Iterable, List, NamedTuple, Optional, Set

# What starts the ranks of Open MPI, in the launcher and in the workers: asked to end it kills them after half a second
# (Open MPI 5: src/mca/odls/base/odls_base_default_fns.c of PRRTE 3.0) or two (4). It ends by itself behind them.
MPI_STARTERS = frozenset(("prterun", "prted", "orterun", "orted"))
CLOCK_BOOTTIME = 7  # linux/time.h; the module has the name from Python 3.7 on


class LivingProcess(NamedTuple):
    """One that has not ended: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html"""

    parent: int
    group: int
    session: int
    began: int  # ticks since the machine's start, as `ticks_now`


def living() -> Dict[int, LivingProcess]:
    """Those of all users, by process id.

    Raises:
        OSError: there is no /proc.
    """
    return {pid: one for pid, one in _all_listed().items() if one is not None}


def _all_listed() -> Dict[int, Optional[LivingProcess]]:
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended, and its parent knows
            found[int(name)] = _read(int(name))
    return found


def _read(pid: int) -> Optional[LivingProcess]:
    """None: it has ended, and its parent does not know yet.

    Raises:
        OSError: there is none.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        words = file.read().rpartition(b")")[2].split()
    return None if words[0] in (b"Z", b"X") else LivingProcess(*map(int, [*words[1:4], words[19]]))


def ticks_now() -> int:
    """The clock by which the kernel tells when a process began."""
    return int(time.clock_gettime(CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def began_before(ticks: int, processes: Iterable[int]) -> Set[int]:
    """Those of them that still live."""
    found = set()
    for pid in processes:
        with contextlib.suppress(OSError):  # it has ended
            one = _read(pid)
            if one is not None and one.began < ticks:
                found.add(pid)
    return found


def started_by(process: int) -> List[int]:
    """The living processes that this one has started, directly or not.

    A shell that somebody opens in the container from outside has no parent there.

    Raises:
        OSError: there is no /proc.
    """
    known = _all_listed()
    _read_orphans_again(known)
    mine = {process}
    others = {pid: one.parent for pid, one in known.items() if one is not None and pid != process}
    while True:
        more = {pid for pid, parent in others.items() if parent in mine}
        if not more:
            return sorted(mine - {process})
        mine |= more
        for pid in more:
            del others[pid]


def _read_orphans_again(known: Dict[int, Optional[LivingProcess]]) -> None:
    """Finds the new parents of those whose parent ended between the reading of the child and its own.

    Process ids start again at the smallest after the largest, so a child may be read before its parent.
    """
    has_changed = True
    while has_changed:
        has_changed = False
        for pid, one in list(known.items()):
            if one is None or one.parent == 0 or one.parent in known:
                continue
            try:
                known[pid] = _read(pid)
            except OSError:  # it has ended, too
                del known[pid]
            has_changed |= known.get(pid) != one


def has_children() -> bool:
    """Whether this process has any child, living or ended and not waited for.

    The kernel answers in one step: /proc, which is read process by process, can miss a child that was started after
    the listing by a parent that ended before its turn. Of a container's first process all others are children in the end.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def end_behind(processes: Iterable[int]) -> Set[int]:
    """Those that end by themselves when others of them have, which they would take with them."""
    processes = tuple(processes)
    return readers(processes) | mpi_starters(processes)


def mpi_starters(processes: Iterable[int]) -> Set[int]:
    """Those that have started ranks of Open MPI, or the shells that start them, of which some still live."""
    parents, found = set(), set()
    for pid in processes:
        with contextlib.suppress(OSError):  # it has ended
            one = _read(pid)
            if one is not None:
                parents.add(one.parent)
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) in MPI_STARTERS:
                found.add(pid)
    return found & parents


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
