"""The live copy of a flood: whole lines in a row, gaps that say exactly what is missing."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.pod import ratelimit
from jobs.pod.protocol.notices import gap_line
from jobs.pod.ratelimit import RateLimit

GAP = re.compile(rb"\[homeport\] (\d+) lines were skipped here")


def numbered(first: int, count: int, width: int = 100) -> bytes:
    return b"".join(
        (b"%09d" % n).ljust(width - 1, b".") + b"\n" for n in range(first, first + count)
    )


def check(out: bytes) -> tuple[int, int, int]:
    """Lines shown, lines skipped, the number after the last; every gap says its size."""
    expected = shown = skipped = 0
    for line in out.splitlines():
        gap = GAP.match(line)
        if gap:
            expected += int(gap.group(1))
            skipped += int(gap.group(1))
        else:
            assert int(line[:9]) == expected, line
            expected += 1
            shown += 1
    return shown, skipped, expected


def test_output_below_the_rate_goes_out_byte_for_byte() -> None:
    limited = RateLimit(0.0)
    out = b""
    for second in range(20):
        data = numbered(second, 1, ratelimit.RATE_BYTES_PER_S)
        out += limited.feed(data, float(second))
        assert out.endswith(data)
    assert limited.finish() == b""


def test_of_a_flood_the_burst_the_rate_and_the_end_go_out_and_the_rest_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("RATE_BYTES_PER_S", "BURST_BYTES", "RESUME_BYTES", "HELD_BYTES"):
        monkeypatch.setattr(ratelimit, name, getattr(ratelimit, name) // 32)
    limited, out, seconds = RateLimit(0.0), [], 10
    data = numbered(0, 300_000)
    step_bytes = 5_037  # cut where no line ends
    steps = len(data) // step_bytes + 1
    for step in range(steps):
        piece = data[step * step_bytes : (step + 1) * step_bytes]
        out.append(limited.feed(piece, seconds * step / steps))
    out.append(limited.finish())
    text = b"".join(out)
    shown, skipped, total = check(text)
    assert total == 300_000
    assert skipped > 0
    most = (
        ratelimit.BURST_BYTES
        + ratelimit.RATE_BYTES_PER_S * seconds
        + ratelimit.HELD_BYTES
        + step_bytes
    )
    assert most * 0.9 < shown * 100 <= most
    # What is too little for a whole piece is left for the next time.
    earned_bytes = ratelimit.RESUME_BYTES - step_bytes
    assert len(GAP.findall(text)) <= seconds * ratelimit.RATE_BYTES_PER_S / earned_bytes + 1


def test_what_was_held_back_goes_out_when_the_flood_ends() -> None:
    limited = RateLimit(0.0)
    flood = numbered(0, 400_000)
    out = b"".join(
        limited.feed(flood[at : at + 262_144], 0.0) for at in range(0, len(flood), 262_144)
    )
    assert not out.endswith(flood[-100:])
    out += limited.feed(b"", 0.1)
    out += limited.feed(b"", 0.5)
    assert check(out)[2] == 400_000
    assert limited.feed(b"next\n", 0.5) == b"next\n"


def test_a_flood_without_line_breaks_is_cut_and_told() -> None:
    limited = RateLimit(0.0)
    out = b"".join(limited.feed(b"x" * 262_144, 0.0) for _ in range(200)) + limited.finish()
    assert len(out) < ratelimit.BURST_BYTES + 1000
    assert out.endswith(gap_line(1))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 30_000), st.floats(0, 0.05)), min_size=1, max_size=60),
    st.integers(11, 5000),
)
def test_shown_and_skipped_lines_add_up_however_the_output_comes(
    pieces: list[tuple[int, float]], width: int
) -> None:
    limited = RateLimit(0.0)
    limited._left_bytes = 100_000.0
    size = sum(count for count, _ in pieces)
    lines = size // width + 1
    data = numbered(0, lines, width)
    out, at, now_s = b"", 0, 0.0
    for count, pause_s in pieces:
        now_s += pause_s
        out += limited.feed(data[at : at + count], now_s)
        at += count
    out += limited.feed(data[at:], now_s) + limited.finish()
    assert check(out)[2] == lines
