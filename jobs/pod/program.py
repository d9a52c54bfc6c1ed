# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""The user's program as a process: started, read, signalled, and its end put into words."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from typing import Callable, Deque, Dict, Iterable, List, NamedTuple, Optional, Set

from jobs.pod.files import find_own_packages
from jobs.pod.processes import (
    began_before,
    end_behind,
    has_children,
    living,
    started_by,
    ticks_now,
)
from jobs.pod.protocol import codes
from jobs.pod.protocol.notices import UNFINISHED
from jobs.pod.protocol.placeholders import ReplicaContext, final_environment
from jobs.pod.ratelimit import RateLimit

PIPE_BYTES = 1024 * 1024
OPEN_S = 1.0  # a line without an end is shown as far as it has come
READERS_S = 1.0  # for what reads the output of another to end behind that one; then it is asked
READERS_LOOK_S = 0.1  # how often it is looked who still writes
F_SETPIPE_SZ = 1031  # fcntl.h; the module has the name from Python 3.10 on


class Live(threading.Thread):
    """Copies output to stdout, a flood in part (see `ratelimit`), and a line that has no end yet in pieces.

    A reader that stops reading slows the program, as a pipe does.
    """

    QUEUE_BYTES = 1024 * 1024

    def __init__(self) -> None:
        super().__init__(daemon=True, name="stdout")
        self._chunks: Deque[bytes] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._closed = False
        self._limit = RateLimit(time.monotonic())

    def put(self, data: bytes, may_block: Callable[[], bool]) -> None:
        """Queues output; waits while too much is waiting, as long as `may_block` says yes."""
        data = self._limit.feed(data, time.monotonic())
        if not data:
            return
        with self._changed:
            while self._waiting_bytes >= self.QUEUE_BYTES:
                if not may_block() or not self.is_alive():
                    return
                self._changed.wait(0.25)
            self._chunks.append(data)
            self._waiting_bytes += len(data)
            self._changed.notify_all()

    def finish(self, timeout_s: float) -> None:
        rest = self._limit.finish()
        with self._changed:
            if rest:
                self._chunks.append(rest)
                self._waiting_bytes += len(rest)
            self._closed = True
            self._changed.notify_all()
        self.join(timeout_s)

    def run(self) -> None:
        open_at: Optional[float] = None  # since when a part of a line has come that nobody can see
        while True:
            with self._changed:
                while not self._chunks:
                    if self._closed:
                        return
                    left_s = None if open_at is None else open_at + OPEN_S - time.monotonic()
                    if left_s is not None and left_s <= 0:
                        break
                    self._changed.wait(left_s)
                data = self._chunks.popleft() if self._chunks else b""
            now = time.monotonic()
            if data.endswith(b"\n"):
                open_at = None
            elif data and (open_at is None or b"\n" in data):
                open_at = now
            is_shown = open_at is not None and now - open_at >= OPEN_S
            open_at = None if is_shown else open_at
            view = memoryview(data + UNFINISHED + b"\n" if is_shown else data)
            try:
                while view:
                    view = view[os.write(1, view) :]
            except OSError:
                return  # nobody can read it any more; the archive goes on
            with self._changed:
                self._waiting_bytes -= len(data)
                self._changed.notify_all()


