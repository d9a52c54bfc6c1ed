"""CSV downloads: read back as they were, and nothing in them is a formula."""

import csv
import io

import pytest

from portal.web.csv import csv_answer, safe_cell


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1+1", '=HYPERLINK("x")']
)
def test_what_looks_like_a_formula_is_text(text: str):
    assert safe_cell(text) == f"'{text}"


@pytest.mark.parametrize(
    ("value", "cell"), [("a=b, -c", "a=b, -c"), (-1.5, "-1.5"), (None, ""), (0, "0")]
)
def test_other_cells_are_left_alone(value: object, cell: str):
    assert safe_cell(value) == cell


def test_a_table_is_read_back_as_it_was():
    rows = [("Zoë, the 1st", 'say "hi"', 1.5), ("two\nlines", "", -2)]
    answer = csv_answer("hours.csv", ("name", "words", "hours"), rows)
    assert answer["Content-Disposition"] == 'attachment; filename="hours.csv"'
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    text = answer.content.decode("utf-8-sig")
    assert list(csv.reader(io.StringIO(text, newline=""))) == [
        ["name", "words", "hours"],
        ["Zoë, the 1st", 'say "hi"', "1.5"],
        ["two\nlines", "", "-2"],
    ]
