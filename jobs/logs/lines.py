"""Turns the bytes of a log into batches of clean lines, encoded once for all who watch.

A follow comes in pieces that are cut anywhere, each line behind its kubelet time. Work is done for
a whole batch at a time: one decoding, one look for controls, one encoding; only batches that hold
controls are looked at line by line.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

import msgspec

from jobs.logs.ansi import clean
from jobs.logs.cursor import ANCHOR_LINES, LivePlace, Place, Position, anchor_of
from jobs.logs.rows import MAX_LINE_BYTES, Line, encode, encode_data, last_state
from jobs.pod.protocol.notices import (
    MARK,
    UNFINISHED,
    is_unfinished,
    lines_left_out,
    rejoined,
)

BATCH_BYTES = 128 * 1024  # at most; each costs a frame for each viewer
_KEPT_BYTES = (
    MAX_LINE_BYTES - 128
)  # of a longer one, so that what is said of the rest fits behind it
_PROGRESS_BYTES = 4 * 1024  # an unfinished line of a progress bar is shown when it is this long


@dataclass(slots=True)
class Batch:
    """Lines in a row, encoded as a JSON array.

    Attributes:
        encoded: the array of `{"t", "text"}`.
        count: lines in it.
        first: position of its first line; of an unfinished one, of that before it, as `last`.
        last: position of its last line that is finished; viewers go on behind it.
        anchor: digest of the last lines, see `cursor.anchor_of`.
        frame: replica and place that the last whole frame was made of it for, and that frame: most
            viewers want the same.
        live_place: the last place that was made for those who come behind it, likewise.
        stands_for: lines of the program that are missed by who does not get this batch: those in
            it, and those that were left out where a line of ours says so.
        is_unfinished: it is how far the line behind `last` has come, which comes whole later.
    """

    encoded: str
    count: int
    first: Position
    last: Position
    anchor: str
    frame: tuple[str, Place | None, str] = ("", None, "")
    stands_for: int = 0
    is_unfinished: bool = False
    live_place: LivePlace | None = None

    def __post_init__(self) -> None:
        self.stands_for = self.stands_for or (0 if self.is_unfinished else self.count)

    @property
    def size(self) -> int:
        return len(self.encoded)

    def place(self, attempt: int) -> LivePlace:
        """Where somebody stands who was shown it, live."""
        if self.live_place is None or self.live_place.attempt != attempt:
            self.live_place = LivePlace(attempt, self.last, self.anchor)
        return self.live_place

    def behind(self, after: Position) -> "Batch | None":
        """What of it is new to who has seen the log up to a line; None: nothing is."""
        if self.is_unfinished:
            return self if self.last >= after else None
        if self.first > after:
            return self
        if self.last <= after:
            return None
        rows = msgspec.json.decode(self.encoded, type=list[Line])
        position = self.first
        for count, (row, following) in enumerate(pairwise(rows), 1):
            position = _following(position, row.t, following.t)
            if position > after:
                rest = rows[count:]
                return Batch(encode(rest), len(rest), position, self.last, self.anchor)
        return self  # better a line twice than a line lost


def parse_time(text: str) -> int:
    """Nanoseconds since 1970 of RFC 3339 text with up to 9 digits of a second; 0 for other text."""
    try:
        seconds = datetime.fromisoformat(text[:19]).replace(tzinfo=UTC)
        rest = text[19:]
        digits = ""
        if rest.startswith("."):
            digits = rest[1:].rstrip("Zz").split("+")[0].split("-")[0]
            rest = rest[1 + len(digits) :]
        offset_s = 0
        if rest and rest not in "Zz":
            sign = {"+": 1, "-": -1}[rest[0]]
            offset_s = sign * (int(rest[1:3]) * 3600 + int(rest[4:6]) * 60)
        whole_s = int((seconds - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()) - offset_s
        return whole_s * 10**9 + int(digits[:9].ljust(9, "0") or 0)
    except (ValueError, KeyError):
        return 0


class LineReader:
    """Reads one follow of a container. Make a new one, with `after`, for each connection."""

    def __init__(self, after: Position | None = None, before: Position | None = None) -> None:
        """Lines up to and including `after` are left out, and those from `before` on."""
        self._after = after
        self._before = before
        self.is_over = False  # `before` was reached
        self._chunks: list[bytes] = []
        self._partial = b""  # the beginning of a line, of which not all has come
        self._cut_bytes: int | None = None  # of a line too long to keep: what was thrown away
        self._cut_end = (
            b""  # of what was thrown away: the next piece may end a mark that begins in it
        )
        self._state = ""  # of the unfinished line, as it was shown
        self._last_time = ""
        self._last = Position(0, 0)
        self._anchor_lines: deque[bytes] = deque(maxlen=ANCHOR_LINES)
        self.pending_bytes = 0

    @property
    def last(self) -> Position:
        """Of the last finished line."""
        return self._last

    def feed(self, chunk: bytes) -> None:
        """Takes what came; `take` gives it out."""
        if self._cut_bytes is not None:
            known = len(self._cut_end)
            joined = self._cut_end + chunk
            end = joined.find(b"\n")
            while end >= 0 and joined.endswith(UNFINISHED, 0, end):  # it goes on behind it
                end = joined.find(b"\n", end + 1)
            self._cut_bytes += (len(joined) if end < 0 else end) - known
            if end < 0:
                self._cut_end = _end_of(joined)
                return
            chunk = self._cut_marker() + joined[end:]
            self._cut_bytes = None
        self._chunks.append(chunk)
        self.pending_bytes += len(chunk)

    def _cut_marker(self) -> bytes:
        return f" {MARK}{self._cut_bytes} more bytes of this line were cut".encode()

    def take(self) -> Iterator[Batch]:
        """The lines that are finished, in batches of about `BATCH_BYTES`."""
        data = self._partial + b"".join(self._chunks)
        self._chunks.clear()
        self.pending_bytes = 0
        start = 0
        data = rejoined(data)
        end = data.rfind(b"\n") + 1
        if is_unfinished(data[:end]):
            end = data.rfind(b"\n", 0, end - 1) + 1
        if end:
            self._state = ""  # that line has ended, and the next one may begin as it did
        while start < end:
            stop = end
            if end - start > BATCH_BYTES:
                stop = data.rfind(b"\n", start, start + BATCH_BYTES) + 1
                stop = stop or data.find(b"\n", start) + 1
            batch = self._batch(data[start:stop])
            if batch is not None:
                yield batch
            start = stop
        self._partial = data[end:]
        if len(self._partial) >= _PROGRESS_BYTES or is_unfinished(self._partial):
            yield from self._unfinished()

    def finish(self) -> Iterator[Batch]:
        """What is left at the end of the log: a last line without a line break."""
        yield from self.take()
        if self._cut_bytes is not None:
            self._partial += self._cut_marker()
            self._cut_bytes = None
        if self._partial:
            rest = self._partial.removesuffix(UNFINISHED + b"\n")
            batch = self._batch(rest + b"\n")
            self._partial = b""
            if batch is not None:
                yield batch

    def _batch(self, data: bytes) -> Batch | None:
        if self._after is not None:
            data = self._newer(data)
        if self._before is not None:
            data = self._older(data)
        if not data:
            return None
        previous = self._last
        rows, encoded = encode_data(data)
        first, last = self._advance(rows, previous)
        anchor = self._note(data)
        batch = Batch(encoded, len(rows), first, last, anchor)
        batch.stands_for += lines_left_out(data)
        return batch

    def _advance(self, rows: list[str], previous: Position) -> tuple[Position, Position]:
        """Positions of the first and the last row; rows of one time are numbered."""
        first_time, last_time = _time_of(rows[0]), _time_of(rows[-1])
        first = _following(previous, self._last_time, first_time)
        equal = 0
        for row in reversed(rows):
            if _time_of(row) != last_time:
                break
            equal += 1
        if equal == len(rows):
            last = Position(first.time_ns, first.ordinal + equal - 1)
        else:
            last = Position(parse_time(last_time), equal)
        self._last_time, self._last = last_time, last
        return first, last

    def _note(self, data: bytes) -> str:
        """Keeps the last lines without their times, and gives their digest."""
        tail = data[:-1].rsplit(b"\n", ANCHOR_LINES)[-ANCHOR_LINES:]
        self._anchor_lines.extend(line.partition(b" ")[2] for line in tail)
        return anchor_of(self._anchor_lines)

    def _newer(self, data: bytes) -> bytes:
        """The lines behind `after`; from the first of them on, all that comes is newer."""
        assert self._after is not None
        start = 0
        while start < len(data):
            end = data.index(b"\n", start) + 1
            before = self._last_time, self._last
            _, position = self._advance([_row_of(data[start:end])], self._last)
            if position > self._after:
                self._last_time, self._last = before
                self._after = None
                return data[start:]
            self._note(data[start:end])
            start = end
        return b""

    def _older(self, data: bytes) -> bytes:
        """The lines in front of `before`; nothing more is looked at behind it."""
        assert self._before is not None
        kept, state = 0, (self._last_time, self._last)
        while kept < len(data) and not self.is_over:
            end = data.index(b"\n", kept) + 1
            _, position = self._advance([_row_of(data[kept:end])], self._last)
            if position >= self._before:
                self.is_over = True
            else:
                kept = end
        self._last_time, self._last = state
        return data[:kept]

    def _is_new(self, time: bytes) -> bool:
        """Whether the line that begins at a time lies behind `after`."""
        if self._after is None:
            return True
        return _following(self._last, self._last_time, time.decode("latin-1")) > self._after

    def _unfinished(self) -> Iterator[Batch]:
        """Shows how far a line has come, and keeps its beginning bounded."""
        time, _, content = self._partial.partition(b" ")
        end = UNFINISHED + b"\n" if is_unfinished(content) else b""
        content = content.removesuffix(end)
        # Where not all of it is known to have come, the state before the last return is whole.
        shown = content if end else content[: max(0, content.rfind(b"\r"))]
        state = clean(last_state(shown[-MAX_LINE_BYTES:].decode("utf-8", "replace")))
        if state and state != self._state and self._is_new(time):
            self._state = state
            line = Line(time.decode("latin-1"), state)
            # Not a line of its own: who reconnects gets the whole line again.
            anchor = anchor_of(self._anchor_lines)
            last = self._last if self._after is None else self._after
            yield Batch(encode([line]), 1, last, last, anchor, is_unfinished=True)
        if len(self._partial) >= _PROGRESS_BYTES and (at := content.rstrip(b"\r").rfind(b"\r") + 1):
            self._partial = time + b" " + content[at:] + end  # what is written over is not needed
        elif len(self._partial) > MAX_LINE_BYTES:
            self._cut_bytes = len(self._partial) - _KEPT_BYTES
            self._cut_end = _end_of(self._partial)
            self._partial = self._partial[:_KEPT_BYTES]


def _end_of(data: bytes) -> bytes:
    """The last bytes of its last line, as many as a mark has."""
    return data[data.rfind(b"\n") + 1 :][-len(UNFINISHED) :]


def _following(position: Position, time: str, following_time: str) -> Position:
    """The position of the line after one: lines of one time are numbered."""
    if following_time == time:
        return Position(position.time_ns, position.ordinal + 1)
    return Position(parse_time(following_time), 1)


def _time_of(row: str) -> str:
    return row.partition(" ")[0]


def _row_of(line: bytes) -> str:
    """The time of a line, where only its time matters."""
    return line.partition(b" ")[0].decode("latin-1").rstrip("\n")


def find_anchor(data: bytes, anchor: str) -> list[int]:
    """The places behind every run of lines in `data` that has this digest, in order."""
    count = int(anchor[0])
    starts = [0]
    at = 0
    while (at := data.find(b"\n", at) + 1) > 0:
        starts.append(at)
    lines = [data[a : b - 1] for a, b in pairwise(starts)]
    return [
        starts[end]
        for end in range(count, len(lines) + 1)
        if anchor_of(lines[end - count : end]) == anchor
    ]
