"""Finds how many of a kubelet's lines the newest lines of a program are.

A line that is open for long stands there in pieces, one for each second, and `tailLines` counts them all.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime

from jobs.pod.protocol.notices import UNFINISHED

# `tail.Source.logs` of one container.
Logs = Callable[..., AbstractAsyncContextManager[AsyncIterator[bytes]]]

_MORE = (
    10  # times as many pieces are asked for as before, where there were too few lines among them
)
_MOST_PIECES = 2_000_000  # of an open line of three weeks


async def pieces_of(logs: Logs, lines: int, since: datetime | None = None) -> int:
    """What `tailLines` has to be for the newest `lines`; one that is still open counts.

    Where no line is in pieces that is `lines`.

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
            break
        if count.has_enough or count.pieces < asked or asked >= _MOST_PIECES:
            return count.pieces_of_newest
        asked *= _MORE
    return lines


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
        return self._lines + bool(self._open) > self._wanted

    @property
    def pieces_of_newest(self) -> int:
        ended = list(self._newest)
        if self._open and len(ended) == self._wanted:
            del ended[0]
        return sum(ended) + self._open
