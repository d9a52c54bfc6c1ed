"""The audit trail as a CSV file, a row at a time, so that a long one needs no memory."""

import csv
from collections.abc import Iterator
from datetime import UTC

from django.db.models import QuerySet

from tenants.audit.describe import detail_lines
from tenants.models import AuditEntry

HEAD = (
    "at",
    "who",
    "verb",
    "kind",
    "object",
    "object_id",
    "from",
    "result",
    "detail",
)
CHUNK_ROWS = 500
# What spreadsheets take for a formula: https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def safe(text: str) -> str:
    """The text as a spreadsheet shows it and does not run it."""
    return f"'{text}" if text.startswith(_FORMULA) else text


class _Line:
    """Takes what `csv.writer` writes."""

    text = ""

    def write(self, text: str) -> None:
        self.text = text


def csv_chunks(found: QuerySet[AuditEntry]) -> Iterator[bytes]:
    """The file in pieces: UTF-8 with a mark that spreadsheets need, times in UTC."""
    line = _Line()
    writer = csv.writer(line)
    writer.writerow(HEAD)
    chunk = ["\ufeff", line.text]
    for entry in found.iterator(chunk_size=CHUNK_ROWS):
        values = (
            entry.at.astimezone(UTC).isoformat(timespec="milliseconds"),
            entry.actor_name,
            entry.verb,
            entry.kind,
            entry.object_name,
            entry.object_id,
            entry.source_address,
            entry.result,
            "; ".join(detail_lines(entry.detail)),
        )
        writer.writerow([safe(value) for value in values])
        chunk.append(line.text)
        if len(chunk) >= CHUNK_ROWS:
            yield "".join(chunk).encode("utf-8", "replace")
            chunk = []
    if chunk:
        yield "".join(chunk).encode("utf-8", "replace")
