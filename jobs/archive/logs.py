"""Reads what was archived of a job's logs: by byte offset over their segments.

A log keeps its byte positions although pieces of it may have been dropped: a gap between two
segments, or between the last one and the end, is shown as one line of ours. Everything blocks
(database, object store): call it from a thread. Iterators hold no database connection.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from django.db.models import Exists, F, OuterRef, Q, Subquery
from django.utils.translation import ngettext

from jobs.models import LogSegment, ReplicaArchive, Workload
from jobs.pod.protocol.codes import VOLUME_FULL
from jobs.pod.protocol.notices import notice
from jobs.rules.requests import indexes_of
from jobs.rules.topologies import role_order
from portal.storage import get_store
from portal.storage.store import ObjectMissingError, Store
from portal.web.streaming import AbsentError

TAIL_BYTES = 64 * 1024  # read at once while looking for the beginning of a tail
MAX_TAIL_BYTES = 64 * 1024**2  # a tail of longer lines than this is cut
COUNTED_BYTES = (
    2 * 1024**2
)  # lines of more are not counted: all of it is read, of each replica that is shown

# Whose log: of one attempt, of each replica's latest that has anything, or of one after the other.
Which = int | Literal["latest", "all"]


def which_of(job: Workload, text: str) -> Which:
    """`2`, `latest` or `all` as somebody wrote it; empty is `latest`.

    Raises:
        AbsentError: the job has not had it.
    """
    if text in ("", "latest"):
        return "latest"
    if text == "all":
        return "all"
    is_number = text.isascii() and text.isdigit() and len(text) <= 6
    if is_number and 1 <= int(text) <= job.attempt:
        return int(text)
    had = ngettext(
        "There is no attempt “%(asked)s”. It has had %(num)s attempt.",
        "There is no attempt “%(asked)s”. It has had %(num)s attempts.",
        job.attempt,
    )
    raise AbsentError(had % {"asked": text[:10], "num": job.attempt})


@dataclass(frozen=True)
class Piece:
    """Bytes of a log in a row, or (`data` empty) a gap of `skipped_bytes`.

    Attributes:
        is_lost: they were archived, but the object store does not hold them.
        is_of_full_volume: they were not kept for want of room on the log volume.
    """

    start_byte: int
    data: bytes
    skipped_bytes: int = 0
    is_lost: bool = False
    is_of_full_volume: bool = False

    @property
    def end_byte(self) -> int:
        return self.start_byte + len(self.data) + self.skipped_bytes

    def words(self) -> str:
        """What stands in the place of a gap."""
        if self.is_lost:
            return (
                f"{self.skipped_bytes} bytes are not in the object store any more; "
                "perhaps a backup without them was restored"
            )
        why = ", as a volume was full" if self.is_of_full_volume else ""
        return f"{self.skipped_bytes} bytes were skipped here{why}"


class StoredSegment(NamedTuple):
    """What is read of a `LogSegment`: a log has one for each minute in which something was printed."""

    number: int
    start_byte: int
    size_bytes: int
    storage_key: str


@dataclass(frozen=True)
class Log:
    """The archived log of one replica in one attempt, as far as it has come.

    Attributes:
        is_complete: a container has reported its end, and nothing has come since.
        skipped_bytes: as it reported, over the whole log.
        pod_uid, restarts: of the container that reported last (`jobs/rules/archives.py`).
        run_start_byte: what lies before is of containers that have ended.
    """

    attempt: int
    segments: tuple[StoredSegment, ...]
    is_complete: bool
    skipped_bytes: int
    was_volume_full: bool
    pod_uid: str = ""
    restarts: int = 0
    run_start_byte: int = 0

    @property
    def end_byte(self) -> int:
        """Where the last archived byte ends."""
        return max((row.start_byte + row.size_bytes for row in self.segments), default=0)

    @property
    def gap_at_end(self) -> Piece | None:
        """What was written after the last archived byte, and is lost."""
        kept = sum(row.size_bytes for row in self.segments)
        missing = self.skipped_bytes - (self.end_byte - kept)
        if not self.is_complete or missing <= 0:
            return None
        return Piece(self.end_byte, b"", missing, is_of_full_volume=self.was_volume_full)

    def until(self, byte: int) -> "Log":
        """What lies before a byte at which a segment begins, as a log of its own."""
        segments = tuple(row for row in self.segments if row.start_byte < byte)
        skipped_bytes = byte - sum(row.size_bytes for row in segments)
        return replace(self, segments=segments, is_complete=True, skipped_bytes=skipped_bytes)

    def pieces(self, start: int = 0, end: int | None = None) -> Iterator[Piece]:
        """What is there between two positions, gaps included, in order."""
        return self._pieces(get_store(), start, self.end_byte if end is None else end)

    def _pieces(self, store: Store, start: int, end: int) -> Iterator[Piece]:
        lost: Piece | None = None  # several in a row are one
        for piece in self._each(store, start, end):
            if piece.is_lost:
                known = lost.skipped_bytes if lost is not None else 0
                begin = lost.start_byte if lost is not None else piece.start_byte
                lost = Piece(begin, b"", known + piece.skipped_bytes, is_lost=True)
                continue
            if lost is not None:
                yield lost
                lost = None
            yield piece
        if lost is not None:
            yield lost

    def _each(self, store: Store, start: int, end: int) -> Iterator[Piece]:
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
            try:
                chunks = store.open(row.storage_key, position - row.start_byte, length)
            except ObjectMissingError:
                yield Piece(position, b"", length, is_lost=True)
                position += length
                continue
            for data in chunks:
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

    def lines_before(self, byte: int) -> int | None:
        """How many lines end before a position; None where that is too much to count."""
        if byte > COUNTED_BYTES:
            return None
        return sum(piece.data.count(b"\n") for piece in self.pieces(0, byte))

    def _after_kept(self, start: int, end: int, count: int) -> int:
        """The position behind the first `count` kept bytes from `start` on."""
        for piece in self.pieces(start, end):
            if count <= len(piece.data):
                return piece.start_byte + count
            count -= len(piece.data)
        return end

    def text(self, start: int = 0, *, closes: bool = True) -> Iterator[bytes]:
        """The log from a position on, with a line of ours for each gap.

        Args:
            start: the position.
            closes: end it with a line break where it ends within a line.
        """
        at_line_start = True
        for piece in self.pieces(start):
            if piece.skipped_bytes:
                yield _gap_line(piece, at_line_start)
                at_line_start = True
            else:
                yield piece.data
                at_line_start = piece.data.endswith(b"\n")
        if self.gap_at_end is not None:
            yield _gap_line(self.gap_at_end, at_line_start)
        elif closes and not at_line_start:
            yield b"\n"


def _gap_line(gap: Piece, at_line_start: bool) -> bytes:
    text = notice(gap.words())
    return text.encode() if at_line_start else b"\n" + text.encode()


def log_of(archive: ReplicaArchive) -> Log:
    """The log of an archive row; one database query."""
    rows = archive.segments.order_by("start_byte", "number").values_list(*StoredSegment._fields)
    return Log(
        archive.attempt,
        tuple(StoredSegment(*row) for row in rows.iterator()),
        archive.is_complete,
        archive.skipped_bytes,
        was_volume_full=archive.exit_reason == VOLUME_FULL,
        pod_uid=archive.pod_uid,
        restarts=archive.restarts,
        run_start_byte=archive.run_start_byte,
    )


def has_segments() -> Exists:
    """Whether anything of an archive's log is there; none of its segments is loaded for that."""
    return Exists(LogSegment.objects.filter(archive=OuterRef("pk")))


