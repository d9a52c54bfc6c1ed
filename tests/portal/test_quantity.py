"""Quantities: exact in both directions, and clear about what is none."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal import quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        ("1500m", Fraction(3, 2)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("12E", Fraction(12 * 10**18)),
        ("16Gi", Fraction(16 * 2**30)),
        ("128k", Fraction(128_000)),
        ("1n", Fraction(1, 10**9)),
        ("-2", Fraction(-2)),
        ("+2", Fraction(2)),
        (3, Fraction(3)),
    ],
)
def test_what_kubernetes_reads(text: str | int, value: Fraction) -> None:
    assert quantity.parse(text) == value


@pytest.mark.parametrize(
    "text", ["", "Gi", "1 Gi", "1gi", "1K", "1ki", "0x10", "NaN", "inf", "1e9999", "१", "9" * 60]
)
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(text)


def test_parts_are_rounded_up_as_kubernetes_does() -> None:
    assert quantity.cpu_millicores("100u") == 1
    assert quantity.memory_bytes("1.5") == 2


@pytest.mark.parametrize("text", ["500m", "x", ""])
def test_pieces_are_whole(text: str) -> None:
    assert quantity.count("2") == 2
    with pytest.raises(ValueError, match=f"'{text}' is not a whole number"):
        quantity.count(text)


@given(st.integers(min_value=0, max_value=2**60))
def test_amounts_survive_the_way_there_and_back(amount: int) -> None:
    assert quantity.memory_bytes(quantity.memory_text(amount)) == amount
    assert quantity.cpu_millicores(quantity.cpu_text(amount)) == amount
