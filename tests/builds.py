"""Builds what a lane needs before it may begin (Lane.prepared_by), beside all lanes, and decides what follows from it.

The lane begins when that has ended well. What was not built though it can be here is built once more, for what is
fetched may come then; after that the lane has failed. What cannot be had here, or not in time, is left out.
"""

import subprocess
from enum import Enum, auto
from pathlib import Path

from tests.lane import LEFT_OUT, TESTS, Lane
from tests.tools import children

# What is not built by then is not waited for.
BUILT_S = 60 * 60.0


class Next(Enum):
    """What is to be done about a lane."""

    BEGIN = auto()
    WAIT = auto()
    BUILD_AGAIN = auto()
    LEAVE_OUT = auto()  # it cannot be had on this machine
    GIVE_UP = auto()  # it takes too long
    FAIL = auto()


def decide(code: int | None, spent_s: float, *, is_second: bool) -> Next:
    """What follows for a lane from its build.

    Args:
        code: how the build ended; None while it runs.
        spent_s: since the run of the lanes began.
        is_second: it was built once before.
    """
    if code is None:
        return Next.WAIT if spent_s < BUILT_S else Next.GIVE_UP
    if code == 0:
        return Next.BEGIN
    if code == LEFT_OUT:
        return Next.LEAVE_OUT
    return Next.FAIL if is_second else Next.BUILD_AGAIN


class Build:
    """The build of what one lane needs, at work from the first moment on.

    Args:
        folder: of the run, for the log.
    """

    def __init__(self, lane: Lane, folder: Path) -> None:
        self._command = lane.prepared_by
        self._log = folder / f"{lane.name}-prepared.log"
        self._is_second = False
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        """How far it gives way it knows itself."""
        with self._log.open("wb") as output:
            return children.start(
                self._command,
                cwd=TESTS.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    @property
    def text(self) -> str:
        """All that it said."""
        return self._log.read_text(errors="replace")

    @property
    def last_line(self) -> str:
        return last_line(self._log)

    def next(self, spent_s: float) -> Next:
        """What is to be done about its lane, seconds after the run began."""
        return decide(self.code, spent_s, is_second=self._is_second)

    def start_again(self) -> None:
        """Once it has ended; its log begins anew."""
        self._is_second = True
        self._process = self._start()

    def stop(self) -> None:
        """Ends it, where it runs, with all that it started."""
        if self.code is None:
            children.stop(self._process)


def last_line(log: Path) -> str:
    """The last line of a log that says something."""
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
