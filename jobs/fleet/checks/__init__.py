"""The lines of the health page: each a check, its outcome in words, and what to do. Pure: they read one report.

A missing part of the report is "not known yet", never an error: another version may have written it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

Report = dict[str, Any]  # `ReconcilerLease.health`; jobs/engine/health.py has its shape


@dataclass(frozen=True)
class Check:
    """One line: what is looked at, how it is, and what to do about it.

    Attributes:
        tone: `good`, `warn`, `bad`, or `rest` (not known, or nothing to judge).
        at: when it was found so; None when that does not matter.
        detail: names and places, for whoever looks closer.
        route: name of the page that the next step leads to.
    """

    tone: str
    title: str
    text: str
    next_step: str = ""
    at: datetime | None = None
    detail: str = ""
    route: str = ""


def moment(text: Any) -> datetime | None:
    """An ISO time of the report; None when there is none."""
    return datetime.fromisoformat(text) if isinstance(text, str) and text else None


def milliseconds(seconds: Any) -> str:
    """0.0834 -> "83 ms"."""
    return f"{float(seconds or 0) * 1000:,.0f} ms"