def archived_bytes() -> Subquery:
    """Where the last segment of an archive's log ends; None where there is none."""
    of_archive = LogSegment.objects.filter(archive=OuterRef("pk")).order_by("-number")
    return Subquery(of_archive.values_list(F("start_byte") + F("size_bytes"))[:1])


def find_log(job: Workload, role: str, index: int, attempt: int | None = None) -> Log | None:
    """The archived log of a replica: of one attempt, or of the latest that has anything."""
    of_replica = job.archives.filter(role=role, index=index).order_by("-attempt")
    wanted = has_segments() if attempt is None else Q(attempt=attempt)
    archive = of_replica.filter(wanted).first()
    return log_of(archive) if archive is not None else None


@dataclass(frozen=True)
class Found:
    """The archived log of a replica.

    Attributes:
        is_cut: more of it may yet come, and no pod has it: its attempt is over.
    """

    role: str
    index: int
    log: Log
    is_cut: bool = False

    def text(self, tail_lines: int | None, start: int = 0) -> Iterator[bytes]:
        """All of it from a byte on, or its last lines; then a line of ours where the rest is not there yet."""
        yield from self.log.text(start if tail_lines is None else self.log.tail_start(tail_lines))
        if self.is_cut:
            yield notice(rest_words(self.log.attempt)).encode()


