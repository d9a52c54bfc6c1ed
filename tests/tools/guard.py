"""Runs a command, and puts away all that it started when it ends, or when who waits for it does.

    python guard.py PARENT COMMAND...

PARENT is the process that waits for this one. It may end in any way, by SIGKILL as well, and so may the command; what the
command left behind becomes a child of this process, whatever session it is in. On SIGINT, SIGTERM, SIGHUP, or when the
parent is gone, the command is interrupted; what is left after a while is asked to end, and then killed. With what the
command ended this process ends too, 128 and the signal's number for one that a signal ended.

It stands alone and is started by its path, so that a command runs in any folder.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)
_ASKS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_SEEN = {*_ASKS, signal.SIGCHLD}
_LOOK_S = 0.5
# All is gone within 20 s of the end of who waits: the command has this long to put things away,
INTERRUPTED_S = 9.0
# and then what is left of it this long.
ASKED_S = 6.0


def _start(command: Sequence[str]) -> int:
    """The process of the command. It is asked to end should this process be killed."""
    guard = os.getpid()
    libc = ctypes.CDLL(None)
    pid = os.fork()
    if pid:
        return pid
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != guard:
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(127)


def _descendants() -> set[int]:
    """Our children, theirs, and so on."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                if stat[0] != "Z":
                    children.setdefault(int(stat[1]), []).append(int(entry.name))
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def _ended() -> Iterator[tuple[int, int]]:
    """Children that have ended, with how."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        yield pid, status


def _put_away() -> None:
    """Ends all that is left: asks, then kills."""
    until_s = time.monotonic() + ASKED_S
    asked: set[int] = set()
    while left := _descendants():
        number = signal.SIGTERM if time.monotonic() < until_s else signal.SIGKILL
        for pid in left - asked if number == signal.SIGTERM else left:
            asked.add(pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        signal.sigtimedwait(_SEEN, 0.1)
        for _ in _ended():
            pass


def main() -> int:
    """What the command ended with."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for number in _SEEN:  # a shell that runs things in the background has some of them ignored
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SEEN)
    child = _start(command)
    code, asked_s = 128 + signal.SIGKILL, 0.0
    is_over = False
    while not is_over:
        came = signal.sigtimedwait(_SEEN, _LOOK_S)
        for pid, status in _ended():
            if pid == child:
                ended = os.waitstatus_to_exitcode(status)
                code, is_over = ended if ended >= 0 else 128 - ended, True
        is_asked = (came is not None and came.si_signo in _ASKS) or os.getppid() != parent
        if is_asked and not asked_s and not is_over:
            asked_s = time.monotonic()
            os.kill(child, signal.SIGINT)
        is_over = is_over or bool(asked_s and time.monotonic() > asked_s + INTERRUPTED_S)
    _put_away()
    return code


if __name__ == "__main__":
    sys.exit(main())
