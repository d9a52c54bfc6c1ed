"""When a program that is started again in its place has crashed too often: three ends in ten minutes."""

from collections.abc import Sequence
from datetime import datetime, timedelta

CRASHES_MAX = 3
CRASH_WINDOW = timedelta(minutes=10)


def recent(times: Sequence[str], now: datetime) -> tuple[str, ...]:
    """Those of the noted times (ISO) that still count."""
    return tuple(at for at in times if now - datetime.fromisoformat(at) <= CRASH_WINDOW)


def counted(times: Sequence[str], count: int, now: datetime) -> tuple[str, ...]:
    """The noted times with so many ends of now, as many as decide."""
    fresh = [now.isoformat()] * min(count, CRASHES_MAX)
    return (*recent(times, now), *fresh)[-CRASHES_MAX:]


def is_loop(times: Sequence[str], now: datetime) -> bool:
    """Whether it will not get better by itself."""
    return len(recent(times, now)) >= CRASHES_MAX
