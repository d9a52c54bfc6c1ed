"""Processes that are measured: how they are started, and what they use of the machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from onebox.testing.processes import descendants
from tests.tools.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
_CPUCLOCK_SCHED = 2  # linux/posix-timers.h
_END_S = 10.0
_PROBE_S = 0.05


@contextmanager
def running(
    arguments: list[str],
    log: Path,
    is_ready: Callable[[], bool],
    environment: Mapping[str, str] | None = None,
) -> Iterator[int]:
    """A Python process (`arguments` follow the interpreter) while the context is open; its pid.

    Raises:
        AssertionError: it ended or was not ready in time; the text has the end of what it said.
    """
    inherited = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**inherited, **(environment or {})},
        )

    def look() -> bool:
        assert process.poll() is None, f"{arguments}: {log.read_text(errors='replace')[-2000:]}"
        return is_ready()

    try:
        wait_for(f"{' '.join(arguments)} is ready", look, timeout_s=60)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_s(pid: int, *, with_children: bool = False) -> float:
    """CPU time of a process and all threads that it ever had, to the nanosecond.

    Ticks, as in /proc, do not see wake-ups as short as ours. The clock of another process is what
    clock_getcpuclockid(3) gives, which Python does not have.
    """
    pids = [pid, *(descendants(pid) if with_children else ())]
    return sum(time.clock_gettime((~one << 3) | _CPUCLOCK_SCHED) for one in pids)


def rss_bytes(pid: int) -> int:
    """Resident memory at this moment."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def slowness() -> float:
    """How many times longer than alone this machine takes for anything, at this moment."""
    began, began_cpu = time.perf_counter(), time.thread_time()
    while (used := time.thread_time() - began_cpu) < _PROBE_S:
        pass
    return max(1.0, (time.perf_counter() - began) / used)
