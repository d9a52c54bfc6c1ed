"""Where output goes: results to standard output, everything else to standard error.

Knows whether there is a terminal, how wide it is and whether it may have colours (NO_COLOR,
TERM=dumb, --color), so that nobody else has to ask.
"""

from __future__ import annotations

import getpass
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Callable, TextIO

import click

from .exits import OUTPUT_CLOSED, ClientError, usage_error
from .sanitize import one_line, sanitize

MIN_WIDTH = 40


class Terminal:
    """Standard input, output and error of one command."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.colour = "auto"  # or always, never
        self.is_quiet = False
        for stream in (self.out, self.err):
            # A name that this terminal cannot show must not end the command.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")

    def is_live(self, stream: TextIO) -> bool:
        """Whether a person looks at this stream."""
        return bool(stream.isatty())

    @property
    def can_ask(self) -> bool:
        return sys.stdin is not None and sys.stdin.isatty()

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None where output is read by a program."""
        if not self.is_live(self.out):
            return None
        return max(MIN_WIDTH, shutil.get_terminal_size().columns)

    def has_colours(self, stream: TextIO) -> bool:
        if self.colour != "auto":
            return self.colour == "always"
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            return False
        return self.is_live(stream)

    def paint(self, text: str, colour: str, stream: TextIO | None = None) -> str:
        """The text in a colour, or as it is where there are none."""
        if not text or not colour or not self.has_colours(stream or self.out):
            return text
        shown: dict[str, Any] = {"fg": colour} if colour not in {"bold", "dim"} else {colour: True}
        return click.style(text, **shown)

    def emit(self, text: str, stream: TextIO | None = None) -> None:
        """Writes and flushes; standard output unless told otherwise.

        Raises:
            click.exceptions.Exit: nobody reads any more (`homeport logs NAME | head`).
            ClientError: it cannot be written (a full disk).
        """
        try:
            (stream or self.out).write(text)
            (stream or self.out).flush()
        except BrokenPipeError as error:
            raise click.exceptions.Exit(OUTPUT_CLOSED) from error
        except OSError as error:
            raise ClientError(f"The output cannot be written: {error.strerror}.") from error

    def write(self, text: str = "") -> None:
        """A line of a result, to standard output; the caller has sanitized it."""
        self.emit(text + "\n")

    def write_facts(
        self, facts: Mapping[str, object], title_width: int, colours: Mapping[str, str]
    ) -> None:
        """Titles and words, on as many lines as they need; nothing for an empty value."""
        for title, value in facts.items():
            text = one_line(value)
            head = f"{title}:".ljust(title_width)
            for line in wrap(text, self.width, title_width) if text else ():
                self.write(self.paint(head, "bold") + self.paint(line, colours.get(title, "")))
                head = " " * title_width

    def tell(self, text: str, colour: str = "") -> None:
        """Something about the result, to standard error; silent with --quiet."""
        if not self.is_quiet:
            self.emit(self.paint(sanitize(text), colour, self.err) + "\n", self.err)

    def warn(self, text: str) -> None:
        """Something that one should know, whatever --quiet says."""
        mark = self.paint("warning:", "yellow", self.err)
        self.emit(f"{mark} {sanitize(text)}\n", self.err)

    def fail(self, error: ClientError) -> None:
        """The error that ends the command, with what to do next."""
        mark = self.paint("error:", "red", self.err)
        step = f"{sanitize(error.next_step)}\n" if error.next_step else ""
        self.emit(f"{mark} {sanitize(error.text)}\n{step}", self.err)

    @contextmanager
    def progress(self, what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        """Gives a function that is told how many bytes are done; a terminal shows it by a bar."""
        if self.is_quiet or not self.is_live(self.err):
            yield lambda done_bytes: None
            return
        from rich import progress
        from rich.console import Console

        with progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.DownloadColumn(binary_units=True),
            progress.TransferSpeedColumn(),
            console=Console(file=self.err, no_color=not self.has_colours(self.err)),
            transient=True,
        ) as bar:
            task = bar.add_task(one_line(what), total=total_bytes)
            yield lambda done_bytes: bar.update(task, completed=done_bytes)

    # --- asking ---
    def ask(self, question: str) -> str:
        """A line that somebody types. Raises ClientError: nobody is there to ask."""
        if not self.can_ask:
            raise usage_error(
                f"{question}: there is no terminal to ask at.", "Give it as an option."
            )
        self.emit(question + ": ", self.err)
        line = sys.stdin.readline()
        if not line:
            raise usage_error("No answer was given.")
        return line.strip()

    def ask_secret(self, question: str) -> str:
        """A line that is not shown; read from standard input where that is no terminal.

        Raises ClientError: the terminal has ended.
        """
        if not self.can_ask:
            return sys.stdin.readline().rstrip("\r\n") if sys.stdin is not None else ""
        try:
            return getpass.getpass(question + ": ", stream=self.err)
        except EOFError as error:
            raise usage_error("No answer was given.") from error

    def may_delete(self, question: str, *, yes: bool) -> bool:
        """Whether somebody says yes, by `--yes` or when asked; raises where nobody can be asked."""
        if yes:
            return True
        if not self.can_ask:
            raise usage_error(
                f"{question} There is no terminal to ask at.", "Say --yes to do it without asking."
            )
        is_meant = self.ask(f"{question} [y/N]").lower() in {"y", "yes"}
        if not is_meant:
            self.tell("Not deleted.")
        return is_meant


def wrap(text: str, width: int | None, hang: int = 0) -> list[str]:
    """The text in lines of at most `width` - `hang` letters; an address is never cut in two."""
    if width is None:
        return [text]
    room = max(16, width - hang)
    return textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]
