"""What `-o` chooses: a table, a wide one, names, JSON or YAML. JSON and YAML are REST's own."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Callable

from .answers import Json
from .sanitize import one_line
from .terminal import Terminal

FORMATS = ("table", "wide", "json", "yaml", "name")
GAP = "  "


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str  # in capitals
    of: Callable[[Json], object] | None = None  # its cell of a row; else the field of that name
    shrinks_to: int = 0  # so many letters are enough where room is short; 0: never cut
    leaves_at: int = 0  # below so many columns of terminal it is not shown
    is_wide: bool = False  # shown by `-o wide` only
    is_right: bool = False  # numbers stand at the right
    colour: Callable[[str], str] = lambda text: ""  # of a cell by its text
    wraps: bool = False  # the last column may go on below itself instead of being cut

    def text(self, row: Json) -> str:
        """The cell of a row."""
        value = self.of(row) if self.of else row.get(self.title.lower())
        return one_line("" if value is None else value) or ("-" if self.title else "")


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

    def row(self, row: Json, key: str = "id") -> bool:
        """Writes one row if a program reads it, as data or by name; False: it is for people."""
        if self.is_data:
            self.data(row)
        elif self.form == "name":
            self.terminal.write(one_line(row.get(key, "")))
        return self.is_data or self.form == "name"

    def rows(
        self,
        rows: Sequence[Json],
        columns: Sequence[Column],
        empty: str,
        name: Callable[[Json], str] = lambda row: one_line(row.get("id", "")),
    ) -> None:
        """A list: `name` is for `-o name`; `empty` is told instead of a table without rows."""
        if self.is_data:
            self.data(list(rows))
        elif self.form == "name":
            for row in rows:
                self.terminal.write(name(row))
        elif not rows:
            self.terminal.tell(empty)
        else:
            self.table(rows, columns)

    def section(self, rows: Sequence[Json], columns: Sequence[Column]) -> None:
        """A table below something else; nothing where it would have no rows."""
        if rows:
            self.terminal.write()
            self.table(rows, columns)

    def table(self, rows: Sequence[Json], columns: Sequence[Column]) -> None:
        """A table, which fits the terminal unless all columns were asked for."""
        is_wide, width = self.form == "wide", self.terminal.width
        shown = [
            column
            for column in columns
            if is_wide or (not column.is_wide and (width is None or width >= column.leaves_at))
        ]
        cells = [[column.text(row) for column in shown] for row in rows]
        if width is None or is_wide:
            for line in plain(shown, cells, self.terminal.paint):
                self.terminal.write(line)
        else:
            has_colours = self.terminal.has_colours(self.terminal.out)
            self.terminal.emit(fitted(shown, cells, width, has_colours=has_colours))


def text_width(text: str) -> int:
    """Columns that a terminal needs for it: two for Chinese letters, none for accents."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def plain(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], paint: Callable[[str, str], str]
) -> list[str]:
    """The lines of a table, titles first, each as long as it gets; `paint` gives a text a colour."""
    titles = [column.title for column in columns]
    widths = [max(map(text_width, texts)) for texts in zip(titles, *cells)]

    def line(texts: Sequence[str], colours: Sequence[str]) -> str:
        shown = []
        for text, colour, column, width in zip(texts, colours, columns, widths):
            blanks, painted = " " * (width - text_width(text)), paint(text, colour)
            shown.append(blanks + painted if column.is_right else painted + blanks)
        return GAP.join(shown).rstrip()

    return [
        line(titles, ["bold"] * len(titles)),
        *(line(row, [c.colour(text) for c, text in zip(columns, row)]) for row in cells),
    ]


def fitted(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int, *, has_colours: bool
) -> str:
    """The table within so many columns of a terminal: cells are cut, the last one may wrap."""
    # Loaded only where something is drawn: it takes as long as all else of a command.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0))
    for column in columns:
        table.add_column(
            Text(column.title, "bold"),
            justify="right" if column.is_right else "left",
            no_wrap=not column.shrinks_to,
            min_width=column.shrinks_to or None,
        )
    for row in cells:
        table.add_row(
            *(
                Text(
                    text,
                    column.colour(text),
                    no_wrap=not column.wraps,
                    overflow="fold" if column.wraps else "ellipsis",
                )
                for column, text in zip(columns, row)
            )
        )
    console = Console(
        width=width,
        color_system="standard" if has_colours else None,
        force_terminal=has_colours,
        legacy_windows=False,
    )
    with console.capture() as drawn:
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in drawn.get().splitlines())
