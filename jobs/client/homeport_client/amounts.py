"""Sizes and times as people say them. Pure."""

from __future__ import annotations

from datetime import datetime, timezone


def size_text(size_bytes: object) -> str:
    """Bytes as people say them: `512 B`, `1.5 MiB`."""
    if not isinstance(size_bytes, (int, float)) or isinstance(size_bytes, bool):
        return "-"
    amount = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            digits = 0 if unit == "B" or amount >= 100 else 1
            return f"{amount:.{digits}f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def parse_time(text: object) -> datetime | None:
    """A time as REST writes it; None for none or for what is no time."""
    if not isinstance(text, str):
        return None
    try:
        # Python 3.9 reads no Z.
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def span_text(seconds: float) -> str:
    """`42s`, `5m12s`, `3h20m`, `2d4h`."""
    whole = max(0, int(seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days}d{hours}h" if hours else f"{days}d"
    if hours:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    if minutes:
        return f"{minutes}m{whole % 60}s" if minutes < 10 and whole % 60 else f"{minutes}m"
    return f"{whole}s"


def left_s(until: object, now: datetime | None = None) -> float | None:
    """Seconds until a time as REST writes it, negative when it is over; None when it is none."""
    at = parse_time(until)
    return (at - (now or datetime.now(timezone.utc))).total_seconds() if at else None


def age_text(since: object, now: datetime | None = None) -> str:
    """How long ago; empty when nobody knows."""
    passed_s = left_s(since, now)
    return "" if passed_s is None else span_text(-passed_s)


def lasted_text(
    start: object, end: object, now: datetime | None = None, *, without_s: object = 0
) -> str:
    """From start to end, or until now, without so many seconds; empty when it has not begun."""
    passed_s = left_s(start, parse_time(end) or now)
    left_out_s = without_s if isinstance(without_s, int) else 0
    return "" if passed_s is None else span_text(-passed_s - left_out_s)