@dataclass(frozen=True)
class KeptLog:
    """That there is an archived log of a replica; its segments are not loaded yet."""

    archive: ReplicaArchive
    is_cut: bool

    @property
    def key(self) -> tuple[str, int]:
        return self.archive.role, self.archive.index

    @property
    def attempt(self) -> int:
        return self.archive.attempt

    def read(self) -> Found:
        """The log itself; one database query."""
        return Found(*self.key, log_of(self.archive), self.is_cut)


def rest_words(attempt: int) -> str:
    """What stands at the end of an earlier attempt that is still being uploaded."""
    return f"the rest of attempt {attempt} is not uploaded yet"


# What stands before the lines of a container of which nobody told where in the log it begins.
STARTED_AGAIN = (
    "this replica was started again: lines from before may be missing here, or come again below; "
    "the download has all that is uploaded"
)


def find_logs(
    job: Workload, wanted: Sequence[tuple[str, int]], which: Which = "latest"
) -> list[KeptLog]:
    """The archived logs of several replicas, by attempt and then in the order of `wanted`.

    One query, however many replicas and attempts; those without an archive are absent. Each log is to be read
    when it is its turn: the segments of all of them may be hundreds of thousands.
    """
    archives = job.archives.order_by("-attempt")
    if len(wanted) == 1:
        archives = archives.filter(role=wanted[0][0], index=wanted[0][1])
    if which == "latest":
        archives = archives.filter(has_segments())
    elif isinstance(which, int):
        archives = archives.filter(attempt=which)
    places = {key: place for place, key in enumerate(wanted)}
    found: list[KeptLog] = []
    seen: set[tuple[str, int]] = set()
    for archive in archives:
        key = (archive.role, archive.index)
        if key not in places or (which == "latest" and key in seen):
            continue
        seen.add(key)
        is_over = archive.attempt < job.attempt and job.cleaned_at is None
        found.append(KeptLog(archive, which != "latest" and is_over and not archive.is_complete))
    by_place = sorted(found, key=lambda one: places[one.key])
    return by_place if which == "latest" else sorted(by_place, key=lambda one: one.attempt)


def replicas_of(job: Workload) -> list[tuple[str, int]]:
    """All replicas of a job in the order in which they are shown."""
    return [
        (role, index)
        for role in sorted(job.replicas, key=role_order)
        for index in indexes_of(job.replicas[role])
    ]


def job_log(
    job: Workload,
    *,
    replica: tuple[str, int] | None,
    tail_lines: int | None,
    which: Which = "latest",
) -> Iterator[bytes]:
    """The archived log as text: of one replica, or of all, each line behind its replica's name.

    Args:
        replica: role and index; None for all of them, one after the other.
        tail_lines: only so many lines of each; None for everything.
        which: whose log; `all` has a line with attempt and replica before each.
    """
    found = find_logs(job, [replica] if replica else replicas_of(job), which)
    return _joined(
        [one.read() for one in found],
        tail_lines,
        is_merged=replica is None,
        has_heads=which == "all",
    )


def _joined(
    found: Iterable[Found], tail_lines: int | None, *, is_merged: bool, has_heads: bool
) -> Iterator[bytes]:
    for one in found:
        name = f"{one.role}-{one.index}"
        chunks = one.text(tail_lines)
        head = head_line(one.log.attempt, name) if has_heads else b""
        yield from headed(prefixed(chunks, f"{name} | ".encode()) if is_merged else chunks, head)


def head_line(attempt: int, replica: str) -> bytes:
    """What stands before the log of a replica where those of several attempts follow."""
    return f"===== attempt {attempt}, {replica} =====\n".encode()


def headed(chunks: Iterable[bytes], head: bytes) -> Iterator[bytes]:
    """The chunks behind a line, which is left out where there are none."""
    for chunk in chunks:
        if head and chunk:
            yield head
            head = b""
        yield chunk


def prefixed(chunks: Iterable[bytes], prefix: bytes) -> Iterator[bytes]:
    """The chunks with a prefix at each beginning of a line, wherever the chunks are cut."""
    mark = Prefix(prefix)
    for chunk in chunks:
        if chunk:
            yield mark(chunk)


class Prefix:
    """Puts a prefix at each beginning of a line, of one chunk after the other; an empty one changes nothing."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._at_line_start = True

    def __call__(self, chunk: bytes) -> bytes:
        if not chunk or not self._prefix:
            return chunk
        body, ended = (chunk[:-1], True) if chunk.endswith(b"\n") else (chunk, False)
        start = self._prefix if self._at_line_start else b""
        self._at_line_start = ended
        return start + body.replace(b"\n", b"\n" + self._prefix) + (b"\n" if ended else b"")
