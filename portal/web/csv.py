"""Tables as CSV files to download, which a spreadsheet opens without running anything in them."""

import csv
import io
from collections.abc import Iterable, Sequence

from django.http import HttpResponse

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


def csv_answer(
    file_name: str, header: Sequence[str], rows: Iterable[Sequence[object]]
) -> HttpResponse:
    """A download of a table, UTF-8 with CRLF line ends (RFC 4180).

    Args:
        file_name: plain ASCII, without quotes.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    for row in rows:
        writer.writerow([safe_cell(value) for value in row])
    # Without the mark, spreadsheets read names with an accent as Latin-1.
    answer = HttpResponse("\ufeff" + text.getvalue(), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{file_name}"'
    return answer
