"""What waits to be sent to one viewer: bounded, oldest lines dropped first and counted.

A viewer that reads slowly loses lines and is told how many; it never slows the others, and costs
no more memory than its queue. Batches are shared with all other viewers of the same tail.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import msgspec

from jobs.logs.cursor import Place, write
from jobs.logs.lines import Batch
from portal import eager, metrics

QUEUE_BYTES = 256 * 1024
ROOM_BYTES = 128 * 1024  # below it there is room for more
STUCK_S = 60.0


class StuckError(Exception):
    """Nothing could be sent for `STUCK_S`."""


@dataclass(slots=True)
class _Item:
    """Something to send: a batch of a replica, or (`batch` None) a ready frame."""

    replica: str
    batch: Batch | None = None
    place: Place | None = None
    text: str = ""


class Viewer:
    """The queue in front of one websocket. Used on the event loop only."""

    def __init__(
        self, send: Callable[[str], Coroutine[Any, Any, None]], places: dict[str, Place]
    ) -> None:
        """`send` waits while the connection takes no more; `places` is what was shown before."""
        self._send = send
        self._places = places
        self._items: deque[_Item] = deque()
        self._queued_bytes = 0
        self._skipped: dict[str, int] = {}
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._is_idle = False  # `run` waits for something to send
        self._begun: eager.Begun | None = None  # a frame that was sent at once, and has to wait
        self._is_closing = False
        self._is_stuck = False
        self._sending_since: float | None = None
        self._guard: asyncio.TimerHandle | None = None
        self.is_slow = False  # it lost lines, and has not caught up since
        self.on_room: set[Callable[[], None]] = set()

    @property
    def wants_pause(self) -> bool:
        """It keeps up, but has enough for the moment."""
        return self._queued_bytes > ROOM_BYTES and not self.is_slow

    async def room(self) -> None:
        """Waits until more may be put; for those who can wait."""
        while not self._room.is_set():  # others wait too, and the first of them may have taken it
            await self._room.wait()

    def put_batch(self, replica: str, batch: Batch, place: Place) -> None:
        """Sends lines at once if nothing waits, which spares a task's turn for each viewer of each batch.

        Else queues them, and drops the oldest queued ones when there are too many.
        """
        if self._is_idle and not self._items and not self._skipped:
            self._send_at_once(replica, batch, place)
            return
        was_full = self._queued_bytes > ROOM_BYTES
        self._items.append(_Item(replica, batch, place))
        self._queued_bytes += batch.size
        if self._queued_bytes > QUEUE_BYTES:
            self._drop_oldest()
        if self._queued_bytes > ROOM_BYTES:
            self._room.clear()
        elif was_full:
            self._tell_of_room()
        self._wake.set()

    def put(self, **fields: object) -> None:
        """Queues a frame that is never dropped: states, the end."""
        self._items.append(_Item("", text=msgspec.json.encode(fields).decode()))
        self._wake.set()

    def skip(self, replica: str, count: int) -> None:
        """Lines that were dropped before they came here."""
        if count:
            self._skipped[replica] = self._skipped.get(replica, 0) + count
            self._wake.set()

    def close(self) -> None:
        """Lets `run` end once everything is sent."""
        self._is_closing = True
        self._wake.set()

    def _send_at_once(self, replica: str, batch: Batch, place: Place) -> None:
        metrics.LOG_LINES.inc(batch.count)
        self._begun = eager.run(self._send(self._frame(replica, batch, place)))
        if self._begun is not None:
            self._is_idle = False
            self._wake.set()

    def _drop_oldest(self) -> None:
        self.is_slow = True
        kept: deque[_Item] = deque()
        while self._queued_bytes > QUEUE_BYTES and len(self._items) > 1:
            item = self._items.popleft()
            if item.batch is None:
                kept.append(item)
                continue
            self._queued_bytes -= item.batch.size
            self.skip(item.replica, item.batch.stands_for)
        self._items.extendleft(reversed(kept))

    async def run(self) -> None:
        """Sends until `close`.

        Raises:
            StuckError: the other side has not read for `STUCK_S`.
            Exception: whatever sending raised.
        """
        try:
            while await self._has_more():
                if self._begun is not None:
                    rest, self._begun = self._begun, None
                    await self._guarded(rest.finish())
                else:
                    await self._guarded(self._send(self._next()))
        finally:
            self._is_idle = False
            if self._begun is not None:
                self._begun.close()

    async def _has_more(self) -> bool:
        """Waits for something to send; whether there is, or all has been sent and no more will come."""
        while not self._items and not self._skipped and self._begun is None:
            self.is_slow = False
            if self._is_closing:
                return False
            self._wake.clear()
            self._is_idle = True
            await self._wake.wait()
            self._is_idle = False
        return True

    async def _guarded(self, sending: Coroutine[Any, Any, None]) -> None:
        # Cheaper than a time-out of its own for each of many thousand frames.
        loop = asyncio.get_running_loop()
        self._sending_since = loop.time()
        if self._guard is None:
            task = asyncio.current_task()
            assert task is not None  # this is a coroutine
            self._guard = loop.call_later(STUCK_S / 6, self._look_whether_stuck, task)
        try:
            await sending
        except asyncio.CancelledError:
            if self._is_stuck:
                raise StuckError(f"nothing could be sent for {STUCK_S:.0f} s") from None
            raise
        finally:
            self._sending_since = None

    def _look_whether_stuck(self, task: asyncio.Task[Any]) -> None:
        self._guard = None
        if self._sending_since is None:
            return  # looked again when there is something to send
        loop = asyncio.get_running_loop()
        if loop.time() - self._sending_since >= STUCK_S:
            self._is_stuck = True
            task.cancel()
        else:
            self._guard = loop.call_later(STUCK_S / 6, self._look_whether_stuck, task)

    def _next(self) -> str:
        if self._skipped:
            replica, count = self._skipped.popitem()
            metrics.LOG_LINES_SKIPPED.inc(count)
            return f'{{"type":"skipped","replica":"{replica}","count":{count}}}'
        item = self._items.popleft()
        if item.batch is None or item.place is None:
            return item.text
        was_full = self._queued_bytes > ROOM_BYTES
        self._queued_bytes -= item.batch.size
        metrics.LOG_LINES.inc(item.batch.count)
        if was_full and self._queued_bytes <= ROOM_BYTES:
            self._tell_of_room()
        return self._frame(item.replica, item.batch, item.place)

    def _tell_of_room(self) -> None:
        self._room.set()
        for listener in tuple(self.on_room):
            listener()

    def _frame(self, replica: str, batch: Batch, place: Place) -> str:
        if batch.is_unfinished:  # nobody goes on behind it
            return f'{{"type":"unfinished","replica":"{replica}","lines":{batch.encoded}}}'
        self._places[replica] = place
        is_shared = len(self._places) == 1  # the same for everybody who watches just this replica
        if is_shared and batch.frame[0] == replica and batch.frame[1] == place:
            return batch.frame[2]
        cursor = write(self._places)
        text = (
            f'{{"type":"lines","replica":"{replica}","cursor":"{cursor}","lines":{batch.encoded}}}'
        )
        if is_shared:
            batch.frame = (replica, place, text)
        return text
