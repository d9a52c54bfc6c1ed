"""Programs that run inside a container on request: the probes, as a pod's init runs them."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from onebox.node import syscalls
from onebox.node.descriptors import OutputPipe, Watcher
from onebox.node.program import Pipes, Program, become
from onebox.node.wire import Fields, send_message

_OUTPUT_BYTES = 10 * 1024
# A pipe that outlives its program (held by a process it left behind) is not waited for.
_DRAIN_S = 2.0


def leave_init() -> None:
    """Undo, in a child, what only a pod's init needs."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


class _Execution:
    """One of them."""

    def __init__(self, request_id: int, helper_pid: int, deadline: float) -> None:
        self.request_id = request_id
        self.helper_pid = helper_pid
        self.deadline = deadline
        self.program_pid = 0
        self.output = b""
        self.failure: Fields = {}
        self.open_fds: set[int] = set()
        self.code: int | None = None
        self.timed_out = False
        self.drain_until = 0.0


class Executions:
    """All that are under way in a pod."""

    def __init__(self, watcher: Watcher, channel: socket.socket) -> None:
        self._watcher = watcher
        self._channel = channel
        self._running: list[_Execution] = []

    def start(
        self, fields: Fields, become: Callable[[Pipes], NoReturn], cgroups: Sequence[int]
    ) -> None:
        """Run a program in a container; answer when it ended.

        Args:
            become: turns a child of this process into whoever runs the program.
        """
        report_read, report_write = os.pipe2(os.O_CLOEXEC)
        out = OutputPipe()
        pid = os.fork()
        if pid == 0:
            leave_init()
            become(Pipes(out.write_end, out.write_end, report_write, cgroups))
        for fd in (report_write, out.write_end):
            os.close(fd)
        deadline = time.monotonic() + fields["timeout_s"]
        execution = _Execution(fields["id"], pid, deadline)
        execution.open_fds = {report_read, out.read_end}
        self._running.append(execution)
        self._watcher.watch(
            report_read, functools.partial(self._take_report, execution, report_read)
        )
        self._watcher.watch(
            out.read_end, functools.partial(self._take_output, execution, out.read_end)
        )

    def _take_report(self, execution: _Execution, fd: int) -> None:
        text = os.read(fd, 65536)
        if text:
            for line in text.splitlines():
                execution.failure.update(json.loads(line))
            execution.program_pid = execution.failure.pop("pid", execution.program_pid)
            return
        self._close_of(execution, fd)

    def _take_output(self, execution: _Execution, fd: int) -> None:
        chunk = os.read(fd, 65536)
        if chunk:
            room = _OUTPUT_BYTES - len(execution.output)
            execution.output += chunk[: max(0, room)]
            return
        self._close_of(execution, fd)

    def _close_of(self, execution: _Execution, fd: int) -> None:
        self._watcher.forget(fd)
        execution.open_fds.discard(fd)
        self._answer(execution)

    def _answer(self, execution: _Execution) -> None:
        if execution.code is None or execution.open_fds:
            return
        self._running.remove(execution)
        code, output = execution.code, execution.output
        if execution.timed_out:
            code = -1
        elif execution.failure:
            code, output = execution.failure["code"], execution.failure["error"].encode()
        # Bytes of any encoding pass through JSON as latin-1.
        answer = {"id": execution.request_id, "code": code, "output": output.decode("latin-1")}
        send_message(self._channel, answer)

    def child_ended(self, pid: int, status: int) -> None:
        """Take note of the end of a child of the init, which may be a helper of ours."""
        for execution in list(self._running):
            if execution.helper_pid == pid:
                execution.code = os.waitstatus_to_exitcode(status)
                execution.drain_until = time.monotonic() + _DRAIN_S
                self._answer(execution)

    def helpers(self) -> list[int]:
        """Return the children of this process that run programs."""
        return [execution.helper_pid for execution in self._running if execution.code is None]

    def moments(self) -> list[float]:
        """Return when `look_at_clock` has something to do."""
        return [execution.drain_until or execution.deadline for execution in self._running]

    def look_at_clock(self, now: float) -> None:
        """Kill what runs too long; answer for what has ended but left its pipes open."""
        for execution in list(self._running):
            if execution.drain_until and execution.drain_until <= now:
                for fd in list(execution.open_fds):
                    self._watcher.forget(fd)
                execution.open_fds.clear()
                self._answer(execution)
            elif not execution.drain_until and execution.deadline <= now:
                self._kill(execution)

    def _kill(self, execution: _Execution) -> None:
        execution.timed_out = True
        execution.deadline = time.monotonic() + _DRAIN_S
        with contextlib.suppress(ProcessLookupError):
            if execution.program_pid:
                os.killpg(execution.program_pid, signal.SIGKILL)
            else:
                os.kill(execution.helper_pid, signal.SIGKILL)


def run_helper(init_pid: int, program: Program, pipes: Pipes) -> NoReturn:
    """Join the container of an init and run a program there; ends with its exit code."""
    try:
        namespaces = os.pidfd_open(init_pid)
        syscalls.setns(namespaces, syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS)
        os.close(namespaces)
        pid = os.fork()
        if pid == 0:
            become(program, pipes)
        os.write(pipes.error, json.dumps({"pid": pid}).encode() + b"\n")
        for fd in (pipes.stdout, pipes.error):
            os.close(fd)
        _pid, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
    except OSError:
        os._exit(128)
