"""What `-o` chooses: a table, a wide one, names, JSON or YAML. JSON and YAML are REST's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Callable

from .sanitize import one_line
from .table import Column, fitted, plain, shown_columns
from .terminal import Terminal

FORMATS = ("table", "wide", "json", "yaml", "name")


class Output:
    """Writes results in one format."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.form = "table"

    @property
    def is_data(self) -> bool:
        """Whether a program reads it."""
        return self.form in {"json", "yaml"}

    def data(self, value: Any) -> None:
        """JSON or YAML. Neither form lets a control character through as it is."""
        if self.form == "yaml":
            import yaml

            text = yaml.safe_dump(value, sort_keys=False, allow_unicode=False, width=100)
            self.terminal.write(text.rstrip("\n"))
        else:
            self.terminal.write(json.dumps(value, indent=2))

    def rows(
        self,
        rows: Sequence[Any],
        columns: Sequence[Column],
        cells: Callable[[Any], Sequence[object]],
        *,
        name: Callable[[Any], str],
        empty: str,
    ) -> None:
        """A list: `cells` of a row for tables, `name` for `-o name`; `empty` is told instead."""
        if self.is_data:
            self.data(list(rows))
        elif self.form == "name":
            for row in rows:
                self.terminal.write(name(row))
        elif not rows:
            self.terminal.tell(empty)
        else:
            self.table(columns, [cells(row) for row in rows])

    def table(self, columns: Sequence[Column], cells: Sequence[Sequence[object]]) -> None:
        """A table, which fits the terminal unless all columns were asked for."""
        is_wide, width = self.form == "wide", self.terminal.width
        places = shown_columns(columns, width=width, is_wide=is_wide)
        shown = [columns[place] for place in places]
        rows = [
            [one_line(row[place]) or ("-" if columns[place].title else "") for place in places]
            for row in cells
        ]
        if width is None or is_wide:
            for line in plain(shown, rows, self.terminal.paint):
                self.terminal.write(line)
            return
        has_colours = self.terminal.has_colours(self.terminal.out)
        self.terminal.emit(fitted(shown, rows, width, has_colours=has_colours))


def state_colour(state: str) -> str:
    """The colour of a state."""
    return _STATES.get(state, "")


_STATES = {
    "queued": "yellow",
    "starting": "cyan",
    "running": "cyan",
    "stopping": "yellow",
    "succeeded": "green",
    "failed": "red",
    "stopped": "dim",
}
