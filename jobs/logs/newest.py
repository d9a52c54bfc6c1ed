"""Finds how many of a kubelet's lines the newest lines of a program are.

A line that is open for long stands there in pieces, one for each second, and `tailLines` counts them all.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime

from jobs.pod.protocol.notices import UNFINISHED

# `tail.Source.logs` of one container.
Logs = Callable[..., AbstractAsyncContextManager[AsyncIterator[bytes]]]

_MORE = (
    10  # times as many pieces are asked for as before, where there were too few lines among them
)
_MOST_PIECES = 2_000_000  # of an open line of three weeks


@dataclass(frozen=True)
class Newest:
    """The newest lines of a log; one that is still open counts.

    Attributes:
        pieces: what `tailLines` has to be for them; as many as lines where none is in pieces.
        lines: how many there are, at most one more than were asked for.
        is_cut: there are lines before them.
    """

    pieces: int
    lines: int
    is_cut: bool


async def newest_of(logs: Logs, lines: int, since: datetime | None = None) -> Newest:
    """What a kubelet has to be asked for to get the newest `lines`.

    Raises:
        portal.cluster.errors.ClusterError: the log cannot be read.
    """
    asked = lines + 1  # a piece before the first line would say that it begins earlier
    while lines > 0:
        count = _Count(lines)
        async with logs(follow=False, tail_lines=asked, since_time=rfc3339(since)) as chunks:
            async for chunk in chunks:
                count.feed(chunk)
        if not count.has_pieces:
            return Newest(lines, count.lines, count.has_enough)
        is_whole = count.pieces < asked
        if count.has_enough or is_whole or asked >= _MOST_PIECES:
            return Newest(count.pieces_of_newest, count.lines, count.has_enough or not is_whole)
        asked *= _MORE
    return Newest(lines, 0, is_cut=False)


def rfc3339(at: datetime | None) -> str | None:
    """The API's form of a time in UTC; it has no finer grain than a second."""
    return None if at is None else at.isoformat(timespec="seconds").replace("+00:00", "Z")


class _Count:
    """Counts lines and their pieces in what comes; keeps a number for each of the newest lines."""

    def __init__(self, lines: int) -> None:
        self.pieces = 0
        self.has_pieces = False
        self._lines = 0
        self._wanted = lines
        self._newest: deque[int] = deque(maxlen=lines)  # pieces of each line that has ended
        self._open = 0  # pieces of the line that has not
        self._rest = b""  # the end of a piece of which not all has come

    def feed(self, chunk: bytes) -> None:
        *rows, rest = (self._rest + chunk).split(b"\n")
        for row in rows:
            self.pieces += 1
            self._open += 1
            if row.endswith(UNFINISHED):
                self.has_pieces = True
                continue
            self._newest.append(self._open)
            self._lines += 1
            self._open = 0
        self._rest = rest[-len(UNFINISHED) :]

    @property
    def has_enough(self) -> bool:
        """Whether there are more lines than wanted: of the first one the beginning may be missing."""
        return self.lines > self._wanted

    @property
    def lines(self) -> int:
        return self._lines + bool(self._open)

    @property
    def pieces_of_newest(self) -> int:
        ended = list(self._newest)
        if self._open and len(ended) == self._wanted:
            del ended[0]
        return sum(ended) + self._open
