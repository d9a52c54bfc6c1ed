"""A child process that cannot outlive the launcher, and that is stopped in two steps."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

_PR_SET_PDEATHSIG = 1  # prctl(2)
_libc = ctypes.CDLL(None, use_errno=True)


def tied_to(parent_pid: int) -> Callable[[], None]:
    """What a child does between fork and exec: dies when its parent does, hears all signals.

    SIGTERM, so that a child whose launcher was killed still puts its own work down.
    """

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent_pid:  # the parent died before the line above
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])

    return prepare


@dataclass
class Child:
    """One program of the installation. Started from the main thread only: the tie to the parent
    is to the thread that forked.

    Attributes:
        log: file that its output is appended to; None: the launcher's own output.
        grace_s: between SIGTERM and SIGKILL.
    """

    name: str
    argv: Sequence[str]
    environ: Mapping[str, str]
    cwd: Path
    log: Path | None = None
    grace_s: float = 20.0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    started_at: float = 0.0

    def start(self) -> None:
        """Starts it in a session of its own, so that Ctrl-C reaches the launcher alone."""
        output: IO[bytes] | None = self.log.open("ab") if self.log else None
        try:
            self.process = subprocess.Popen(
                self.argv,
                cwd=self.cwd,
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output else None,
                start_new_session=True,
                preexec_fn=tied_to(os.getpid()),  # noqa: PLW1509 (the launcher has one thread)
            )
        finally:
            if output is not None:
                output.close()
        self.started_at = time.monotonic()

    @property
    def exit_code(self) -> int | None:
        """None while it runs (or was never started)."""
        return self.process.poll() if self.process is not None else None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def last_words(self, lines: int = 15) -> str:
        """The end of its log, indented; empty when it has none."""
        if self.log is None or not self.log.exists():
            return ""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - 16_384))
            text = file.read().decode(errors="replace")
        return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])

    def terminate(self) -> None:
        if self.is_running and self.process is not None:
            self.process.terminate()

    def kill(self) -> None:
        """Ends it and what is left of its session."""
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self.process.kill()

    def stop(self, is_hurried: Callable[[], bool]) -> None:
        """SIGTERM, up to `grace_s`, SIGKILL; at once when somebody hurries.

        Args:
            is_hurried: asked every tenth of a second.
        """
        if self.process is None:
            return
        self.terminate()
        deadline = time.monotonic() + self.grace_s
        while self.process.poll() is None:
            if time.monotonic() > deadline or is_hurried():
                self.kill()
                self.process.wait()
                return
            _wait_for_exit(self.process, 0.1)


def _wait_for_exit(process: "subprocess.Popen[Any]", timeout_s: float) -> None:
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return
