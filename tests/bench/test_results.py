"""What a measurement comes to: goals, gates, runs that say nothing."""

import pytest

from tests.bench.results import (
    Result,
    Sides,
    at_least,
    at_most,
    exactly_none,
    figure,
    line_of,
    summary,
)


def test_a_goal_counts_in_its_own_direction() -> None:
    assert Result("M1", "speed", 0.8, at_least(0.7)).verdict == "met"
    assert Result("M1", "speed", 0.6, at_least(0.7)).verdict == "missed"
    assert Result("M2", "cost", 1.4, at_most(1.5)).verdict == "met"
    assert Result("M2", "cost", 1.6, at_most(1.5)).verdict == "missed"


def test_a_missed_goal_is_printed_and_a_broken_gate_fails_the_run() -> None:
    missed = Result("M2", "cost", 1.6, at_most(1.5))
    broken = Result("M5", "lost", 1, exactly_none(), "lines")
    assert not missed.fails_the_run
    assert broken.fails_the_run
    assert "| missed |" in line_of(missed)
    assert "Missed: M2." in summary([missed, broken])
    assert "A hard gate FAILED: M5." in summary([missed, broken])


def test_a_ratio_is_the_middle_of_the_repeats_ratios() -> None:
    sides = Sides()
    # The second repeat met a busy machine, which slowed both.
    for ours, theirs in ((2.0, 1.0), (8.0, 1.9), (2.2, 1.0)):
        sides.add(ours, theirs)
    assert sides.ratio == 2.2
    assert not sides.void


def test_a_run_is_void_when_the_other_side_did_not_hold_still() -> None:
    sides = Sides()
    for theirs in (1.0, 1.0, 2.1):
        sides.add(1.0, theirs)
    result = Result("M1", "speed", sides.ratio, at_least(0.7), void=sides.void)
    assert result.verdict == "void"
    assert "too restless" in summary([result])


def test_a_gate_is_not_excused_by_a_restless_machine() -> None:
    broken = Result("M5", "lost", 1, exactly_none(), "lines", void="a restless machine")
    assert broken.verdict == "FAILED"
    assert broken.fails_the_run


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.0054, "0.0054"), (1.5, "1.50"), (250, "250"), (1234.4, "1,234")],
)
def test_figures_are_short(value: float, text: str) -> None:
    assert figure(value) == text
