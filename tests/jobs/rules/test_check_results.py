"""A result of preflight or doctor: read as written, and refused in words whatever else it is."""

import json
from typing import Any

import pytest

from jobs.rules.check_results import parse_results

LINE = {"name": "DNS", "outcome": "failed", "words": "no answer", "next_step": "mend it"}
GOOD: dict[str, Any] = {
    "kind": "doctor",
    "at": "2026-11-26T07:00:00+00:00",
    "version": "0.1.0",
    "took_s": 41.5,
    "checks": [LINE],
}


def body(**changes: Any) -> bytes:
    return json.dumps(GOOD | changes).encode()


def test_what_is_written_is_read_again_and_a_newer_version_may_say_more() -> None:
    results = parse_results(body(newer={"a": 1}), "doctor")
    assert results.as_json() == GOOD | {"at": "2026-11-26T07:00:00Z"}
    assert parse_results(json.dumps(results.as_json()).encode()) == results


def test_what_shows_nothing_or_no_database_takes_is_written_out() -> None:
    results = parse_results(body(checks=[LINE | {"words": "a\x00b\u202e"}]))
    assert results.checks[0].words == "a\\x00b\\u202e"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"", "truncated"),
        (b"\xff", "malformed"),
        (b"[" * 20_000, "no result"),
        (b" " * 40_000, "40000 bytes, at most 32768"),
        (b"{}", "required field `kind`"),
        (body(kind="preflight"), "a result of preflight, not of doctor"),
        (body(kind="x"), "$.kind"),
        (body(at="2026-11-26T07:00:00"), "$.at"),
        (body(at="9999-12-31T23:59:59-14:00"), "no time of ours"),
        (body(at="0001-01-01T00:00:00+14:00"), "no time of ours"),
        (body(took_s=-1), "$.took_s"),
        (body(took_s=float("nan")), "malformed"),
        (body(checks=[]), "$.checks"),
        (body(checks=[LINE] * 61), "$.checks"),
        (body(checks=[LINE | {"outcome": "fine"}]), "$.checks[0].outcome"),
        (body(checks=[LINE | {"words": "x" * 1501}]), "$.checks[0].words"),
        (body(checks=[LINE | {"words": "\x00" * 1000}]), "$.checks[0].words"),
        (body(checks=[LINE | {"name": "\ud800"}]), "surrogate"),
    ],
)
def test_anything_else_is_refused_in_words(sent: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=r"^it ") as refused:
        parse_results(sent, "doctor")
    assert words in str(refused.value)
