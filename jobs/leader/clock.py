"""A clock for timers that are stored as dates: it neither jumps with the wall clock nor stands still.

It runs with CLOCK_BOOTTIME (which counts a laptop's sleep) and follows the wall clock slowly, so
that a step of an hour neither ends a deadline nor keeps one from ending.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

_SLEW = 0.05  # seconds of correction for each second that passes


def _boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """`now()` never goes back, and runs at most 5 % faster or slower than time itself."""

    def __init__(
        self, steady_s: Callable[[], float] = _boot_s, wall_s: Callable[[], float] = time.time
    ) -> None:
        self._steady_s = steady_s
        self._wall_s = wall_s
        self._at = wall_s()
        self._read_s = steady_s()

    def now(self) -> datetime:
        """Aware UTC."""
        read_s = self._steady_s()
        passed_s = max(0.0, read_s - self._read_s)
        self._read_s = read_s
        self._at += passed_s
        limit_s = passed_s * _SLEW
        self._at += min(limit_s, max(-limit_s, self._wall_s() - self._at))
        return datetime.fromtimestamp(0, UTC) + timedelta(seconds=self._at)
