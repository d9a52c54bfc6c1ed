"""A real onebox for tests: `start_onebox(home)` runs the supervisor, the API half and the node.

    with contextlib.closing(start_onebox(tmp_path / "onebox")) as box:
        ... box.kubeconfig ...

The process dies with the test process, whatever happens to that.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AS_USER = ROOT / "tests" / "onebox" / "node_sandbox" / "ordinary_user.py"
READY_S = 60.0
STOP_S = 40.0


@dataclass
class OneBox:
    """A running onebox.

    Attributes:
        ready_s: how long the start took.
        log: everything that supervisor, API half and node said.
    """

    home: Path
    process: subprocess.Popen[bytes]
    log: Path
    ready_s: float = 0.0
    arguments: tuple[str, ...] = field(default=(), repr=False)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.home / "kubeconfig"

    def stop(self) -> int:
        """End it as Ctrl-C does; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise
        self._close_pipe()
        return self.process.returncode

    close = stop

    def kill9(self) -> None:
        """Kill the supervisor; the kernel ends the rest."""
        self.process.kill()
        self.process.wait(STOP_S)
        self._close_pipe()

    def _close_pipe(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()

    def tail(self, lines: int = 60) -> str:
        """The end of its log, for the message of a failed test."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def start_onebox(
    home: Path,
    *,
    gpus: str = "auto",
    cpu: int | None = None,
    forward: int | None = None,
    egress: str = "off",
    grace_s: float = 2.0,
    uid: int | None = None,
    extra: Sequence[str] = (),
) -> OneBox:
    """Start onebox on `home` (kept from an earlier run or new) and wait until it is ready.

    Args:
        uid: run it as this ordinary user instead of the one of the tests (needs root).
        extra: further options of `python -m onebox`.

    Raises:
        RuntimeError: it ended or was not ready in time; the message holds its log.
    """
    arguments = ["--gpus", gpus, "--egress", egress, "--grace", str(grace_s), *extra]
    if cpu is not None:
        arguments += ["--cpu", str(cpu)]
    if forward is not None:
        arguments += ["--forward", str(forward)]
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "onebox", "--home", str(home), *arguments]
    if uid is not None:
        os.chown(home, uid, uid)
        command = [sys.executable, str(AS_USER), str(uid), str(uid), str(home), *command]
    box = launch(command, home, home.parent / f"{home.name}.log")
    box.arguments = tuple(arguments)
    return box


def launch(command: Sequence[str], home: Path, log: Path, checkout: Path = ROOT) -> OneBox:
    """Run a command of a checkout that ends up as onebox's supervisor and wait for its word."""
    began_s = time.monotonic()
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            cwd=checkout,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - only prctl between fork and exec
        )
    box = OneBox(home, process, log)
    word = _first_line(process, READY_S)
    if b"onebox is ready" not in word:
        box.kill9()
        raise RuntimeError(f"onebox did not start (code {process.returncode}):\n{box.tail()}")
    box.ready_s = time.monotonic() - began_s
    return box


def _first_line(process: subprocess.Popen[bytes], timeout_s: float) -> bytes:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(timeout_s):
            return b""
    return os.read(process.stdout.fileno(), 4096)


def _die_with(parent: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return prepare
