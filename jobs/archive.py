"""Reads what was archived of a job: logs by byte offset over their segments, and artifacts.

A log keeps its byte positions although pieces of it may have been dropped: a gap between two
segments, or between the last one and the end, is shown as one line of ours. Everything blocks
(database, object store): call it from a thread. Iterators hold no database connection.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from jobs.models import Artifact, Job, LogSegment, ReplicaArchive
from portal.storage import Store, get_store

TAIL_BYTES = 64 * 1024  # read at once while looking for the beginning of a tail
MAX_TAIL_BYTES = 64 * 1024**2  # a tail of longer lines than this is cut


def job_prefix(job: Job) -> str:
    """Everything in the object store that belongs to this job begins with this."""
    return f"{job.tenant_id}/jobs/{job.pk}/"


@dataclass(frozen=True)
class Piece:
    """Bytes of a log in a row, or (`data` empty) a gap of `skipped_bytes`."""

    start_byte: int
    data: bytes
    skipped_bytes: int = 0

    @property
    def end_byte(self) -> int:
        return self.start_byte + len(self.data) + self.skipped_bytes


@dataclass(frozen=True)
class Log:
    """The archived log of one replica in one attempt, as far as it has come."""

    attempt: int
    segments: tuple[LogSegment, ...]
    is_complete: bool
    skipped_bytes: int  # as the pod reported, over the whole log

    @property
    def end_byte(self) -> int:
        """Where the last archived byte ends."""
        return max((row.start_byte + row.size_bytes for row in self.segments), default=0)

    @property
    def missing_at_end_bytes(self) -> int:
        """Bytes that were written after the last archived one, and are lost."""
        if not self.is_complete:
            return 0
        kept = sum(row.size_bytes for row in self.segments)
        return max(0, self.skipped_bytes - (self.end_byte - kept))

    def pieces(self, start: int = 0, end: int | None = None) -> Iterator[Piece]:
        """What is there between two positions, gaps included, in order."""
        return self._pieces(get_store(), start, self.end_byte if end is None else end)

    def _pieces(self, store: Store, start: int, end: int) -> Iterator[Piece]:
        position = start
        for row in self.segments:
            row_end = row.start_byte + row.size_bytes
            if row_end <= position:
                continue
            if position >= end:
                return
            if row.start_byte > position:
                gap = min(row.start_byte, end) - position
                yield Piece(position, b"", gap)
                position += gap
                if position >= end:
                    return
            length = min(row_end, end) - position
            for data in store.open(row.storage_key, position - row.start_byte, length):
                yield Piece(position, data)
                position += len(data)

    def read(self, start: int, length: int) -> bytes:
        """The kept bytes between two positions; gaps give nothing."""
        return b"".join(piece.data for piece in self.pieces(start, start + length))

    def tail_start(self, lines: int) -> int:
        """The position at which the last `lines` lines begin."""
        end = self.end_byte
        lowest = max(0, end - MAX_TAIL_BYTES)
        position, found = end, 0
        # The break that ends the last line begins no line.
        wanted = lines + 1 if end and self.read(end - 1, 1) == b"\n" else lines
        while position > lowest:
            start = max(lowest, position - TAIL_BYTES)
            data = self.read(start, position - start)
            at = len(data)
            while found < wanted and (at := data.rfind(b"\n", 0, at)) >= 0:
                found += 1
            if found == wanted:
                return self._after_kept(start, position, at + 1)
            position = start
        return lowest

    def _after_kept(self, start: int, end: int, count: int) -> int:
        """The position behind the first `count` kept bytes from `start` on."""
        for piece in self.pieces(start, end):
            if count <= len(piece.data):
                return piece.start_byte + count
            count -= len(piece.data)
        return end

    def text(self, start: int = 0) -> Iterator[bytes]:
        """The log from a position on, with a line of ours for each gap."""
        at_line_start = True
        for piece in self.pieces(start):
            if piece.skipped_bytes:
                yield _gap_line(piece.skipped_bytes, at_line_start)
                at_line_start = True
            else:
                yield piece.data
                at_line_start = piece.data.endswith(b"\n")
        if self.missing_at_end_bytes:
            yield _gap_line(self.missing_at_end_bytes, at_line_start)
        elif not at_line_start:
            yield b"\n"


def _gap_line(size_bytes: int, at_line_start: bool) -> bytes:
    text = f"[homeport] {size_bytes} bytes were skipped here\n"
    return text.encode() if at_line_start else b"\n" + text.encode()


def log_of(archive: ReplicaArchive) -> Log:
    """The log of an archive row; one database query."""
    rows = sorted(archive.segments.all(), key=lambda row: (row.start_byte, row.number))
    return Log(archive.attempt, tuple(rows), archive.is_complete, archive.skipped_bytes)


def find_log(job: Job, role: str, index: int, attempt: int | None = None) -> Log | None:
    """The archived log of a replica: of one attempt, or of the latest that has anything."""
    found = job.archives.filter(role=role, index=index).order_by("-attempt")
    if attempt is not None:
        found = found.filter(attempt=attempt)
    for archive in found.prefetch_related("segments"):
        log = log_of(archive)
        if log.segments or attempt is not None:
            return log
    return None


def find_logs(job: Job, wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Log]:
    """The archived logs of several replicas, each of its latest attempt that has anything.

    Two queries, however many replicas; those without an archive are absent.
    """
    archives = job.archives.order_by("-attempt").prefetch_related("segments")
    if len(wanted) == 1:
        archives = archives.filter(role=wanted[0][0], index=wanted[0][1])
    found: dict[tuple[str, int], Log] = {}
    for archive in archives:
        key = (archive.role, archive.index)
        if key not in found and (log := log_of(archive)).segments:
            found[key] = log
    return {key: found[key] for key in wanted if key in found}


def replicas_of(job: Job) -> list[tuple[str, int]]:
    """All replicas of a job in the order in which they are shown."""
    return [
        (role, index)
        for role in sorted(job.replicas, key=lambda role: (role == "ps", role))
        for index in range(int(job.replicas[role]["count"]))
    ]


def job_log(
    job: Job, *, replica: tuple[str, int] | None, tail_lines: int | None
) -> Iterator[bytes]:
    """The archived log as text: of one replica, or of all, each line behind its replica's name.

    Args:
        replica: role and index; None for all of them, one after the other.
        tail_lines: only so many lines of each; None for everything.
    """
    found = find_logs(job, [replica] if replica else replicas_of(job))
    return _joined(found, tail_lines, replica is None)


def _joined(
    found: Mapping[tuple[str, int], Log], tail_lines: int | None, is_merged: bool
) -> Iterator[bytes]:
    for (role, index), log in found.items():
        start = 0 if tail_lines is None else log.tail_start(tail_lines)
        chunks = log.text(start)
        yield from prefixed(chunks, f"{role}-{index} | ".encode()) if is_merged else chunks


def prefixed(chunks: Iterable[bytes], prefix: bytes) -> Iterator[bytes]:
    """The chunks with a prefix at each beginning of a line, wherever the chunks are cut."""
    at_line_start = True
    for chunk in chunks:
        if not chunk:
            continue
        body, ended = (chunk[:-1], True) if chunk.endswith(b"\n") else (chunk, False)
        start = prefix if at_line_start else b""
        yield start + body.replace(b"\n", b"\n" + prefix) + (b"\n" if ended else b"")
        at_line_start = ended


class _Stream(io.RawIOBase):
    """An iterator of bytes as a file to read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._waiting:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._waiting = chunk
        count = min(len(buffer), len(self._waiting))
        buffer[:count] = self._waiting[:count]
        self._waiting = self._waiting[count:]
        return count


def artifact_chunks(artifact: Artifact, start: int = 0) -> Iterator[bytes]:
    """The bytes of an artifact from a position on.

    Raises:
        portal.storage.ObjectMissingError: the store has lost it.
    """
    return get_store().open(artifact.storage_key, start)


def open_artifact(artifact: Artifact, start: int = 0) -> IO[bytes]:
    """An artifact from a position on as a binary file.

    Raises:
        portal.storage.ObjectMissingError: the store has lost it.
    """
    return io.BufferedReader(_Stream(artifact_chunks(artifact, start)), 1024**2)
