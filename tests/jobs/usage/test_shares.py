"""What was held of late: a day is half, what is low or long ago does not count, teams sum up."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from jobs.rules.queue.order import WHOLE
from jobs.usage.shares import shares_at
from tenants.models import Team
from tests.factories import make_tenant
from tests.jobs.usage.rows import make_interval

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)
CAPACITY = (8, 80_000, 2**40, 100, 100)
LOW = uuid4()
# Begin and end in days before now, GPUs, which is how much of the eight GPUs.
CASES = [
    ([(1, None, 8)], 1 / 2),
    ([(1, 0, 8)], 1 / 2),
    ([(2, 1, 8)], 1 / 4),
    ([(2, None, 4)], 3 / 8),
    ([(2, 1, 2), (1, None, 2)], 3 / 16),
    ([(1, -1, 8)], 1 / 2),  # a clock that ran ahead
    ([(99, 20, 8)], 0),
    ([(1, None, 0)], 1 / 16),  # ten cores are an eighth
]


@pytest.mark.parametrize(("held", "part"), CASES)
def test_a_day_is_half(held: list[tuple[float, float | None, int]], part: float) -> None:
    alice = make_tenant("alice")
    for began, ended, gpus in held:
        at = NOW - began * DAY, None if ended is None else NOW - ended * DAY
        make_interval(alice, *at, gpu_count=gpus, cpu_millicores=10_000)
    make_interval(alice, NOW - DAY, object_id=LOW, gpu_count=8)
    found = shares_at(NOW, CAPACITY, {LOW})
    assert found.namespaces.get(alice.pk, 0) == pytest.approx(part * WHOLE, rel=1e-6)


def test_a_team_holds_what_its_members_hold() -> None:
    team = Team.objects.create(name="vision")
    for name in ("alice", "bob"):
        make_interval(make_tenant(name, team=team), NOW - DAY, gpu_count=4)
    found = shares_at(NOW, CAPACITY, set())
    assert set(found.namespaces.values()) == {WHOLE // 4}
    assert list(found.teams.values()) == [WHOLE // 2]
