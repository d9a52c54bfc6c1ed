"""Amounts and times in words."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils.timezone import now

from portal.web.format import (
    age,
    age_text,
    amount_text,
    bytes_text,
    cores_text,
    duration_text,
    elapsed,
    hours_text,
)

MOMENT = datetime(2026, 11, 20, 10, 2, 3, tzinfo=UTC)


# What says it -> amount -> text.
AMOUNTS: dict[Callable[[Any], str], dict[float, str]] = {
    # In the largest unit that keeps them readable.
    bytes_text: {
        0: "0 B",
        1023: "1023 B",
        1024: "1 KiB",
        1536: "1.5 KiB",
        1024**2 - 1: "1 MiB",
        16 * 1024**3: "16 GiB",
        5 * 1024**6: "5120 PiB",
    },
    # Without needless zeros.
    cores_text: {0: "0", 500: "0.5", 2000: "2", 1250: "1.25", 10: "0.01"},
    # Two units at most.
    duration_text: {
        -5: "0 s",
        0.9: "0 s",
        59: "59 s",
        60: "1 min",
        200: "3 min 20 s",
        600: "10 min",
        3599: "59 min",
        3600: "1 h",
        7500: "2 h 5 min",
        86400: "1 d",
        3 * 86400 + 4 * 3600 + 59: "3 d 4 h",
    },
    # With one decimal while it matters.
    hours_text: {0: "0", 0.01: "< 0.1", 0.05: "0.1", 2: "2", 12.34: "12.3", 1234.6: "1,235"},
}


@pytest.mark.parametrize("say", AMOUNTS)
def test_amounts_are_short_and_readable(say: Callable[[Any], str]) -> None:
    assert {amount: say(amount) for amount in AMOUNTS[say]} == AMOUNTS[say]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-10, "just now"),
        (59, "just now"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (7200, "2 h ago"),
        (6 * 86400, "6 d ago"),
        (8 * 86400, "20 Nov 2026"),
    ],
)
def test_ages_have_one_unit(seconds: int, text: str) -> None:
    assert age_text(MOMENT, MOMENT + timedelta(seconds=seconds)) == text


def test_an_age_carries_the_exact_moment() -> None:
    shown = age(MOMENT)
    assert 'datetime="2026-11-20T10:02:03Z"' in shown
    assert 'title="20 Nov 2026, 10:02:03 UTC"' in shown
    assert "data-age" in shown


def test_a_running_duration_counts_on_and_a_finished_one_does_not() -> None:
    running = elapsed(now() - timedelta(minutes=2))
    assert "data-since" in running
    assert ">2 min<" in running
    done = elapsed(MOMENT, MOMENT + timedelta(seconds=200))
    assert "data-since" not in done
    assert 'datetime="PT200S"' in done
    assert ">3 min 20 s<" in done


def test_nothing_of_a_quota_is_just_zero() -> None:
    assert amount_text(0, "memory") == "0"
    assert amount_text(1500, "cpu") == "1.5"
    assert amount_text(12000, "pods") == "12,000"
