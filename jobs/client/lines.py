"""Writes lines of logs: behind their replica's name, in colours where there are any."""

from __future__ import annotations

import re

from .harmless import harmless
from .terminal import Terminal

_PALETTE = ("cyan", "yellow", "green", "magenta", "blue", "red")
_PREFIX = re.compile(r"([a-z]{1,12}-\d{1,5}) \| ")


class LineWriter:
    """The lines of one training on standard output."""

    def __init__(
        self,
        terminal: Terminal,
        replicas: list[str],
        *,
        has_prefixes: bool,
        is_raw: bool = False,
        has_times: bool = False,
    ) -> None:
        """`is_raw`: colours of the program are passed on. `has_times`: with the cluster's times."""
        self._terminal = terminal
        self._has_prefixes = has_prefixes
        self._is_raw = is_raw
        self._has_times = has_times
        self._prefixes: dict[str, str] = {}
        self._width = max((len(name) for name in replicas), default=0)
        for name in replicas:
            self._prefix(name)

    def _prefix(self, replica: str) -> str:
        if not self._has_prefixes:
            return ""
        found = self._prefixes.get(replica)
        if found is None:
            colour = _PALETTE[len(self._prefixes) % len(_PALETTE)]
            shown = harmless(replica)[:40].ljust(self._width) + " |"
            found = self._prefixes[replica] = self._terminal.paint(shown, colour) + " "
        return found

    def write(self, replica: str, lines: list[tuple[str, str]]) -> None:
        """Lines of a replica as (time, text), in one piece."""
        prefix = self._prefix(replica)
        out = []
        for time, text in lines:
            shown = text if self._is_raw else harmless(text)
            stamp = f"{harmless(time)} " if self._has_times and time else ""
            out.append(f"{prefix}{stamp}{shown}\n")
        self._terminal.out.write("".join(out))
        self._terminal.out.flush()

    def write_text(self, line: str) -> None:
        """A line of the log as text, which has its prefix already."""
        match = _PREFIX.match(line) if self._has_prefixes else None
        if match is None:
            self.write("", [("", line)]) if not self._has_prefixes else self._plain(line)
        else:
            self.write(match[1], [("", line[match.end() :])])

    def _plain(self, line: str) -> None:
        self._terminal.out.write((line if self._is_raw else harmless(line)) + "\n")