class Program:
    """The user's program, in a session and process group of its own."""

    def __init__(self, command: List[str], env: Dict[str, str]) -> None:
        """Starts it.

        Raises:
            OSError: it cannot be started.
        """
        read_fd, write_fd = os.pipe()
        _widen(read_fd)
        try:
            self._process = subprocess.Popen(
                [_raw(word) for word in command],
                env={_raw(name): _raw(text) for name, text in env.items()},
                stdin=subprocess.DEVNULL,
                stdout=write_fd,
                stderr=write_fd,
                start_new_session=True,
            )
        except BaseException:
            os.close(read_fd)
            raise
        finally:
            os.close(write_fd)
        self.output_fd = read_fd
        self.pid = self._process.pid
        self.status: Optional[int] = None
        self.ended = threading.Event()
        self._readers: Set[int] = set()  # that have not been asked
        self._alone_since: Dict[int, float] = {}  # of these: since when nothing writes to it
        self._next_look = 0.0
        threading.Thread(target=self._reap, daemon=True, name="reaper").start()

    def _reap(self) -> None:
        """Waits for every child: as process 1 we inherit the orphans of the container."""
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                time.sleep(1.0)
                continue
            if pid == self.pid:
                self.status = status
                self._process.returncode = 0  # reaped here: Popen must not look for it
                self.ended.set()

    def signal_group(self, number: int) -> None:
        with contextlib.suppress(OSError):  # ended meanwhile
            os.killpg(self.pid, number)

    def ask(self, number: int) -> None:
        """Asks all that it has started to end, each once; what reads the output of another ends behind that one.

        As the container's first process all others, also those in sessions of their own: who is waited for has to
        have heard of it. Not what they begin to save when they hear of it. Takes no lock, for a signal handler calls it.
        """
        started = self._started()
        self._readers = end_behind(started)
        if self._readers:
            self._ask_each(number, started)
        elif os.getpid() == 1:
            _send(-1, number)
        else:
            self.signal_group(number)

    def _ask_each(self, number: int, started: Iterable[int]) -> None:
        """Asks all but the readers, also what began between the listing and the first signal."""
        # What a trap begins is told from what began before by its tick, of 10 ms: the signals go out in a new one.
        first_tick = ticks_now() + 1
        while ticks_now() < first_tick:
            time.sleep(0.001)
        asked = set(started) - self._readers
        for pid in asked:
            _send(pid, number)
        started = self._started()
        new = began_before(first_tick, set(started) - self._readers - asked)
        self._readers |= end_behind(started) & new
        for pid in new - self._readers:
            _send(pid, number)

    def ask_readers(self) -> None:
        """Asks what reads the output of others, when none of these has been there for a while and it goes on.

        It is for who waits to call this time and again. Each in its turn: of `a | b | c` the last one is not asked while
        the second one, which was, still saves.
        """
        now = time.monotonic()
        if not self._readers or now < self._next_look:
            return
        self._next_look = now + READERS_LOOK_S
        started = set(self._started())
        waiting = self._readers & started
        alone = waiting - end_behind(started)
        if not alone and started == waiting:
            alone = waiting  # each reads from another of them
        # Since now, not since they were asked: the last writer may have ended this moment, and what it wrote be unread.
        self._alone_since = {pid: self._alone_since.get(pid, now) for pid in alone}
        late = {pid for pid, since in self._alone_since.items() if now - since > READERS_S}
        self._readers = waiting - late
        for pid in late:
            _send(pid, signal.SIGTERM)

    def _started(self) -> List[int]:
        """What of it is alive; nothing where there is no /proc to find it in."""
        try:
            if os.getpid() == 1:
                return started_by(1)
            return [pid for pid, one in living().items() if one.group == self.pid]
        except OSError:
            return []

    def has_rest(self) -> bool:
        """Whether anything that was asked to end may still be at work, when the program itself has ended."""
        return has_children() if os.getpid() == 1 else bool(self._started())

    def kill_rest(self) -> None:
        """Ends what the program left behind, as the end of a container's first process does."""
        self.signal_group(signal.SIGKILL)
        if os.getpid() == 1:
            with contextlib.suppress(OSError):
                os.kill(-1, signal.SIGKILL)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):  # ended meanwhile
        os.kill(pid, number)


def _raw(text: str) -> bytes:
    """UTF-8 whatever the locale; what the environment held as other bytes stays as it was."""
    return text.encode("utf-8", "surrogateescape")


def _widen(fd: int) -> None:
    try:
        import fcntl

        fcntl.fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES)
    except (ImportError, OSError):
        pass  # slower, not wrong


def whole_environment(
    asked: Dict[str, str],
    given: Dict[str, str],
    context: ReplicaContext,
    inherited: Dict[str, str],
) -> Dict[str, str]:
    """All variables of the program: the pod's, what it asked for, and what makes both work.

    Args:
        asked, given: by the person, by the topology; see `final_environment`.
    """
    env = dict(inherited)
    # A program that writes to a pipe would show its output only every few KiB.
    env.setdefault("PYTHONUNBUFFERED", "1")
    # Much looks here for the name of its user, which images seldom know.
    env.setdefault("USER", "homeport")
    env.setdefault("LOGNAME", env["USER"])
    proxies = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
    if any(name in env or name.upper() in env for name in proxies):
        # gRPC would send even the traffic between replicas to the proxy.
        env["grpc_proxy"] = ""
        names = [host.rsplit(":", 1)[0] for role in context.hosts.values() for host in role]
        kept = [word for word in env.get("no_proxy", env.get("NO_PROXY", "")).split(",") if word]
        env["no_proxy"] = env["NO_PROXY"] = ",".join(kept + names)
    env.update(final_environment(asked, given, context))
    if "PATH" not in asked:
        find_own_packages(env)
    return env


class Ending(NamedTuple):
    """How the program ended.

    Attributes:
        last_words: of its output, see `TerminationMessage`.
    """

    exit_code: int
    reason: str
    text: str
    last_words: str = ""


def ending_of(status: int, was_asked: bool, was_killed: bool, grace_s: float) -> Ending:
    """The words for a wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        code = codes.SIGNAL_BASE + number
        how = f"was killed by {_signal_name(number)}"
    else:
        number = 0
        code = os.WEXITSTATUS(status)
        how = f"ended with exit code {code}"
    if was_killed:
        text = f"the program did not end within {grace_s:.0f} s of being asked to, and was killed"
        return Ending(code, codes.STOPPED, text)
    if was_asked:
        return Ending(code, codes.STOPPED, f"the program was asked to end and {how}")
    if number == signal.SIGKILL:
        how += "; most often it used more memory than it requested"
    reason = codes.KILLED if number else codes.FAILED if code else codes.COMPLETED
    return Ending(code, reason, f"the program {how}")


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} (signal {number})"
    except ValueError:
        return f"signal {number}"
