"""An archived log as batches for a viewer: where to begin, and what comes from there on.

Everything here blocks (object store) and runs in a thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jobs.archive.logs import Log, Piece
from jobs.logs.cursor import ArchivedPlace, LivePlace, Place, Position
from jobs.logs.left_out import LeftOut, before
from jobs.logs.lines import BATCH_BYTES, Batch, find_anchor
from jobs.logs.rows import MAX_LINE_BYTES, Line, encode, plain_lines
from jobs.logs.tail import FIRST_LINES
from jobs.pod.protocol.notices import MARK

_NOWHERE = Position(0, 0)  # archived lines have no times
# The last line that was shown live is searched this far from the end, in steps.
_SEARCH_BYTES = (256 * 1024, 8 * 1024**2)


@dataclass(frozen=True)
class StartPoint:
    """Where in an archive a viewer goes on, and a sentence of ours to show first, if any.

    Attributes:
        left_out: what it begins without.
    """

    byte: int
    notice: str = ""
    left_out: LeftOut | None = None


def start_point(log: Log, place: Place | None) -> StartPoint:
    """Where to go on for somebody who has seen the log up to a place."""
    if isinstance(place, ArchivedPlace) and place.attempt == log.attempt:
        return StartPoint(min(place.byte, log.end_byte))
    if isinstance(place, LivePlace) and place.attempt == log.attempt:
        return _behind_anchor(log, place.anchor)
    start = log.tail_start(FIRST_LINES)
    return StartPoint(start, left_out=before(log, start))


def _behind_anchor(log: Log, anchor: str) -> StartPoint:
    """Behind the last lines that were shown live. Where they come several times, behind the first
    of them: better a line twice than a line lost."""
    for size in _SEARCH_BYTES if anchor else ():
        start = max(0, log.end_byte - size)
        pieces = [piece for piece in log.pieces(start) if piece.data]
        data = b"".join(piece.data for piece in pieces)
        if start:  # not in the middle of a line
            skipped = data.find(b"\n") + 1
            data, start_in = data[skipped:], skipped
        else:
            start_in = 0
        found = find_anchor(data if data.endswith(b"\n") else data + b"\n", anchor)
        if found:
            byte = _position(pieces, min(found[0], len(data)) + start_in)
            if len(found) == 1:
                return StartPoint(byte)
            return StartPoint(byte, "from here on the archive; some lines may come again")
        if start == 0:
            break
    start = log.tail_start(FIRST_LINES)
    return StartPoint(start, "from here on the archive; some lines may come again or be missing")


def _position(pieces: list[Piece], count: int) -> int:
    """The position in the log behind the first `count` kept bytes of these pieces."""
    for piece in pieces:
        if count <= len(piece.data):
            return piece.start_byte + count
        count -= len(piece.data)
    return pieces[-1].end_byte if pieces else 0


def batches(log: Log, start: int) -> Iterator[tuple[Batch, int]]:
    """The lines from a byte on, each batch with the byte behind it.

    A last line without line break comes only when the log is complete.
    """
    waiting, at = b"", start  # `at` is the position of the first byte of `waiting`
    for piece in log.pieces(start):
        if piece.skipped_bytes:
            lines = plain_lines(waiting) if waiting else []
            lines.append(_gap(piece))
            waiting, at = b"", piece.end_byte
            yield _batch(lines), at
            continue
        waiting += piece.data
        while True:
            end = waiting.rfind(b"\n", 0, BATCH_BYTES) + 1
            if not end:
                end = waiting.find(b"\n") + 1
            if not end and len(waiting) > 4 * MAX_LINE_BYTES:
                end = len(waiting)  # no line break in sight: what is over the cap is cut anyway
            if not end:
                break
            lines, waiting, at = plain_lines(waiting[:end]), waiting[end:], at + end
            yield _batch(lines), at
    gap = log.gap_at_end
    if log.is_complete and (waiting or gap):
        lines = plain_lines(waiting) if waiting else []
        if gap:
            lines.append(_gap(gap))
        yield _batch(lines), at + len(waiting)


def _gap(gap: Piece) -> Line:
    return Line("", MARK + gap.words())


def notice(text: str) -> Batch:
    """A line of ours."""
    return _batch([Line("", MARK + text)])


def _batch(lines: list[Line]) -> Batch:
    return Batch(encode(lines), len(lines), _NOWHERE, _NOWHERE, "")
