"""GPU-hours: intervals clipped to ISO weeks in UTC, per person, and the chart's columns."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from jobs.usage.chart import SERIES, chart_of
from jobs.usage.hours import HoursTable, Use, hours_table, last_weeks, sum_up, week_of
from tenants.models import Team
from tests.factories import make_tenant
from tests.jobs.usage.rows import make_interval

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)  # a Friday, in week 47
MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
ADA = uuid4()


def use(begin: datetime, hours: float | None, *, gpus: int = 1, who: Any = ADA) -> Use:
    began_s = begin.timestamp()
    return Use(who, gpus, 2000, began_s, None if hours is None else began_s + hours * 3600)


def test_weeks_are_those_of_the_calendar():
    assert [week.name for week in last_weeks(3, NOW)] == ["2026-W45", "2026-W46", "2026-W47"]
    # The first days of a year may belong to the last week of the year before.
    assert week_of(datetime(2027, 1, 3, 23, 59, tzinfo=UTC)).name == "2026-W53"
    assert week_of(datetime(2027, 1, 4, tzinfo=UTC)).name == "2027-W01"


def test_a_week_begins_on_monday_in_utc_wherever_the_time_was_noted():
    east = datetime(2026, 11, 16, 5, tzinfo=UTC) - timedelta(hours=6)
    assert week_of(east).begin == MONDAY - timedelta(weeks=1)


FIRST_WEEK = MONDAY - timedelta(weeks=2)


@pytest.mark.parametrize(
    ("uses", "gpu_hours"),
    [
        ([use(MONDAY, 2, gpus=3), use(MONDAY, 1.5)], [0, 0, 7.5]),
        # Over midnight on Sunday: shared between the weeks; for weeks: fills those in between.
        ([use(MONDAY - timedelta(hours=5), 8, gpus=2)], [0, 10, 6]),
        ([use(MONDAY - timedelta(weeks=4), 24 * 7 * 4 + 3)], [168, 168, 3]),
        # What runs counts until now, as does what a clock that ran ahead ended in the future.
        ([use(NOW - timedelta(hours=4), None)], [0, 0, 4]),
        ([use(NOW - timedelta(hours=4), 50)], [0, 0, 4]),
        # The future, what ended before the first week, and what ended at once.
        ([use(NOW + timedelta(hours=1), None)], None),
        ([use(FIRST_WEEK - timedelta(hours=2), 2)], None),
        ([use(MONDAY, 0)], None),
    ],
)
def test_hours_are_hours_times_gpus(uses: list[Use], gpu_hours: list[float] | None):
    found = sum_up(uses, last_weeks(3, NOW), NOW)
    assert {who: [hours.gpu for hours in each] for who, each in found.items()} == (
        {ADA: gpu_hours} if gpu_hours else {}
    )


def test_people_are_kept_apart_and_cores_are_counted_as_well():
    lin = uuid4()
    sums = sum_up([use(MONDAY, 2, gpus=0), use(MONDAY, 3, who=lin)], last_weeks(1, NOW), NOW)
    assert (sums[ADA][0].gpu, sums[ADA][0].cpu) == (0, 4)
    assert (sums[lin][0].gpu, sums[lin][0].cpu) == (3, 6)


# --- from the rows ---
def interval(tenant: Any, begin: datetime, hours: float | None, **changes: Any) -> None:
    end = None if hours is None else begin + timedelta(hours=hours)
    make_interval(tenant, begin, end, **changes)


@pytest.fixture
def team(db: None) -> Team:
    return Team.objects.create(name="vision")


def test_a_team_counts_what_ran_in_it_by_the_person_with_the_most(
    team: Team, django_assert_num_queries: Any
):
    ada, lin = make_tenant("ada", team=team), make_tenant("lin", team=team)
    other = make_tenant("eve", team=Team.objects.create(name="nlp"))
    interval(ada, MONDAY, 2)
    interval(lin, MONDAY - timedelta(weeks=1), 3)
    interval(lin, NOW - timedelta(hours=1), None)
    interval(other, MONDAY, 100)
    # Lin was in the other team when this ran.
    interval(lin, MONDAY, 50, team=other.team)
    with django_assert_num_queries(2):
        table = hours_table(team, count=2, now=NOW)
    assert [row.person.username for row in table.people] == ["lin", "ada"]
    found = [hours.gpu for row in table.people for hours in row.weeks]
    assert found == pytest.approx([3, 1, 0, 2], abs=1e-5)
    assert table.totals == pytest.approx((3, 3), abs=1e-5)
    assert table.total == pytest.approx(6, abs=1e-5)


def test_a_team_that_ran_nothing_has_an_empty_table(team: Team):
    table = hours_table(team, count=2, now=NOW)
    assert (table.people, table.totals) == ((), (0, 0))
    assert chart_of(table).names == ()


# --- the chart ---
def table_of(*people: tuple[str, list[float]]) -> HoursTable:
    from jobs.usage.hours import Hours, PersonHours
    from tenants.models import User

    weeks = last_weeks(len(people[0][1]), NOW)
    rows = [
        PersonHours(User(username=name), tuple(Hours(gpu=hours) for hours in given))
        for name, given in people
    ]
    return HoursTable(weeks, tuple(rows))


def test_columns_are_stacked_up_to_the_fullest_week():
    chart = chart_of(table_of(("ada", [6, 3]), ("lin", [2, 0])))
    assert chart.names == ("ada", "lin")
    full, half = chart.columns
    assert [(b.name, b.y_percent, b.height_percent) for b in full.blocks] == [
        ("ada", 25, 75),
        ("lin", 0, 25),
    ]
    assert [(b.series, b.y_percent, b.height_percent) for b in half.blocks] == [(1, 62.5, 37.5)]
    assert (full.hours, half.hours) == (8, 3)


def test_many_people_share_the_last_colour():
    people = [(f"p{i}", [10.0 - i]) for i in range(SERIES + 3)]
    chart = chart_of(table_of(*people))
    assert len(chart.names) == SERIES
    assert chart.names[-1] == "Others"
    assert chart.columns[0].blocks[-1].hours == sum(hours[0] for _, hours in people[SERIES - 1 :])


def test_people_without_gpus_have_no_colour():
    assert chart_of(table_of(("ada", [1]), ("lin", [0]))).names == ("ada",)
