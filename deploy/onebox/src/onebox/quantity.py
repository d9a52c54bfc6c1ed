"""Kubernetes quantities ("1500m", "16Gi"), exact and pure; shared by both halves of onebox.

Parsing, arithmetic and the canonical form follow
https://github.com/kubernetes/apimachinery/blob/v0.36.3/pkg/api/resource/quantity.go.
Values are whole nano-units, so sums never lose anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

NANOS = 1_000_000_000

DECIMAL_SI = "DecimalSI"
BINARY_SI = "BinarySI"
DECIMAL_EXPONENT = "DecimalExponent"

PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"

_SHAPE = re.compile(PATTERN)
_NUMBER = re.compile(r"([+-]?)(\d*)\.?(\d*)")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}
_EXPONENT = re.compile(r"[eE]([+-]?\d{1,3})$")
# Longer numbers are no amount of anything, and would make the arithmetic slow.
_MAX_LENGTH = 64
_MAX_EXPONENT = 40


class QuantityError(ValueError):
    """The text is no quantity; the message is upstream's."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount.

    Attributes:
        nanos: the value in billionths of the unit.
        style: how the user wrote it (DecimalSI, BinarySI, DecimalExponent); kept by sums.
    """

    nanos: int
    style: str = DECIMAL_SI

    def __add__(self, other: Quantity) -> Quantity:
        style = self.style if self.nanos else other.style
        return Quantity(self.nanos + other.nanos, style)

    def __sub__(self, other: Quantity) -> Quantity:
        style = self.style if self.nanos else other.style
        return Quantity(self.nanos - other.nanos, style)

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: Quantity) -> bool:
        return self.nanos <= other.nanos

    def units(self) -> int:
        """Give the value in whole units, rounded up (bytes for memory, GPUs, pods)."""
        return -(-self.nanos // NANOS)

    def millis(self) -> int:
        """Give the value in thousandths, rounded up (millicores for CPU)."""
        return -(-self.nanos // 1_000_000)

    def is_whole(self) -> bool:
        """Tell whether there is no fraction of a unit."""
        return self.nanos % NANOS == 0

    def __str__(self) -> str:
        """Give the canonical form: no fraction, the largest suffix that loses nothing."""
        if self.nanos == 0:
            return "0"
        if self.style == BINARY_SI and self.is_whole() and abs(self.nanos) >= 1024 * NANOS:
            return _format_binary(self.nanos // NANOS)
        return _format_decimal(self.nanos, exponent_style=self.style == DECIMAL_EXPONENT)


ZERO = Quantity(0)


def _format_binary(units: int) -> str:
    exponent = 0
    while exponent < 60 and units % 1024 == 0:
        units //= 1024
        exponent += 10
    return f"{units}{_BINARY_SUFFIX.get(exponent, '')}"


def _format_decimal(nanos: int, *, exponent_style: bool) -> str:
    exponent = -9
    while exponent < 18 and nanos % 1000 == 0:
        nanos //= 1000
        exponent += 3
    if exponent_style:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[exponent]}"


def parse_quantity(text: str | float) -> Quantity:
    """Read a quantity; JSON numbers are taken as upstream takes them.

    Raises:
        QuantityError: it is none.
    """
    return _parse(text if isinstance(text, str) else repr(text))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    shape = _SHAPE.match(text) if len(text) <= _MAX_LENGTH else None
    number = _NUMBER.fullmatch(shape[1]) if shape else None
    if shape is None or number is None or not (number[2] or number[3]):
        raise QuantityError(f"quantities must match the regular expression '{PATTERN}'")
    sign, whole, fraction = number.groups()
    digits = int((whole + fraction) or "0")
    style, two, ten = _scale(shape[2])
    scaled = digits * NANOS << two
    ten -= len(fraction)
    # Upstream rounds what is finer than a nano away from zero.
    nanos = scaled * 10**ten if ten >= 0 else -(-scaled // 10**-ten)
    return Quantity(-nanos if sign == "-" else nanos, style)


def _scale(suffix: str) -> tuple[str, int, int]:
    """Give style, power of two and power of ten of a suffix."""
    if suffix in _DECIMAL:
        return DECIMAL_SI, 0, _DECIMAL[suffix]
    if suffix in _BINARY:
        return BINARY_SI, _BINARY[suffix], 0
    match = _EXPONENT.match(suffix)
    if match and abs(int(match[1])) <= _MAX_EXPONENT:
        return DECIMAL_EXPONENT, 0, int(match[1])
    raise QuantityError("unable to parse quantity's suffix")


def canonical(text: str | float) -> str:
    """Give the canonical form of a quantity.

    Raises:
        QuantityError: it is none.
    """
    return str(parse_quantity(text))


def cpu_millicores(text: str | float) -> int:
    """Read a CPU quantity as millicores, rounded up.

    Raises:
        QuantityError: it is none.
    """
    return parse_quantity(text).millis()


def memory_bytes(text: str | float) -> int:
    """Read a memory or storage quantity as bytes, rounded up.

    Raises:
        QuantityError: it is none.
    """
    return parse_quantity(text).units()
