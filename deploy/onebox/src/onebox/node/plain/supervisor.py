"""Runs one program of a pod and answers its calls, and those of all that it starts."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import sys
import threading
import time
from typing import NamedTuple

from onebox.node import syscalls
from onebox.node.containerinit import MemoryWatch, Outcome, read_all
from onebox.node.plain import steer
from onebox.node.plain.answers import (
    LET_THROUGH,
    Answer,
    LetThrough,
    Opened,
    Steer,
    Value,
    Waits,
)
from onebox.node.plain.calls import numbers
from onebox.node.plain.files import Files
from onebox.node.plain.loopback import Loopback
from onebox.node.plain.memory import Memory, UnreadableError
from onebox.node.plain.notify import Call, Listener
from onebox.node.plain.program import become
from onebox.node.plain.sockets import Sockets
from onebox.node.plain.tree import descendants, kill_descendants
from onebox.node.plain.view import View
from onebox.node.program import Failure, Pipes, Program

# Looking through all processes costs some milliseconds.
_LISTED_FOR_S = 0.5


class Place(NamedTuple):
    """Where a pod's programs believe to be."""

    view: View
    loopback: Loopback
    ip: str
    hostname: str


class Supervisor:
    """Runs one program. A process has at most one, which adopts what the program leaves behind."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._memory = Memory()
        self._files = Files(place.view, self._memory, place.hostname)
        self._sockets = Sockets(place.ip, place.loopback, place.view, self._memory)
        self._kill_number = numbers(os.uname().machine)["kill"]
        self._listener: Listener | None = None
        self._poll = select.poll()
        self._main_pid = 0
        self._ended: Outcome | None = None
        self._asked_to_end = False
        self._listed: tuple[float, list[int]] = (0.0, [])
        self._wake, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        self._poll.register(self._wake, select.POLLIN)
        syscalls.adopt_orphans()
        # After the handler is there: whoever started us may have ended before.
        syscalls.die_with_parent(signal.SIGTERM)

    def start(self, program: Program, pipes: Pipes) -> int:
        """Start the program; return its process id once its exec has succeeded.

        Raises:
            Failure: it cannot be started.
        """
        report, error = os.pipe2(os.O_CLOEXEC)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        cwd = self._place.view.real(program.cwd)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            become(program, pipes._replace(error=error), cwd, theirs)
        self._main_pid = pid
        os.close(error)
        theirs.close()
        _data, fds, _flags, _address = socket.recv_fds(ours, 1, 1)
        ours.close()
        if fds:
            os.set_inheritable(fds[0], False)
            self._listener = Listener(fds[0])
            self._poll.register(fds[0], select.POLLIN)
        text = self._serve_until_closed(report) if fds else read_all(report)
        os.close(report)
        if text:
            raise Failure.from_json(text)
        return pid

    def run(self, watch: MemoryWatch | None) -> Outcome:
        """Serve until the program has ended, then end all that it left; return how it ended."""
        if watch is not None:
            watch.list_processes = self._list_processes
        pause_s: float | None = None
        measure_at = time.monotonic()
        self._reap(watch)  # it may have ended while its start was awaited
        while self._ended is None and not self._asked_to_end:
            if watch is not None and time.monotonic() >= measure_at:
                measured_s = watch.measure()
                if measured_s < 0:
                    watch.oom_killed = True
                    os.kill(self._main_pid, signal.SIGKILL)
                    measured_s = 1.0
                measure_at = time.monotonic() + measured_s
            if watch is not None:
                pause_s = max(0.0, measure_at - time.monotonic())
            self._serve(None if pause_s is None else pause_s * 1000 + 1)
            self._reap(watch)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        kill_descendants()
        now = time.time()
        return self._ended or {"status": signal.SIGKILL, "oom_killed": False, "finished_at": now}

    def _serve_until_closed(self, fd: int) -> bytes:
        parts = []
        self._poll.register(fd, select.POLLIN)
        while True:
            if fd in self._serve(None):
                part = os.read(fd, 65536)
                if not part:
                    break
                parts.append(part)
        self._poll.unregister(fd)
        return b"".join(parts)

    def _serve(self, timeout_ms: float | None) -> list[int]:
        """Wait for calls, signals and others; answer the calls, return the others."""
        others = []
        for fd, events in self._poll.poll(timeout_ms):
            if self._listener is not None and fd == self._listener.fd:
                if events & select.POLLIN:
                    self._take(self._listener)
                else:  # nobody is left who could call
                    self._poll.unregister(fd)
            elif fd == self._wake:
                with contextlib.suppress(BlockingIOError):
                    os.read(fd, 4096)
            else:
                others.append(fd)
        return others

    def _take(self, listener: Listener) -> None:
        call = listener.receive()
        if call is None:
            return
        try:
            answer = self._answer(call)
        except UnreadableError:
            # Gone, or a process that hides itself (PR_SET_DUMPABLE): it gets no help.
            answer = LET_THROUGH
        except OSError as error:
            answer = Value(-(error.errno or errno.EIO))
        except Exception as error:  # noqa: BLE001 - the fence: one call must not end the pod
            sys.stderr.write(f"system call {call.number} could not be answered: {error!r}\n")
            answer = LET_THROUGH
        self._give(listener, call, answer)

    def _answer(self, call: Call) -> Answer:
        answer = self._files.answer(call)
        if answer is None:
            answer = self._sockets.answer(call)
        if answer is None and call.number == self._kill_number:
            answer = self._kill_everybody(call)
        return LET_THROUGH if answer is None else answer

    def _give(self, listener: Listener, call: Call, answer: Answer) -> None:
        if isinstance(answer, LetThrough):
            listener.let_through(call)
        elif isinstance(answer, Value):
            listener.answer(call, answer.value)
        elif isinstance(answer, Opened):
            listener.hand_over(call, answer.fd, closes_on_exec=answer.closes_on_exec)
            os.close(answer.fd)
        elif isinstance(answer, Waits):
            arguments = (listener, call, answer)
            threading.Thread(target=self._wait_for, args=arguments, daemon=True).start()
        else:
            self._steer(listener, call, answer)

    def _wait_for(self, listener: Listener, call: Call, answer: Waits) -> None:
        try:
            self._give(listener, call, answer.make())
        except OSError as error:
            listener.answer(call, -(error.errno or errno.EIO))

    def _steer(self, listener: Listener, call: Call, answer: Steer) -> None:
        try:
            steer.seize(call.tid)
        except OSError as error:
            listener.answer(call, -(error.errno or errno.EPERM))
            return
        listener.answer(call, 0)
        with contextlib.suppress(OSError):  # it ended meanwhile
            status = steer.redirect(call.tid, call.number, answer.make, self._memory)
            if status is not None and call.tid == self._main_pid:
                self._note_end(status, 0, None)

    def _kill_everybody(self, call: Call) -> Answer:
        """Signal "all processes that I may": all of this container, not of this machine."""
        number = call.args[1] & 0xFFFFFFFF
        for pid in descendants(os.getpid()):
            if pid != call.tid:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        return Value(0)

    def _reap(self, watch: MemoryWatch | None) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if not pid:
                    return
                if pid == self._main_pid:
                    self._note_end(status, usage.ru_maxrss * 1024, watch)

    def _note_end(self, status: int, peak_bytes: int, watch: MemoryWatch | None) -> None:
        exceeded = watch is not None and (watch.oom_killed or watch.was_exceeded(peak_bytes))
        self._ended = {"status": status, "oom_killed": exceeded, "finished_at": time.time()}

    def _list_processes(self) -> list[int]:
        listed_at, found = self._listed
        if time.monotonic() - listed_at > _LISTED_FOR_S:
            found = descendants(os.getpid())
            self._listed = (time.monotonic(), found)
        return found

    def _end(self, _number: int, _frame: object) -> None:
        self._asked_to_end = True
