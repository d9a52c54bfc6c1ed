"""Times as Kubernetes writes them, and the clock they come from."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Give the present moment, aware, in UTC."""
    return datetime.now(UTC)


def format_time(moment: datetime) -> str:
    """Write a metav1.Time: whole seconds in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(moment: datetime) -> str:
    """Write a metav1.MicroTime."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 time.

    Raises:
        ValueError: the text is no such time, or has no zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: write it as 2006-01-02T15:04:05Z")
    return moment
