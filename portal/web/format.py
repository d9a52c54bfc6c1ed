"""Amounts and times in the words of the pages; pure.

`static/js/ages.js` says ages and durations in the same words, because the browser keeps them
current; tests hold the two together.
"""

from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache

from django.utils.timezone import now
from django.utils.translation import gettext
from markupsafe import Markup, escape

# Everybody has the same language: to ask which would be half of the cost of an age.
_ = cache(gettext)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400


def bytes_text(size_bytes: int) -> str:
    """1536 -> "1.5 KiB". One decimal at most, none where it would be zero."""
    size, unit = float(size_bytes), 0
    # 1023.95 would be shown as "1024 KiB", so the next unit takes over a little earlier.
    while size >= 1023.95 and unit < len(_BINARY_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    digits = f"{size:.1f}".removesuffix(".0") if unit else str(size_bytes)
    return f"{digits} {_BINARY_UNITS[unit]}"


def cores_text(millicores: int) -> str:
    """1500 -> "1.5". Three decimals at most."""
    return f"{millicores / 1000:.3f}".rstrip("0").rstrip(".")


def amount_text(amount: int, kind: str) -> str:
    """An amount of a quota's kind: cpu in millicores, memory and storage in bytes, else pieces."""
    if kind == "cpu":
        return cores_text(amount)
    if kind in {"memory", "storage"}:
        return bytes_text(amount) if amount else "0"
    return f"{amount:,}"


def hours_text(hours: float) -> str:
    """12.34 -> "12.3", 1234.5 -> "1,234"; a little is "< 0.1", never nothing."""
    if 0 < hours < 0.05:
        return "< 0.1"
    return f"{hours:,.0f}" if hours >= 99.95 else f"{hours:.1f}".removesuffix(".0")


def day_text(at: datetime) -> str:
    """ "20 Nov 2026", in UTC."""
    at = at.astimezone(UTC)
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year}"


def duration_text(seconds: float) -> str:
    """200 -> "3 min 20 s". Two units at most, and only those that still matter."""
    whole = max(0, int(seconds))
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < 10 * _MINUTE_S:
        return _pair(whole, _MINUTE_S, "min", 1, "s")
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min"
    if whole < _DAY_S:
        return _pair(whole, _HOUR_S, "h", _MINUTE_S, "min")
    return _pair(whole, _DAY_S, "d", _HOUR_S, "h")


def _pair(whole: int, big_s: int, big: str, small_s: int, small: str) -> str:
    rest = whole % big_s // small_s
    return f"{whole // big_s} {big} {rest} {small}" if rest else f"{whole // big_s} {big}"


def age_text(at: datetime, at_now: datetime) -> str:
    """How long ago, in one unit; a date when it is more than a week."""
    seconds = (at_now - at).total_seconds()
    if seconds < _MINUTE_S:
        return _("just now")
    if seconds < _HOUR_S:
        return _("%(count)s min ago") % {"count": int(seconds // _MINUTE_S)}
    if seconds < _DAY_S:
        return _("%(count)s h ago") % {"count": int(seconds // _HOUR_S)}
    if seconds < 7 * _DAY_S:
        return _("%(count)s d ago") % {"count": int(seconds // _DAY_S)}
    return day_text(at)


def exact_text(at: datetime) -> str:
    """ "20 Nov 2026, 10:02:03 UTC"."""
    _iso, exact = _moment(at)
    return exact


# Lists have two of these in each row: they are put together without format_html, whose arguments are
# digits but for the texts, which are escaped here. What does not depend on the time is kept.
def age(at: datetime) -> Markup:
    """`<time>` that says the age, keeps saying it (ages.js), and has the exact moment as title."""
    iso, exact = _moment(at)
    text = escape(age_text(at, now()))
    return Markup(f'<time datetime="{iso}" title="{exact}" data-age>{text}</time>')


def clock(at: datetime) -> Markup:
    """`<time>` with hours, minutes and seconds; the browser shows them in its own time zone."""
    iso, exact = _moment(at)
    return Markup(f'<time datetime="{iso}" title="{exact}" data-clock>{iso[11:19]}</time>')


def elapsed(start: datetime, end: datetime | None = None, without_s: int = 0) -> Markup:
    """`<time>` with a duration; without an end it goes on counting in the browser.

    Args:
        without_s: seconds in between that are left out.
    """
    counted = start + timedelta(seconds=without_s)
    if end is not None:
        return _took(counted, end)
    iso, _exact = _moment(counted)
    title = escape(_("since %(when)s") % {"when": exact_text(start)})
    text = duration_text((now() - counted).total_seconds())
    return Markup(f'<time datetime="{iso}" title="{title}" data-since>{text}</time>')


def until(at: datetime) -> Markup:
    """`<time>` with the duration that is left until then; it goes on counting down in the browser."""
    iso, exact = _moment(at)
    text = duration_text(max(0.0, (at - now()).total_seconds()))
    return Markup(f'<time datetime="{iso}" title="{exact}" data-until>{text}</time>')


@lru_cache(maxsize=4096)
def _took(start: datetime, end: datetime) -> Markup:
    seconds = max(0, int((end - start).total_seconds()))
    title = escape(_("until %(when)s") % {"when": exact_text(end)})
    return Markup(f'<time datetime="PT{seconds}S" title="{title}">{duration_text(seconds)}</time>')


@lru_cache(maxsize=4096)
def _moment(at: datetime) -> tuple[str, str]:
    """A moment for programs, and for people."""
    iso = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return iso, f"{day_text(at)}, {iso[11:19]} UTC"
