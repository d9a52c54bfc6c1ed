"""Commands of tests as children that leave nothing behind, however they end or the process that waits for them does."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

GUARD = Path(__file__).with_name("guard.py")
# Within which a guard that was asked is gone with all that its command started (tests/tools/guard.py).
PUT_AWAY_S = 20.0
INTERRUPTED = 128 + signal.SIGINT
LOST_READER = 128 + signal.SIGPIPE
_LOOK_S = 0.5
_IS_GUARDED = "HOMEPORT_TESTS_GUARDED"


def guarded(command: Sequence[str]) -> list[str]:
    """The command line under which a command leaves nothing behind once it or this process has ended."""
    return [sys.executable, "-I", str(GUARD), str(os.getpid()), *command]


def start(command: Sequence[str], **popen: object) -> "subprocess.Popen[bytes]":
    """Starts a command under a guard.

    It has a session of its own: a terminal's Ctrl-C, which comes to a whole group, and a signal that comes to this
    process alone both reach it once, through us.
    """
    return subprocess.Popen(guarded(command), start_new_session=True, **popen)  # type: ignore[call-overload, no-any-return]


def stop(*children: "subprocess.Popen[bytes]") -> None:
    """Asks children that were started so to end, and returns once they and all below them have."""
    for child in children:
        child.send_signal(signal.SIGINT)
    for child in children:
        try:
            child.wait(PUT_AWAY_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def run_to_the_end(command: Sequence[str], environ: Mapping[str, str] | None = None) -> int:
    """Its exit code."""
    child = start(command, env=environ)
    try:
        return child.wait()
    except BaseException:
        stop(child)
        raise


def has_lost_reader() -> bool:
    """Whether nobody reads any more what this process says: a pipe without another end, a terminal that is gone."""
    look = select.poll()
    look.register(1, 0)
    return any(seen & (select.POLLERR | select.POLLHUP) for _, seen in look.poll(0))


def say(text: str) -> None:
    """Prints a line; where nobody reads any more that is seen by `has_lost_reader`."""
    with contextlib.suppress(OSError):
        print(text, flush=True)


def raise_when_asked() -> None:
    """SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt; with `nohup`, SIGHUP stays ignored.

    A shell that runs this in the background has SIGINT ignored, and tests would inherit that.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def alone(main: Callable[[], int]) -> int:
    """Runs the main function of this process's program in a child under a guard; its exit code.

    It ends with this process, whatever ends that, and when nobody reads any more. Below a guard it runs here.
    """
    if os.environ.get(_IS_GUARDED):
        try:
            return main()
        except KeyboardInterrupt:
            return INTERRUPTED
    raise_when_asked()
    child = start([sys.executable, *sys.orig_argv[1:]], env={**os.environ, _IS_GUARDED: "yes"})
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.wait(_LOOK_S)
            if has_lost_reader():
                stop(child)
                return LOST_READER
    except KeyboardInterrupt:
        stop(child)
        return INTERRUPTED
