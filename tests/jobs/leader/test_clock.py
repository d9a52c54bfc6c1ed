"""The clock of timers: jumps of the wall clock neither end a deadline nor hold one up."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.leader.clock import SteadyClock


class Times:
    """Boot time and wall time, moved by hand."""

    def __init__(self) -> None:
        self.boot = 500.0
        self.wall = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()

    def pass_(self, seconds: float) -> None:
        self.boot += seconds
        self.wall += seconds

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.boot, lambda: self.wall)


@pytest.mark.parametrize("jump_s", [3600, -3600, 86400, -86400])
def test_a_jump_moves_it_by_at_most_a_twentieth_of_the_time_that_passes(jump_s: int) -> None:
    times = Times()
    clock = times.clock()
    before = clock.now()
    times.wall += jump_s
    assert clock.now() == before
    times.pass_(100)
    passed = clock.now() - before
    assert timedelta(seconds=95) <= passed <= timedelta(seconds=105)


def test_it_catches_up_with_the_wall_in_the_end() -> None:
    times = Times()
    clock = times.clock()
    clock.now()
    times.wall += 3600
    for _ in range(30):
        times.pass_(3600)
        clock.now()
    assert abs(clock.now().timestamp() - times.wall) < 0.001


def test_it_never_goes_back() -> None:
    times = Times()
    clock = times.clock()
    last = clock.now()
    for jump in (-10, 5, -100000, 3, 0):
        times.wall += jump
        times.pass_(1)
        assert clock.now() > last
        last = clock.now()


def test_real_time_passes() -> None:
    clock = SteadyClock()
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=1)
