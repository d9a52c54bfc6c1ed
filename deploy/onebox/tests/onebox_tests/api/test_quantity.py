"""Quantities are read, summed and written as upstream does."""

import pytest

from onebox.quantity import (
    ZERO,
    Quantity,
    QuantityError,
    canonical,
    cpu_millicores,
    memory_bytes,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        (".5", "500m"),
        ("1.", "1"),
        ("+2", "2"),
        ("-1500m", "-1500m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("512", "512"),
        ("100000", "100k"),
        ("2000000", "2M"),
        ("1023Ki", "1023Ki"),
        ("0.1Gi", "107374182400m"),
        ("1e3", "1e3"),
        ("12e6", "12e6"),
        ("1E3", "1e3"),
        ("1E", "1E"),
        ("0.0000000001", "1n"),
        (2, "2"),
        (0.25, "250m"),
    ],
)
def test_the_canonical_form_is_the_one_of_upstream(text: str | float, expected: str) -> None:
    assert canonical(text) == expected


@pytest.mark.parametrize(
    "text", ["", "Gi", "1GiB", "1 Gi", "1.2.3", "abc", "1Zi", "--1", "1e", "1e999", "9" * 65, "٣"]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


def test_a_sum_keeps_the_style_of_the_first_amount_that_is_not_zero() -> None:
    assert str(parse_quantity("512Mi") + parse_quantity("512Mi")) == "1Gi"
    assert str(ZERO + parse_quantity("1Gi")) == "1Gi"
    assert str(parse_quantity("1") + parse_quantity("1500m")) == "2500m"
    assert str(parse_quantity("1Gi") - parse_quantity("1Gi")) == "0"


def test_millicores_and_bytes_round_up() -> None:
    assert cpu_millicores("0.0001") == 1
    assert cpu_millicores("2") == 2000
    assert memory_bytes("1Ki") == 1024
    assert memory_bytes("1m") == 1


def test_quantities_compare_by_value() -> None:
    assert parse_quantity("1Gi") < parse_quantity("2G")
    assert parse_quantity("1000m") <= parse_quantity("1")
    assert Quantity(0) <= ZERO
