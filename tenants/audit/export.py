"""The audit trail as a CSV file, a row at a time, so that a long one needs no memory."""

from collections.abc import Iterator
from datetime import UTC

from django.db.models import QuerySet

from portal.web.csv import CHUNK_ROWS, csv_chunks
from tenants.audit.describe import detail_lines
from tenants.models import AuditEntry

_HEADER = ("at", "who", "verb", "kind", "object", "object_id", "from", "result", "detail")


def audit_chunks(found: QuerySet[AuditEntry]) -> Iterator[bytes]:
    """The file in pieces; times are in UTC."""
    return csv_chunks(_HEADER, map(_row, found.iterator(chunk_size=CHUNK_ROWS)))


def _row(entry: AuditEntry) -> tuple[str, ...]:
    return (
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
