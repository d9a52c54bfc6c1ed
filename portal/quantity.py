"""Quantities to whole numbers and back: "1500m" is 1500 millicores, "16Gi" is bytes, "8h" seconds.

Exact (no floats) and pure. Amounts are as Kubernetes writes them; what is none is a ValueError
whose text says what was given. Grammar:
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import re
from decimal import Decimal
from fractions import Fraction

_FORM = re.compile(
    r"^([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE])?)$", re.ASCII
)
_SUFFIXES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{letter: Fraction(1000 ** (power + 1)) for power, letter in enumerate("kMGTPE")},
    **{letter + "i": Fraction(1024 ** (power + 1)) for power, letter in enumerate("KMGTPE")},
}
_DURATION = re.compile(r"(?:\d{1,9}(?:s|min|m|h|d))+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+)(s|min|m|h|d)")
_SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
_MAX_TEXT = 40  # no honest quantity is longer; keeps absurd numbers cheap


def parse(text: str | int) -> Fraction:
    """The exact value in base units (cores, bytes, pieces).

    Raises:
        ValueError: not in the grammar above.
    """
    given = str(text).strip()
    match = _FORM.match(given) if len(given) <= _MAX_TEXT else None
    if match is None:
        shown = given if len(given) <= _MAX_TEXT else given[:_MAX_TEXT] + "..."
        raise ValueError(f"{shown!r} is not a quantity; write for example 500m, 2 or 16Gi")
    sign, digits, exponent, suffix = match.groups()
    value = Fraction(Decimal(digits)) * (
        Fraction(10) ** int(exponent[1:]) if exponent else _SUFFIXES[suffix or ""]
    )
    return -value if sign == "-" else value


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def cpu_millicores(text: str | int) -> int:
    """CPU as whole millicores, rounded up as Kubernetes does."""
    return _ceil(parse(text) * 1000)


def memory_bytes(text: str | int) -> int:
    """Memory or storage as whole bytes, rounded up."""
    return _ceil(parse(text))


def count(text: str | int) -> int:
    """A number of pieces (GPUs, pods).

    Raises:
        ValueError: no number, or a fraction of a piece.
    """
    try:
        value = parse(text)
    except ValueError:
        value = None
    if value is None or value.denominator != 1:
        raise ValueError(f"{str(text)[:_MAX_TEXT]!r} is not a whole number")
    return value.numerator


def cpu_text(millicores: int) -> str:
    """Millicores as Kubernetes writes them: 2000 -> "2", 1500 -> "1500m"."""
    return str(millicores // 1000) if millicores % 1000 == 0 else f"{millicores}m"


def memory_text(size_bytes: int) -> str:
    """Bytes in the largest binary unit that divides them: 17179869184 -> "16Gi"."""
    for suffix in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        unit = int(_SUFFIXES[suffix])
        if size_bytes and size_bytes % unit == 0:
            return f"{size_bytes // unit}{suffix}"
    return str(size_bytes)


def duration_s(text: str) -> int:
    """ "1d", "2h 30min", "90s" as seconds.

    Raises:
        ValueError: a number without a unit, or anything else.
    """
    packed = re.sub(r"\s+", "", text.lower())
    if not _DURATION.fullmatch(packed):
        raise ValueError(f"{text[:40]!r} is no time; write for example 30min, 8h or 2d")
    return sum(int(n) * _SECONDS[unit] for n, unit in _DURATION_PART.findall(packed))


def duration_text(seconds: int) -> str:
    """Seconds as `duration_s` reads them: 5400 -> "1h 30min"."""
    parts = []
    rest = seconds
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, rest = divmod(rest, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return " ".join(parts) or "0s"
