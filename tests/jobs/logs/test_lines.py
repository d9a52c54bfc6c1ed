"""Bytes of a follow become batches: wherever they are cut, whatever they hold."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.logs.ansi import clean
from jobs.logs.cursor import ArchivedPlace, LivePlace, Position, anchor_of, read, write
from jobs.logs.lines import Batch, LineReader, find_anchor, parse_time
from jobs.logs.rows import MAX_LINE_BYTES, last_state
from tests.jobs.logs.fakes import stamp, texts


def all_of(reader: LineReader, *chunks: bytes) -> list[Batch]:
    found: list[Batch] = []
    for chunk in chunks:
        reader.feed(chunk)
        found += reader.take()
    return found + list(reader.finish())


def line(at: int, text: bytes) -> bytes:
    return stamp(at) + b" " + text + b"\n"


DATA = (
    line(1, b"plain")
    + line(2, "日本語 ä 🙂".encode())
    + line(3, b"\xff\xfe broken utf-8 \xe6\x97")
    + line(3, b"\x1b[31mred\x1b[0m \x1b]0;title\x07x\x9b1m")
    + line(4, b"10%\r20%\r30%")
    + line(5, b"windows\r")
    + line(6, b'quotes " and \\ and \t')
    + stamp(7)  # a line of which only the time came
    + b"\n"
)
TEXTS = [
    "plain",
    "日本語 ä 🙂",
    "\ufffd\ufffd broken utf-8 \ufffd",
    "\x1b[31mred\x1b[0m x\ufffd1m",
    "30%",
    "windows",
    'quotes " and \\ and \t',
    "",
]


def test_text_does_not_depend_on_where_the_bytes_are_cut() -> None:
    assert texts(all_of(LineReader(), DATA)) == TEXTS
    for cut in range(len(DATA) + 1):
        batches = all_of(LineReader(), DATA[:cut], DATA[cut:])
        assert texts(batches) == TEXTS, cut
        assert batches[-1].last == Position(parse_time(stamp(7).decode()), 1)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=20)), max_size=12),
    st.lists(st.integers(0, 700), max_size=5),
)
def test_positions_and_anchors_do_not_depend_on_the_cuts(
    rows: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    at, data = 0, b""
    for step, text in rows:
        at += step
        data += line(at, text.replace(b"\n", b""))
    whole = all_of(LineReader(), data)
    borders = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    parts = all_of(LineReader(), *(data[a:b] for a, b in itertools.pairwise(borders)))
    assert texts(parts) == texts(whole)
    if whole:
        assert (parts[-1].last, parts[-1].anchor) == (whole[-1].last, whole[-1].anchor)
        for before, after in itertools.pairwise(parts):
            assert before.last < after.first


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.data())
def test_a_reader_goes_on_exactly_behind_a_position(steps: list[int], draw: Any) -> None:
    at, data = 0, []
    for number, step in enumerate(steps):
        at += step
        data.append(line(at, b"%d" % number))
    seen = draw.draw(st.integers(1, len(data)))
    position = all_of(LineReader(), b"".join(data[:seen]))[-1].last
    assert texts(all_of(LineReader(position), b"".join(data))) == [
        str(number) for number in range(seen, len(data))
    ]
    # ... as what is cut from batches that were read from the beginning.
    cut = [batch.behind(position) for batch in all_of(LineReader(), b"".join(data))]
    assert texts([batch for batch in cut if batch is not None]) == [
        str(number) for number in range(seen, len(data))
    ]
    # ... and stops exactly in front of one.
    assert texts(all_of(LineReader(None, position), b"".join(data))) == [
        str(number) for number in range(seen - 1)
    ]
    last = all_of(LineReader(position), b"".join(data))
    if last:
        assert last[-1].last == all_of(LineReader(), b"".join(data))[-1].last


def test_batches_are_cut_between_lines_and_of_bounded_size() -> None:
    data = b"".join(line(number, b"x" * 1000) for number in range(300))
    batches = all_of(LineReader(), data)
    assert len(batches) >= 3
    assert max(batch.size for batch in batches) < 180_000
    assert len(texts(batches)) == 300


@pytest.mark.parametrize("chunk", [1000, 70_000, 10**9])
def test_a_line_that_is_too_long_is_cut_and_says_so(chunk: int) -> None:
    data = line(1, b"a" * 300_000) + line(2, b"after")
    reader = LineReader()
    found: list[Batch] = []
    for at in range(0, len(data), chunk):
        reader.feed(data[at : at + chunk])
        found += reader.take()
        assert len(reader._partial) <= MAX_LINE_BYTES
    long, after = texts(found)
    assert after == "after"
    assert long.startswith("a" * 60_000)
    assert len(long) < MAX_LINE_BYTES + 100
    shown = long.count("a" * 100) * 100
    cut = int(long.split("[homeport] ")[1].split()[0])
    assert abs(shown + cut - 300_000) < 200


def test_a_progress_bar_without_line_break_shows_its_last_state() -> None:
    reader = LineReader()
    reader.feed(stamp(1) + b" ")
    shown: list[Batch] = []
    for number in range(2000):
        reader.feed(b"\r%4d/2000 %s" % (number, b"#" * 40))
        shown += reader.take()
    states = texts(shown)
    assert 10 < len(states) < 40
    assert states[-1].startswith("19")
    assert len({batch.last for batch in shown}) == 1
    reader.feed(b"\rdone\n" + line(2, b"next"))
    assert texts(list(reader.take())) == ["done", "next"]


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T01:00:00.25+01:00", 250_000_000),
        ("1969-12-31T23:30:00.000000007-00:30", 7),
        ("nonsense", 0),
        ("", 0),
        ("1970-01-01T00:00:00?", 0),
    ],
)
def test_times_of_every_zone_are_read(text: str, nanoseconds: int) -> None:
    assert parse_time(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "state"),
    [("a", "a"), ("a\rb", "b"), ("a\rb\r", "b"), ("\r", ""), ("a\r\r", "a"), ("\ra", "a")],
)
def test_of_carriage_returns_the_last_state_is_shown(text: str, state: str) -> None:
    assert last_state(text) == state


def test_the_place_of_the_last_lines_is_found_in_the_archive() -> None:
    rows = [b"%d" % number for number in range(10)]
    data = b"".join(row + b"\n" for row in rows)
    assert find_anchor(data, anchor_of(rows[3:7])) == [14]
    assert find_anchor(data, anchor_of(rows[:2])) == [4]
    assert find_anchor(data, anchor_of([b"other"])) == []
    assert find_anchor(b"a\n" * 4, anchor_of([b"a", b"a"])) == [4, 6, 8]
    long = b"x" * 5000
    assert find_anchor(long + b"\n", anchor_of([long + b"y"])) == [5001]


def test_cursors_come_back_and_nonsense_does_not() -> None:
    places = {
        "worker-0": LivePlace(2, Position(1_763_658_000_123_456_789, 3), "4" + "ab" * 6),
        "worker-1": LivePlace(1, Position(0, 0)),
        "ps-0": ArchivedPlace(1, 2**40),
    }
    text = write(places)
    assert read(text) == places
    assert all(letter.isalnum() or letter in "-._~" for letter in text)
    assert read("") == {}
    assert read("~~x~worker-0.l.1~worker-0.a.1.-5~../../etc~worker-0.a.1." + "9" * 30) == {}
    assert read("worker-0.a.1.5~junk") == {"worker-0": ArchivedPlace(1, 5)}


@given(st.text(max_size=80))
def test_no_text_breaks_the_reading_of_cursors(text: str) -> None:
    assert isinstance(read(text), dict)


@settings(max_examples=200)
@given(st.lists(st.text(st.sampled_from('a ä"\\/\t\x1b[31m\u2028€{}:,'), max_size=20), min_size=1))
def test_whatever_a_line_holds_the_array_is_json(written: list[str]) -> None:
    data = b"".join(line(n, text.encode()) for n, text in enumerate(written))
    shown = [
        row["text"]
        for batch in all_of(LineReader(), data)
        for row in msgspec.json.decode(batch.encoded)
    ]
    assert shown == [clean(text) for text in written]
