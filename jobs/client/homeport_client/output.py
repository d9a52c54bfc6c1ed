"""What `-o` chooses: a table, a wide one, names, JSON or YAML. JSON and YAML are REST's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Callable

from .table import Column, render
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
        """A table that fits the terminal."""
        lines = render(
            columns,
            cells,
            width=self.terminal.width,
            is_wide=self.form == "wide",
            paint=self.terminal.paint,
        )
        for line in lines:
            self.terminal.write(line)


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
