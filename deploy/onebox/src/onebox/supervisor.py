"""Starts onebox's two halves, waits for both, and ends them together.

One thread that sleeps in `select`: the kernel ties each child's life to the thread that started
it (PR_SET_PDEATHSIG), so a supervisor that is killed takes everything with it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

EXIT_FAULT = 1
EXIT_NO_SANDBOX = 3

API_READY_S = 60.0
NODE_READY_S = 60.0
API_STOP_S = 10.0
# On top of the pods' grace, for the node to clean up.
NODE_STOP_S = 10.0
_PR_SET_PDEATHSIG = 1


class SupervisorFault(Exception):  # noqa: N818 - the end of the program with an exit code
    """onebox cannot start or go on.

    Attributes:
        code: exit code for the supervisor.
    """

    def __init__(self, message: str, code: int = EXIT_FAULT) -> None:
        super().__init__(message)
        self.code = code


class Interrupted(Exception):  # noqa: N818 - somebody asked for the end, no error
    """A signal asked for the end."""


@dataclass(frozen=True)
class Plan:
    """What to start.

    Args:
        home: onebox's folder; api and node get folders of their own in it.
        api_arguments, node_arguments: options passed on to the halves.
        grace_s: how long pods get at the end.
    """

    home: Path
    api_arguments: tuple[str, ...]
    node_arguments: tuple[str, ...]
    grace_s: float

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.home / "kubeconfig"

    @property
    def token_file(self) -> Path:
        """The secret that lets the API half read logs from the node."""
        return self.home / "node-token"

    @property
    def node_kubeconfig(self) -> Path:
        """The node's kubeconfig."""
        return self.home / "node.kubeconfig"

    def api_command(self) -> list[str]:
        """Command line of the API half."""
        options = {
            "--home": self.home / "api",
            "--node-token-file": self.token_file,
            "--kubeconfig": self.kubeconfig,
            "--node-kubeconfig": self.node_kubeconfig,
        }
        return [*_module("onebox.api"), *_flat(options), *self.api_arguments]

    def node_command(self) -> list[str]:
        """Command line of the node half."""
        options = {
            "--home": self.home / "node",
            "--token-file": self.token_file,
            "--kubeconfig": self.node_kubeconfig,
            "--grace": self.grace_s,
        }
        return [*_module("onebox.node"), *_flat(options), *self.node_arguments]


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", name]


def _flat(options: Mapping[str, object]) -> list[str]:
    return [word for name, value in options.items() for word in (name, str(value))]


