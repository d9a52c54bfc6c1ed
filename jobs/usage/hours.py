"""GPU-hours per person and week: intervals clipped to weeks and summed up.

Weeks are those of ISO 8601 in UTC: Monday 00:00 to Monday 00:00. What still runs counts until now.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import FloatField, Func, Q

from jobs.usage.models import UsageInterval
from tenants.models import Team, User

WEEK = timedelta(weeks=1)
_HOUR_S = 3600


@dataclass(frozen=True)
class Week:
    """One ISO week; `begin` is its Monday, 00:00 UTC."""

    begin: datetime

    @property
    def end(self) -> datetime:
        return self.begin + WEEK

    @property
    def name(self) -> str:
        """`2026-W47`."""
        year, week, _ = self.begin.isocalendar()
        return f"{year}-W{week:02}"

    @property
    def short_name(self) -> str:
        """`W47`."""
        return self.name.partition("-")[2]

    @property
    def last_day(self) -> datetime:
        return self.begin + timedelta(days=6)


class Use(NamedTuple):
    """One interval as it is counted: UNIX times in seconds, `ended_s` None while it goes on."""

    person_id: UUID
    gpu_count: int
    cpu_millicores: int
    started_s: float
    ended_s: float | None


class UnixTime(Func):
    """A date column in seconds, by the database itself: a team may have 100,000 intervals, and
    Python takes ten times as long to read as many dates as to add the numbers up.
    """

    template = "EXTRACT(EPOCH FROM %(expressions)s)"
    output_field = FloatField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Days since 4714 BC, as SQLite counts them, to the millisecond."""
        template = "((julianday(%(expressions)s) - 2440587.5) * 86400.0)"
        return self.as_sql(compiler, connection, template=template, **context)


@dataclass
class Hours:
    """What one person used in one week."""

    gpu: float = 0.0
    cpu: float = 0.0  # core-hours


@dataclass(frozen=True)
class PersonHours:
    """One person's weeks, in the order of the table."""

    person: User
    weeks: tuple[Hours, ...]

    @property
    def gpu_total(self) -> float:
        return sum(hours.gpu for hours in self.weeks)


@dataclass(frozen=True)
class HoursTable:
    """A team's weeks, oldest first, and its people, the one with the most GPU-hours first."""

    weeks: tuple[Week, ...]
    people: tuple[PersonHours, ...] = field(default=())

    @property
    def totals(self) -> tuple[float, ...]:
        """GPU-hours of all people together, for each week."""
        return tuple(
            sum(row.weeks[index].gpu for row in self.people) for index in range(len(self.weeks))
        )

    @property
    def total(self) -> float:
        return sum(self.totals)


def week_of(at: datetime) -> Week:
    """The week in which a moment lies."""
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return Week(day - timedelta(days=day.weekday()))


def last_weeks(count: int, now: datetime) -> tuple[Week, ...]:
    """The latest weeks, oldest first; the last one is the current one."""
    this = week_of(now)
    return tuple(Week(this.begin - back * WEEK) for back in range(count - 1, -1, -1))


def sum_up(
    uses: Iterable[Use], weeks: Sequence[Week], now: datetime
) -> dict[UUID, tuple[Hours, ...]]:
    """Person -> what was used in each of the weeks (which follow each other). Pure."""
    sums: dict[UUID, tuple[Hours, ...]] = defaultdict(lambda: tuple(Hours() for _ in weeks))
    first_s, last_s = weeks[0].begin.timestamp(), min(weeks[-1].end, now).timestamp()
    week_s = WEEK.total_seconds()
    for person_id, gpu_count, cpu_millicores, started_s, ended_s in uses:
        began_s = max(started_s, first_s)
        over_s = last_s if ended_s is None else min(ended_s, last_s)
        # Only the weeks that it touches: most intervals lie in one.
        while began_s < over_s:
            index = int((began_s - first_s) // week_s)
            until_s = min(over_s, first_s + (index + 1) * week_s)
            hours = (until_s - began_s) / _HOUR_S
            theirs = sums[person_id][index]
            theirs.gpu += hours * gpu_count
            theirs.cpu += hours * cpu_millicores / 1000
            began_s = until_s
    return dict(sums)


def hours_table(team: Team, *, count: int, now: datetime) -> HoursTable:
    """What the team's people used in the last weeks. Two queries."""
    weeks = last_weeks(count, now)
    sums = sum_up(_uses(team, weeks[0].begin, now), weeks, now)
    people = User.objects.in_bulk(list(sums))
    rows = [PersonHours(people[person_id], theirs) for person_id, theirs in sums.items()]
    rows.sort(key=lambda row: (-row.gpu_total, row.person.username))
    return HoursTable(weeks, tuple(rows))


def _uses(team: Team, begin: datetime, now: datetime) -> Iterable[Use]:
    touched = UsageInterval.objects.filter(team=team, started_at__lt=now).filter(
        Q(ended_at__isnull=True) | Q(ended_at__gt=begin)
    )
    times = {"started_s": UnixTime("started_at"), "ended_s": UnixTime("ended_at")}
    fields = ("owner_id", "gpu_count", "cpu_millicores", *times)
    return itertools.starmap(Use, touched.annotate(**times).values_list(*fields).iterator())
