"""A real onebox: `start(home)` runs the supervisor, the API half and the node.

    with contextlib.closing(start(tmp_path / "onebox")) as box:
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
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
# Before a command: it runs as in a plain container (plain_container.py).
IN_PLAIN_CONTAINER = (sys.executable, str(_HERE / "plain_container.py"))
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
            self.kill()
            raise
        self._close_pipe()
        return self.process.returncode

    close = stop

    def kill(self) -> None:
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


def start(home: Path, *, uid: int | None = None, **options: object) -> OneBox:
    """Start onebox on `home` (kept from an earlier run or new) and wait until it is ready.

    Args:
        uid: run it as this ordinary user instead of the one of the tests (needs root).
        options: of `python -m onebox`, such as gpus=0 or node_port_range="31800-31899"; pods get
            two seconds at the end where it is not said otherwise.

    Raises:
        RuntimeError: it ended or was not ready in time; the message holds its log.
    """
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "onebox", "--home", str(home)]
    for name, value in {"grace": 2, **options}.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    if uid is not None:
        os.chown(home, uid, uid)
        command = [*as_user(uid, home), *command]
    return launch(command, home, home.parent / f"{home.name}.log")


def as_user(uid: int, home: Path) -> tuple[str, ...]:
    """What comes before a command that root runs as an ordinary user (ordinary_user.py)."""
    return (sys.executable, str(_HERE / "ordinary_user.py"), str(uid), str(uid), str(home))


def launch(
    command: Sequence[str], home: Path, log: Path, working_dir: Path | None = None
) -> OneBox:
    """Run a command that ends up as onebox's supervisor and wait for its word.

    Raises:
        RuntimeError: it ended or was not ready in time; the message holds its log.
    """
    began_s = time.monotonic()
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            cwd=working_dir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - only prctl between fork and exec
        )
    box = OneBox(home, process, log)
    word = _first_line(process, READY_S)
    if b"onebox is ready" not in word:
        box.kill()
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
