"""Logs of replicas as the archive keeps them."""

import hashlib
import io

from jobs import archive
from jobs.archive.logs import Log, log_of
from jobs.models import LogSegment, ReplicaArchive, Workload
from portal.storage import get_store


def keep(
    job: Workload,
    pieces: list[tuple[int, bytes]],
    *,
    replica: tuple[str, int] = ("worker", 0),
    attempt: int = 1,
    **fields: object,
) -> Log:
    """A log of pieces at positions, in place of what was kept under their numbers."""
    role, index = replica
    row, _ = ReplicaArchive.objects.update_or_create(
        workload=job,
        role=role,
        index=index,
        attempt=attempt,
        defaults={"is_complete": True, **fields},
    )
    folder = f"{archive.archive_prefix(job)}logs/{role}-{index}/{attempt}"
    for number, (start, data) in enumerate(pieces, start=1):
        sha256 = hashlib.sha256(data).hexdigest()
        key = f"{folder}/{number}-{sha256}"
        get_store().put_file(key, io.BytesIO(data))
        about = {"start_byte": start, "size_bytes": len(data), "sha256": sha256}
        LogSegment.objects.update_or_create(
            archive=row, number=number, defaults={**about, "storage_key": key}
        )
    return log_of(row)
