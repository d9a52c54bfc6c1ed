"""Tables as CSV files to download, which a spreadsheet opens without running anything in them."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from django.http import HttpResponse

CHUNK_ROWS = 500
# What a spreadsheet takes for the beginning of a formula:
# https://owasp.org/www-community/attacks/CSV_Injection
_WIDE = ("\uff1d", "\uff0b", "\uff0d", "\uff20")  # the same letters in full width
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", *_WIDE)


def safe_cell(value: object) -> str:
    """Text as it is, but never a formula: a quote is put before what would begin one.

    Numbers are left alone, negative ones too.
    """
    text = "" if value is None else str(value)
    if isinstance(value, str) and text.startswith(_FORMULA):
        return f"'{text}"
    return text


class _Echo:
    """What `csv.writer` writes to it, it returns."""

    def write(self, text: str) -> str:
        return text


def csv_chunks(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[bytes]:
    """The file in pieces, UTF-8 with CRLF line ends (RFC 4180), so that a long one needs no memory."""
    writer = csv.writer(_Echo())
    # Without the mark, spreadsheets read names with an accent as Latin-1.
    first = "\ufeff" + writer.writerow(header)
    lines = chain([first], (writer.writerow(map(safe_cell, row)) for row in rows))
    while some := list(islice(lines, CHUNK_ROWS)):
        yield "".join(some).encode("utf-8", "replace")


def csv_answer(
    file_name: str, header: Sequence[str], rows: Iterable[Sequence[object]]
) -> HttpResponse:
    """A download of a table.

    Args:
        file_name: plain ASCII, without quotes.
    """
    content = b"".join(csv_chunks(header, rows))
    answer = HttpResponse(content, content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{file_name}"'
    return answer
