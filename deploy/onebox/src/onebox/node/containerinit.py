"""PID 1 of one container: builds its root, starts the program, reaps, and ends with it.

A container has a pid namespace of its own below the pod's: when this process ends, the kernel kills
whatever the program left behind, and containers of one pod cannot touch each other's processes. The
program itself is an ordinary process, so a SIGTERM ends it even where it has no handler for it.

Runs as a fork of the pod's init (no exec): cheap, and the privileges that mounting takes are at hand.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from onebox.node.program import Failure, Pipes, Program, become
from onebox.node.rootfs import RootPlan, build_root
from onebox.node.wire import send_message

# A program can fill memory at some GB/s: with less headroom than this per second it is measured
# again sooner, at most twenty times a second.
_FASTEST_GROWTH_BYTES_PER_S = 8 << 30
_SHORTEST_PAUSE_S = 0.05
# One that stays as it is is measured less and less often, down to this, whatever its headroom.
_RESTING_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 1.0


Outcome = dict[str, Any]
"""How a program ended: status (as wait gives it), oom_killed, finished_at (seconds)."""


class Ends(NamedTuple):
    """The descriptors of a container's init: to the pod's init, and of the program's output."""

    status: int
    stdout: int
    stderr: int
    cgroups: Sequence[int]


def run_container(spec: dict[str, Any], ends: Ends) -> NoReturn:
    """Be PID 1 of the container until its program has ended."""
    status = socket.socket(fileno=ends.status)
    try:
        program = program_of(spec)
        build_root(_root_plan(spec))
        pid = _start(program, ends)
    except Failure as failure:
        fields = {"code": failure.code, "reason": failure.reason, "error": str(failure)}
        send_message(status, fields)
        os._exit(1)
    except (OSError, ValueError) as error:
        text = f"the container's file system could not be built: {error}"
        send_message(status, {"code": 128, "reason": "CreateContainerError", "error": text})
        os._exit(1)
    send_message(status, {"started": True, "started_at": time.time()}, pid=pid)
    for fd in (ends.stdout, ends.stderr, *ends.cgroups):
        os.close(fd)
    gc.freeze()
    watch = MemoryWatch(spec["watch_bytes"]) if spec["watch_bytes"] else None
    send_message(status, _reap_until(pid, watch))
    os._exit(0)


def program_of(spec: dict[str, Any]) -> Program:
    """Return the part of a container's spec that its program and its probes share."""
    return Program(
        argv=spec["argv"],
        env=spec["env"],
        cwd=spec["cwd"],
        uid=spec["uid"],
        gid=spec["gid"],
        groups=spec["groups"],
        set_ids=spec["set_ids"],
    )


def _root_plan(spec: dict[str, Any]) -> RootPlan:
    return RootPlan(
        stage=spec["stage"],
        tmpfs_folder=spec["tmpfs_folder"],
        mounts=spec["mounts"],
        devices=spec["devices"],
        etc=spec["etc"],
        uid=spec["uid"],
        gid=spec["gid"],
        root_bytes=spec["root_bytes"],
        tmp_bytes=spec["tmp_bytes"],
        read_only=spec["read_only_root"],
        oom_events=spec.get("oom_events"),
        owned_folders=[spec["env"].get("HOME", "/"), spec["cwd"]],
    )


def _start(program: Program, ends: Ends) -> int:
    """Fork the program; return its process id once its exec has succeeded."""
    report, error = os.pipe2(os.O_CLOEXEC)
    # Blocked here so that _reap_until can wait for it; the program gets an empty mask.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    pid = os.fork()
    if pid == 0:
        become(program, Pipes(ends.stdout, ends.stderr, error, ends.cgroups))
    os.close(error)
    text = read_all(report)
    os.close(report)
    if text:
        raise Failure.from_json(text)
    return pid


def read_all(fd: int) -> bytes:
    """Read to the end."""
    parts = []
    while part := os.read(fd, 65536):
        parts.append(part)
    return b"".join(parts)


def _reap_until(main_pid: int, watch: MemoryWatch | None) -> Outcome:
    """Reap every process that ends here until the program itself has; return how it ended."""
    while True:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid == main_pid:
            oom_killed = watch is not None and (
                watch.oom_killed or watch.was_exceeded(usage.ru_maxrss * 1024)
            )
            return {"status": status, "oom_killed": oom_killed, "finished_at": time.time()}
        if pid:
            continue
        if watch is None:
            signal.sigwait([signal.SIGCHLD])
            continue
        pause_s = watch.measure()
        if pause_s < 0:
            watch.oom_killed = True
            os.kill(main_pid, signal.SIGKILL)
            pause_s = _LONGEST_PAUSE_S
        signal.sigtimedwait([signal.SIGCHLD], pause_s)


def _list_processes() -> list[int]:
    """Return the processes of this pid namespace but this one."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


class MemoryWatch:
    """Measures what the processes of this pid namespace hold, where no cgroup does.

    What counts is what a cgroup could not take back: anonymous and shared memory, not the pages of
    files. Processes that share pages after a fork are first counted in full, which is cheap, and
    exactly only when that is over the limit.

    Attributes:
        list_processes: gives the processes; another one where there is no pid namespace.
        oom_killed: for whoever kills by what was measured to remember that.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._file_bytes = 0
        self._last_bytes = -1
        self._unchanged = 0
        self.list_processes = _list_processes
        self.oom_killed = False

    def measure(self) -> float:
        """Return the seconds until the next measurement; negative: the limit is exceeded."""
        used_bytes = self._sum("status", ("RssAnon:", "RssShmem:"))
        if used_bytes > self._limit_bytes:
            used_bytes = self._sum("smaps_rollup", ("Pss_Anon:", "Pss_Shmem:"))
        if used_bytes > self._limit_bytes:
            return -1
        self._unchanged = self._unchanged + 1 if used_bytes == self._last_bytes else 0
        self._last_bytes = used_bytes
        resting_s = min(_RESTING_PAUSE_S, _SHORTEST_PAUSE_S * (1 + self._unchanged / 4))
        headroom_s = (self._limit_bytes - used_bytes) / _FASTEST_GROWTH_BYTES_PER_S
        return min(_LONGEST_PAUSE_S, max(resting_s, headroom_s))

    def was_exceeded(self, peak_bytes: int) -> bool:
        """Whether the program went over between two measurements, by its peak at its end.

        The peak counts pages of files too, so those seen are taken off, and only a clear excess
        counts.
        """
        return peak_bytes - self._file_bytes > self._limit_bytes * 1.25

    def _sum(self, file_name: str, wanted: tuple[str, ...]) -> int:
        total_kib = 0
        for pid in self.list_processes():
            try:
                with open(f"/proc/{pid}/{file_name}") as file:
                    lines = file.read().splitlines()
            except OSError:
                continue  # it has ended meanwhile
            for line in lines:
                if line.startswith(wanted):
                    total_kib += int(line.split()[1])
                elif line.startswith("RssFile:"):
                    self._file_bytes = max(self._file_bytes, int(line.split()[1]) * 1024)
        return total_kib * 1024