class Half:
    """One of the two programs. It says that it is ready by a line on its standard output."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.is_ready = False
        self._said, writing = os.pipe()
        os.set_blocking(self._said, False)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            # Ctrl-C at a terminal must reach the supervisor alone, which stops them in order.
            start_new_session=True,
            preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - this program has one thread
        )
        os.close(writing)
        self._pidfd = os.pidfd_open(self._process.pid)

    @property
    def is_alive(self) -> bool:
        """Whether the program runs."""
        return self._process.poll() is None

    @property
    def code(self) -> int:
        """Exit code of a program that ended; negative for a signal."""
        return int(self._process.poll() or 0)

    def register(self, selector: selectors.BaseSelector) -> None:
        """Let the selector wake for its readiness and its end."""
        selector.register(self._said, selectors.EVENT_READ, self._take_words)
        selector.register(self._pidfd, selectors.EVENT_READ, None)

    def unregister(self, selector: selectors.BaseSelector) -> None:
        """Undo `register` and free what belongs to it."""
        for descriptor in (self._said, self._pidfd):
            if descriptor in selector.get_map():
                selector.unregister(descriptor)
            os.close(descriptor)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.is_alive:
            self._process.send_signal(number)

    def _take_words(self, selector: selectors.BaseSelector) -> None:
        words = os.read(self._said, 4096)
        self.is_ready = self.is_ready or b"\n" in words
        if not words:
            selector.unregister(self._said)


def _die_with(parent: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None, use_errno=True)

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return prepare


class Supervisor:
    """Runs both halves; `run` returns when they have ended."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._selector = selectors.DefaultSelector()
        self._halves: list[Half] = []
        self._signals = 0
        self._woken, waking = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._signalled)
        self._selector.register(self._woken, selectors.EVENT_READ, None)

    def run(self, on_ready: Callable[[], None]) -> None:
        """Start, tell when ready, and wait for a signal.

        Raises:
            SupervisorFault: a half could not start, or ended by itself.
        """
        lock = lock_home(self._plan.home)
        try:
            write_token(self._plan.token_file)
            api = self._start("API half", self._plan.api_command(), API_READY_S)
            node = self._start("node half", self._plan.node_command(), NODE_READY_S)
            on_ready()
            while api.is_alive and node.is_alive:
                self._sleep(None)
            raise self._fault_of(api if not api.is_alive else node)
        except Interrupted:
            pass
        finally:
            self._stop_all()
            lock.close()

    def _start(self, name: str, command: Sequence[str], patience_s: float) -> Half:
        half = Half(name, command)
        self._halves.append(half)
        half.register(self._selector)
        deadline_s = time.monotonic() + patience_s
        while not half.is_ready:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise SupervisorFault(f"the {name} is not ready after {patience_s:g} seconds")
            self._sleep(left_s)
            for known in self._halves:
                if not known.is_alive:
                    raise self._fault_of(known)
        return half

    @staticmethod
    def _fault_of(half: Half) -> SupervisorFault:
        if half.code == EXIT_NO_SANDBOX:
            return SupervisorFault("this machine cannot run pods, see above", EXIT_NO_SANDBOX)
        how = f"was killed by signal {-half.code}" if half.code < 0 else f"ended with {half.code}"
        return SupervisorFault(f"the {half.name} {how}, see above")

    def _sleep(self, timeout_s: float | None) -> None:
        """Sleep until something happens; raises Interrupted when a signal asked for the end."""
        self._select(timeout_s)
        if self._signals:
            raise Interrupted

    def _select(self, timeout_s: float | None) -> None:
        for key, _ in self._selector.select(timeout_s):
            if key.fd == self._woken:
                os.read(self._woken, 1024)
            elif key.data is not None:
                key.data(self._selector)

    def _signalled(self, _number: int, _frame: object) -> None:
        self._signals += 1

    def _stop_all(self) -> None:
        """End the node first, while the API still takes its last words; then the API."""
        for half, patience_s in zip(
            reversed(self._halves),
            ([self._plan.grace_s + NODE_STOP_S] if len(self._halves) > 1 else []) + [API_STOP_S],
            strict=True,
        ):
            self._stop(half, patience_s)
            half.unregister(self._selector)
        self._halves.clear()

    def _stop(self, half: Half, patience_s: float) -> None:
        seen = self._signals
        half.send(signal.SIGTERM)
        deadline_s = time.monotonic() + patience_s
        while half.is_alive:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                sys.stderr.write(f"onebox: the {half.name} does not end, it is killed\n")
                half.send(signal.SIGKILL)
                left_s = 5.0
            self._select(left_s)
            if self._signals > seen:
                seen = self._signals
                # A second signal hurries the node; it kills its pods at once.
                half.send(signal.SIGTERM)


def lock_home(home: Path) -> IO[str]:
    """Make the home and keep other supervisors out of it, until the file is closed.

    Raises:
        SupervisorFault: another one runs on it, or it cannot be made.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o700)
        file = (home / "lock").open("a+")
    except OSError as error:
        raise SupervisorFault(f"the folder {home} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise SupervisorFault(
            f"onebox already runs on {home}; stop that one, or give another folder with --home"
        ) from error
    return file


def write_token(path: Path) -> None:
    """Make the token that both halves share, once."""
    if path.exists():
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(32))
