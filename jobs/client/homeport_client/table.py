"""Tables and amounts for people: columns that fit the terminal, times as how long ago. Pure."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Callable

GAP = "  "


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        title: in capitals.
        shrinks_to: so many letters are enough where room is short; 0: never cut.
        leaves_at: below so many columns of terminal it is not shown.
        is_wide: shown by `-o wide` only.
        is_right: numbers stand at the right.
        colour: the colour of a cell by its text.
        wraps: the last column may go on below itself instead of being cut.
    """

    title: str
    shrinks_to: int = 0
    leaves_at: int = 0
    is_wide: bool = False
    is_right: bool = False
    colour: Callable[[str], str] = lambda text: ""
    wraps: bool = False


def text_width(text: str) -> int:
    """Columns that a terminal needs for it: two for Chinese letters, none for accents."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def pad(text: str, width: int, *, is_right: bool = False) -> str:
    blanks = " " * max(0, width - text_width(text))
    return blanks + text if is_right else text + blanks


def shown_columns(columns: Sequence[Column], *, width: int | None, is_wide: bool) -> list[int]:
    """The places of those that are shown on a terminal of this width; None: for a program."""
    return [
        place
        for place, column in enumerate(columns)
        if (is_wide or not column.is_wide)
        and (is_wide or width is None or width >= column.leaves_at)
    ]


def plain(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    paint: Callable[[str, str], str] = lambda text, colour: text,
) -> list[str]:
    """The lines of a table, titles first, each as long as it gets; `paint` gives a text a colour."""
    widths = [
        max([text_width(column.title), *(text_width(row[at]) for row in rows)])
        for at, column in enumerate(columns)
    ]

    def line(cells: Sequence[str], colours: Sequence[str]) -> str:
        parts = []
        for text, colour, column, width in zip(cells, colours, columns, widths):
            padded = pad(text, width, is_right=column.is_right)
            parts.append(padded.replace(text, paint(text, colour), 1) if text else padded)
        return GAP.join(parts).rstrip()

    titles = [column.title for column in columns]
    return [
        line(titles, ["bold"] * len(titles)),
        *(line(row, [c.colour(text) for c, text in zip(columns, row)]) for row in rows),
    ]


def fitted(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, *, has_colours: bool
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
    for row in rows:
        table.add_row(
            *(
                Text(
                    text,
                    c.colour(text),
                    no_wrap=not c.wraps,
                    overflow="fold" if c.wraps else "ellipsis",
                )
                for c, text in zip(columns, row)
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


def wrap(text: str, width: int | None, hang: int = 0) -> list[str]:
    """The text in lines of at most `width` - `hang` letters; an address is never cut in two."""
    if width is None:
        return [text]
    room = max(16, width - hang)
    return textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]


# --- amounts --------------------------------------------------------------------------------------


def size_text(size_bytes: object) -> str:
    """Bytes as people say them: `512 B`, `1.5 MiB`."""
    if not isinstance(size_bytes, (int, float)) or isinstance(size_bytes, bool):
        return "-"
    amount = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return (
                f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
            )
        amount /= 1024
    return f"{amount:.1f} TiB"


def parse_time(text: object) -> datetime | None:
    """A time as REST writes it; None for none or for what is no time."""
    if not isinstance(text, str):
        return None
    try:
        # Python 3.9 reads no Z.
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def span_text(seconds: float) -> str:
    """`42s`, `5m12s`, `3h20m`, `2d4h`."""
    whole = max(0, int(seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days}d{hours}h" if hours else f"{days}d"
    if hours:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    if minutes:
        return f"{minutes}m{whole % 60}s" if minutes < 10 and whole % 60 else f"{minutes}m"
    return f"{whole}s"


def age_text(since: object, now: datetime) -> str:
    """How long ago; empty when nobody knows."""
    at = parse_time(since)
    return span_text((now - at).total_seconds()) if at else ""


def lasted_text(start: object, end: object, now: datetime) -> str:
    """From start to end, or until now; empty when it has not begun."""
    began, ended = parse_time(start), parse_time(end)
    return span_text(((ended or now) - began).total_seconds()) if began else ""
