"""Writes lines of logs: behind their replica's name, in colours where there are any."""

from __future__ import annotations

import re

from .sanitize import sanitize
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
            shown = sanitize(replica)[:40].ljust(self._width) + " |"
            found = self._prefixes[replica] = self._terminal.paint(shown, colour) + " "
        return found

    def write(self, replica: str, lines: list[tuple[str, str]]) -> None:
        """Lines of a replica as (time, text), in one piece."""
        prefix = self._prefix(replica)
        out = []
        for time, text in lines:
            shown = text if self._is_raw else sanitize(text)
            stamp = f"{sanitize(time)} " if self._has_times and time else ""
            out.append(f"{prefix}{stamp}{shown}\n")
        self._terminal.emit("".join(out))

    def write_text(self, lines: list[str]) -> None:
        """Lines of the log as text, in which they have their prefixes already."""
        out: list[str] = []
        for line in lines:
            match = _PREFIX.match(line) if self._has_prefixes else None
            text = line[match.end() :] if match else line
            prefix = self._prefix(match[1]) if match else ""
            out.append(f"{prefix}{text if self._is_raw else sanitize(text)}\n")
        self._terminal.emit("".join(out))
