"""The start-up as a list of steps: always whole, always in order, and still when nothing changes."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from jobs.kinds.interactive.startup import KEYS, dump, line, load

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_what_is_done_what_goes_on_and_what_waits() -> None:
    steps = line([(at(-9), ""), (at(-8), "on node a")], (), NOW, detail="why it hangs")
    assert [step.state for step in steps] == ["done", "done", "now", *["wait"] * 4]
    assert (steps[1].detail, steps[2].detail) == ("on node a", "why it hangs")
    assert [step.at for step in steps][:3] == [at(-9), at(-8), None]


def test_a_failure_keeps_the_time_when_it_was_first_seen() -> None:
    first = line([(at(-9), "")], (), NOW, detail="no", failed=True)
    assert (first[1].state, first[1].at) == ("failed", NOW)
    assert line([(at(-9), "")], first, at(60), detail="no", failed=True) == first


def test_details_are_one_line() -> None:
    steps = line([(at(0), "")], (), NOW, detail="a\nb" + "x" * 5000)
    assert "\n" not in steps[1].detail
    assert len(steps[1].detail) <= 300


times = st.none() | st.integers(-1000, 1000).map(at)


@given(st.lists(times, max_size=7), st.lists(times, max_size=7), st.booleans())
def test_any_clock_gives_an_order_and_a_second_look_changes_nothing(
    first: list[datetime | None], second: list[datetime | None], failed: bool
) -> None:
    before = line([(time, "") for time in first], (), NOW)
    steps = line([(time, "") for time in second], before, at(5), failed=failed)
    assert [step.key for step in steps] == list(KEYS)
    done = [step.at for step in steps if step.state == "done" and step.at is not None]
    assert done == sorted(done)
    assert all(time <= at(5) for time in done)
    assert line([(time, "") for time in second], steps, at(9), failed=failed) == steps
    assert load(dump(steps)) == steps
