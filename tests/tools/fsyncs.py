"""Counts how often a running process puts a file on disk, by the system calls that it makes.

What a database promises (`PRAGMA synchronous`) is one thing, what reaches the disk another: strace
sees the calls themselves. It writes a call down before the process goes on, so that a count read
after an answer holds every call made before that answer.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.tools.missing import is_missing
from tests.tools.servers import NoServerError, find_program
from tests.tools.waiting import wait_for


class Fsyncs:
    """The calls of one process and its threads, since it is watched."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def of(self, name: str) -> int:
        """How many calls put a file named `name` or its `-wal` on disk.

        A call that another thread's interrupts is on two lines, of which only the first has a path.
        """
        pattern = re.compile(rf"/{re.escape(name)}(-wal)?>(\) += 0| <unfinished)")
        return sum(bool(pattern.search(line)) for line in self._log.read_text().splitlines())

    def below(self, folder: Path) -> int:
        """How many calls put something in the folder, or below it, on disk."""
        lines = self._log.read_text().splitlines()
        return sum(f"<{folder}/" in line or f"<{folder}>" in line for line in lines)


@contextmanager
def watched(pid: int, folder: Path) -> Iterator[Fsyncs]:
    """Watches a process; `folder` takes the list of its calls.

    Where there is no strace, or it may not be used, the test is skipped; with CI set it fails.
    """
    try:
        strace = find_program("strace", "strace")
    except NoServerError as error:
        is_missing(str(error))
    log = folder / "fsyncs.txt"
    command = [strace, "-f", "-y", "-e", "trace=fsync,fdatasync", "-o", str(log)]
    child = subprocess.Popen([*command, "-p", str(pid)], stderr=subprocess.PIPE)
    status = Path(f"/proc/{pid}/status")
    try:
        wait_for(
            "strace holds the process",
            lambda: child.poll() is not None or f"TracerPid:\t{child.pid}" in status.read_text(),
        )
        if child.poll() is not None:
            assert child.stderr is not None
            is_missing(f"strace may not watch here: {child.stderr.read().decode().strip()}")
        yield Fsyncs(log)
    finally:
        child.terminate()
        child.wait(10)
