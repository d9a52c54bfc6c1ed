"""A bar that says how far something is, on a terminal; nothing elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from .sanitize import one_line
from .terminal import Terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress:
    """`with Progress(terminal, "uploading", 12_000) as progress: progress.move(600)`."""

    def __init__(self, terminal: Terminal, what: str, total_bytes: int) -> None:
        self._bar: Bar | None = None
        if not terminal.is_live(terminal.err) or terminal.is_quiet:
            return
        from rich import progress
        from rich.console import Console

        self._bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.DownloadColumn(binary_units=True),
            progress.TransferSpeedColumn(),
            console=Console(file=terminal.err, no_color=not terminal.has_colours(terminal.err)),
            transient=True,
        )
        self._task = self._bar.add_task(one_line(what), total=total_bytes)

    def move(self, done_bytes: int) -> None:
        """Shows that so many bytes are done."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done_bytes)

    def __enter__(self) -> Progress:  # noqa: PYI034  Self is of Python 3.11
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
