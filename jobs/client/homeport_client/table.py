"""Tables and amounts for people: columns that fit the terminal, times as how long ago. Pure."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Callable

from .sanitize import one_line

GAP = "  "
ELLIPSIS = "…"


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


def cut(text: str, width: int) -> str:
    """The text in at most so many columns."""
    if text_width(text) <= width:
        return text
    kept = ""
    for letter in text:
        if text_width(kept + letter) > width - 1:
            break
        kept += letter
    return kept + ELLIPSIS


def pad(text: str, width: int, *, is_right: bool = False) -> str:
    blanks = " " * max(0, width - text_width(text))
    return blanks + text if is_right else text + blanks


def render(
    columns: Sequence[Column],
    rows: Sequence[Sequence[object]],
    *,
    width: int | None,
    is_wide: bool = False,
    paint: Callable[[str, str], str] = lambda text, colour: text,
) -> list[str]:
    """The lines of a table, titles first.

    Args:
        columns: what to show.
        rows: a cell for each column; sanitized here.
        width: of the terminal; None: as wide as it gets.
        is_wide: with the columns for `-o wide`, and nothing cut.
        paint: gives a text a colour.
    """
    limit = None if is_wide else width
    shown = [
        number
        for number, column in enumerate(columns)
        if (is_wide or not column.is_wide) and not (limit and limit < column.leaves_at)
    ]
    cells = [
        [one_line(row[number]) or ("-" if columns[number].title else "") for number in shown]
        for row in rows
    ]
    chosen = [columns[number] for number in shown]
    widths = [
        max([text_width(column.title), *(text_width(row[at]) for row in cells)])
        for at, column in enumerate(chosen)
    ]
    if limit is not None:
        widths = _shrink(chosen, widths, limit)
    lines = [
        _line([column.title for column in chosen], chosen, widths, lambda t, c: paint(t, "bold"))
    ]
    for row in cells:
        rest: list[str] = []
        if limit is not None and chosen[-1].wraps:
            at = sum(widths[:-1]) + len(GAP) * (len(widths) - 1)
            head, *more = wrap(row[-1], limit, at)
            row = [*row[:-1], head]
            rest = [" " * at + text for text in more]
        lines += [_line(row, chosen, widths, paint), *rest]
    return lines


def wrap(text: str, width: int | None, hang: int = 0) -> list[str]:
    """The text in lines of at most `width` - `hang` letters; an address is never cut in two."""
    if width is None:
        return [text]
    room = max(16, width - hang)
    return textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]


def _shrink(columns: Sequence[Column], widths: list[int], limit: int) -> list[int]:
    """Widths that fit: the widest that may shrink does, letter by letter."""
    widths = list(widths)
    while sum(widths) + len(GAP) * (len(widths) - 1) > limit:
        able = [at for at, c in enumerate(columns) if c.shrinks_to and widths[at] > c.shrinks_to]
        if not able:
            break
        widths[max(able, key=lambda at: widths[at])] -= 1
    return widths


def _line(
    cells: Sequence[str],
    columns: Sequence[Column],
    widths: Sequence[int],
    paint: Callable[[str, str], str],
) -> str:
    parts = []
    for at, (text, column) in enumerate(zip(cells, columns)):
        shown = cut(text, widths[at])
        is_last = at == len(cells) - 1 and not column.is_right
        padded = shown if is_last else pad(shown, widths[at], is_right=column.is_right)
        parts.append(
            padded.replace(shown, paint(shown, column.colour(text)), 1) if shown else padded
        )
    return GAP.join(parts).rstrip()


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
