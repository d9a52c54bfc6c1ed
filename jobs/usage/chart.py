"""The columns of the chart of GPU-hours: one for each week, stacked by person. Pure.

All lengths are percents of the chart's height, because pages carry no styles of their own.
"""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from jobs.usage.hours import HoursTable, Week

SERIES = 6  # colours that can be told apart; the last one is everybody else


@dataclass(frozen=True)
class Block:
    """One person's part of a column, `y_percent` from the top; `series` counts from 1."""

    series: int
    name: str
    hours: float
    y_percent: float
    height_percent: float


@dataclass(frozen=True)
class WeekColumn:
    week: Week
    hours: float
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Chart:
    """Columns from the oldest week to this one; `names` are those of the series, in order."""

    names: tuple[str, ...]
    columns: tuple[WeekColumn, ...]


def chart_of(table: HoursTable) -> Chart:
    """The people with the most hours have a colour each, all others share the last one."""
    alone = table.people if len(table.people) <= SERIES else table.people[: SERIES - 1]
    named = [(row.person.shown_name, [hours.gpu for hours in row.weeks]) for row in alone]
    others = table.people[len(alone) :]
    if others:
        sums = [sum(row.weeks[i].gpu for row in others) for i in range(len(table.weeks))]
        named.append((_("Others"), sums))
    # People without a GPU-hour are in the table, which counts CPU as well, but not in the chart.
    named = [(name, hours) for name, hours in named if any(hours)]
    most = max(table.totals, default=0.0)
    columns = tuple(
        WeekColumn(week, total, _blocks([(name, hours[i]) for name, hours in named], most))
        for i, (week, total) in enumerate(zip(table.weeks, table.totals, strict=True))
    )
    return Chart(tuple(name for name, _hours in named), columns)


def _blocks(parts: list[tuple[str, float]], most: float) -> tuple[Block, ...]:
    blocks = []
    below = 0.0
    for number, (name, hours) in enumerate(parts, start=1):
        if hours <= 0:
            continue
        height = hours * 100 / most
        below += height
        blocks.append(Block(number, name, hours, round(100 - below, 2), round(height, 2)))
    return tuple(blocks)
