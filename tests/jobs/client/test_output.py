"""Tables fit the terminal and lose no line; amounts and times read as people say them."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from homeport_client.amounts import age_text, lasted_text, parse_time, size_text, span_text
from homeport_client.output import Column, Output, fitted, text_width
from homeport_client.terminal import Terminal, wrap

COLUMNS = (
    Column("ID"),
    Column("NAME", shrinks_to=6),
    Column("GPU", is_right=True, leaves_at=50),
    Column("SECRET", is_wide=True),
    Column("WHY", shrinks_to=8, wraps=True),
)
CELL = st.one_of(st.text(max_size=60), st.integers(), st.none())
ROW = st.fixed_dictionaries(
    {
        "id": st.just("12345678"),
        "gpu": st.integers(0, 99),
        "name": CELL,
        "secret": CELL,
        "why": CELL,
    }
)
ROWS = st.lists(ROW, min_size=1, max_size=5)


def drawn(
    rows: list[dict[str, object]], *, width: int | None = None, is_wide: bool = False
) -> list[str]:
    """The lines of a table on a terminal of this width, or for a program."""
    terminal = Terminal(io.StringIO(), io.StringIO())
    output = Output(terminal)
    output.form = "wide" if is_wide else "table"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Terminal, "width", width)
        output.table(rows, COLUMNS)
    return terminal.out.getvalue().splitlines()  # type: ignore[attr-defined]


@settings(deadline=None)
@given(rows=ROWS, width=st.integers(40, 200))
def test_no_line_is_wider_than_the_terminal(rows: list[dict[str, object]], width: int) -> None:
    lines = drawn(rows, width=width)
    # As rich counts, which draws it; ours is for pipes, and counts unassigned letters as two.
    assert all(cell_len(line) <= width for line in lines)
    assert len(lines) >= len(rows) + 1
    assert sum(line.startswith("12345678") for line in lines) == len(rows)


@given(rows=ROWS)
def test_what_a_program_reads_is_never_cut(rows: list[dict[str, object]]) -> None:
    lines = drawn(rows)
    assert len(lines) == len(rows) + 1
    assert "SECRET" not in lines[0]
    wide = drawn(rows, width=60, is_wide=True)
    assert "SECRET" in wide[0]
    assert len(wide) == len(rows) + 1


def test_narrow_terminals_lose_columns_and_wrap_the_last_one() -> None:
    row = {"id": "12345678", "gpu": 4, "secret": "x", "why": "because of [this] and that"}
    rows = [{**row, "name": "a name that is rather long"}]
    assert drawn(rows, width=45) == [
        "ID        NAME              WHY",
        "12345678  a name that is …  because of [this]",
        "                            and that",
    ]
    assert "GPU" in drawn(rows, width=100)[0]


def test_colours_are_those_of_the_cells() -> None:
    coloured = (Column("NAME"), Column("STATE", colour=lambda text: "green"))
    assert "\x1b[32mok" in fitted(coloured, [["[red]a", "ok"]], 40, has_colours=True)
    assert "\x1b" not in fitted(coloured, [["[red]a", "ok"]], 40, has_colours=False)


def test_wide_letters_are_counted_as_two() -> None:
    assert text_width("日本") == 4
    assert text_width("e\u0301") == 1


def test_an_address_is_not_broken() -> None:
    address = "https://homeport.lab/trainings/12345678-1234-4234-8234-123456789abc/"
    assert wrap(f"see {address}", 40, 10)[1] == address


SIZES = [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (150 * 2**20, "150 MiB")]
NO_SIZES = [(None, "-"), ("3", "-"), (True, "-")]


@pytest.mark.parametrize(("size", "text"), [*SIZES, (2**41, "2.0 TiB"), *NO_SIZES])
def test_sizes(size: object, text: str) -> None:
    assert size_text(size) == text


SPANS = "-5=0s 0=0s 59.9=59s 60=1m 312=5m12s 1200=20m 3600=1h 12000=3h20m 172800=2d 187200=2d4h"


@pytest.mark.parametrize("row", SPANS.split())
def test_spans(row: str) -> None:
    seconds, _, text = row.partition("=")
    assert span_text(float(seconds)) == text


def test_times_as_rest_writes_them() -> None:
    now = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    assert age_text("2026-11-20T11:00:00Z", now) == "1h"
    assert age_text("2026-11-20T11:59:30.123456+00:00", now) == "29s"
    assert lasted_text("2026-11-20T11:00:00Z", "2026-11-20T11:05:00Z", now) == "5m"
    assert lasted_text("2026-11-20T11:00:00Z", None, now) == "1h"
    assert lasted_text("2026-11-20T11:00:00Z", None, now, without_s=600) == "50m"
    assert lasted_text(None, None, now) == ""
    for text in (None, 3, "", "yesterday", "2026-13-45", []):
        assert parse_time(text) is None
        assert age_text(text, now) == ""
    assert parse_time("2026-11-20T11:00:00") == now - timedelta(hours=1)
