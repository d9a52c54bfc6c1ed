"""A bar that says how far something is, on a terminal; nothing elsewhere."""

from __future__ import annotations

import shutil
import time
from types import TracebackType

from .table import size_text
from .terminal import Terminal

PAUSE_S = 0.1


class Progress:
    """`with Progress(terminal, "uploading", 12_000) as progress: progress.move(600)`."""

    def __init__(self, terminal: Terminal, what: str, total_bytes: int) -> None:
        self._terminal = terminal
        self._what = what
        self._total_bytes = total_bytes
        self._shown_s = 0.0
        self._is_shown = terminal.is_live(terminal.err) and not terminal.is_quiet
        self._began_s = time.monotonic()

    def move(self, done_bytes: int) -> None:
        """Shows that so many bytes are done, at most ten times a second."""
        now_s = time.monotonic()
        if not self._is_shown or now_s - self._shown_s < PAUSE_S:
            return
        self._shown_s = now_s
        self._terminal.emit("\r\x1b[K" + self._line(done_bytes, now_s), self._terminal.err)

    def _line(self, done_bytes: int, now_s: float) -> str:
        share = min(1.0, done_bytes / self._total_bytes) if self._total_bytes else 1.0
        speed = done_bytes / max(now_s - self._began_s, 0.001)
        text = f"{share:4.0%}  {size_text(done_bytes)} of {size_text(self._total_bytes)}"
        text += f", {size_text(int(speed))}/s"
        width = shutil.get_terminal_size().columns
        room = width - len(self._what) - len(text) - 6
        if room < 8:
            return f"{self._what} {share:4.0%}"[: width - 1]
        filled = int(share * min(room, 30))
        bar = "#" * filled + "." * (min(room, 30) - filled)
        return f"{self._what} [{bar}] {text}"

    def __enter__(self) -> Progress:  # noqa: PYI034  Self is of Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_shown:
            self._terminal.emit("\r\x1b[K", self._terminal.err)
