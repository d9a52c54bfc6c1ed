"""How long a server asks us to wait, whatever it writes."""

from datetime import UTC, datetime

import pytest

from portal.cluster.errors import retry_after_s

NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "wait_s"),
    [
        (None, 1.0),
        ("", 1.0),
        ("garbage", 1.0),
        ("nan", 1.0),
        ("0", 0.0),
        ("-5", 0.0),
        ("1", 1.0),
        ("30", 30.0),
        ("1e9", 300.0),
        ("inf", 300.0),
        ("Fri, 20 Nov 2026 12:00:10 GMT", 10.0),
        ("Fri, 20 Nov 2026 11:00:00 GMT", 0.0),
    ],
)
def test_retry_after_of_any_form(header: str | None, wait_s: float):
    assert retry_after_s(header, NOW) == wait_s
