"""Times between rows and the decision, which counts in whole seconds, and how sentences tell them."""

from datetime import UTC, datetime
from math import ceil

from jobs.rules.queue.state import UNKNOWN


def time_of(at_s: int) -> datetime | None:
    """Aware UTC; None for what nobody knows."""
    return None if at_s == UNKNOWN else datetime.fromtimestamp(at_s, UTC)


def moment_text(at_s: int) -> str:
    """`14:05 UTC on 26 November`, of a known time."""
    return f"{datetime.fromtimestamp(at_s, UTC):%H:%M UTC on %d %B}"


def seconds_of(at: datetime | None) -> int:
    """Whole seconds, rounded up; `UNKNOWN` for None."""
    return UNKNOWN if at is None else ceil(at.timestamp())
