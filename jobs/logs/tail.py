"""Follows one container of one pod, for all who watch it in this process.

Batches go to every watcher as they come; the newest megabyte stays for those who join later. The
follow is opened again when it is cut, falls silent or ends although the container runs, from the
second of the last line on, and lines that were seen are left out: time and number among lines of
the same time tell them apart. The kubelet gives times with `timestamps=true`:
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

from jobs.logs.cursor import Position
from jobs.logs.lines import Batch, LineReader
from jobs.logs.newest import newest_of
from portal.cluster.errors import ClusterError, Forbidden, Invalid, NotFound

log = logging.getLogger(__name__)

RING_BYTES = 1024**2
FIRST_LINES = 1000  # of a log that nobody has seen yet, the newest are shown (an open one counts)
FLUSH_S = 0.05  # after a batch, the next one waits so long for more
FLUSH_BYTES = 64 * 1024  # ... or until so much has come
SILENCE_S = 60.0  # a follow is opened again: a dead one cannot be told from a silent program
PACE_S = 0.05  # longest wait for viewers that keep up
LATE_S = 2.0  # nobody is waited for when lines come that much later than they came before
RETRY_FIRST_S = 0.2
RETRY_MOST_S = 5.0
PRIMED_S = 1.0  # a log that gave nothing for so long after it was opened is empty

_TROUBLE = "the log of %s cannot be read: %s"

Outcome = Literal["over", "gone"]


class Source(Protocol):
    """Where logs come from: `portal.cluster`'s `LogReader.logs` and `Cluster.get`."""

    def logs(  # noqa: PLR0913 (the parameters of the API's own call)
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        follow: bool,
        tail_lines: int | None = None,
        since_time: str | None = None,
        previous: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...

    async def get(self, kind: str, namespace: str | None, name: str) -> dict[str, Any]: ...


class Watcher(Protocol):
    """Who gets the batches. Both are called on the event loop and must not block."""

    def batch_came(self, batch: Batch) -> None: ...

    def tail_ended(self, outcome: Outcome) -> None: ...

    @property
    def wants_pause(self) -> bool:
        """Whether it keeps up, but has as much in its queue as it likes at the moment."""
        ...

    def give_up_pause(self) -> None:
        """It did not keep up: from now on it loses lines instead of slowing the others."""
        ...


class Key(NamedTuple):
    """What is followed."""

    namespace: str
    pod: str
    container: str


def since(position: Position) -> str:
    """The whole second of a position as RFC 3339; the API has no finer grain."""
    return datetime.fromtimestamp(position.time_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Tail:
    """One follow, its ring and its watchers. `run` is the task that does the work."""

    def __init__(self, source: Source, key: Key, start: Position | None) -> None:
        """Follows from behind `start`; from the newest `FIRST_LINES` when there is none."""
        self._source = source
        self._key = key
        self._start = start
        self._watchers: set[Watcher] = set()
        self._ring: deque[Batch] = deque()
        self._ring_bytes = 0
        self._reader = LineReader(start)
        self._last = start
        self._flushed_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._least_age_s = float("inf")
        self._previous = ""  # the container before that of which all has been read
        self._drained = asyncio.Event()
        self._primed = asyncio.Event()
        self.is_cut = False  # there were lines before the first one that it asked for
        self.outcome: Outcome | None = None

    # --- watchers ---
    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    def add(self, watcher: Watcher) -> None:
        self._watchers.add(watcher)

    def remove(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)
        self._drained.set()

    def drained(self) -> None:
        """A watcher has room again."""
        self._drained.set()

    async def primed(self) -> None:
        """Waits until the ring holds what was there at the beginning."""
        await self._primed.wait()

    def ring(self) -> tuple[Batch, ...]:
        """The newest batches, oldest first."""
        return tuple(self._ring)

    @property
    def start(self) -> Position | None:
        """Nothing that belongs between this and the ring is missing; None: unknown."""
        return self._start

    # --- the work ---
    async def run(self, before: Sequence[asyncio.Task[None]] = ()) -> None:
        """Follows until the container has ended or the pod is gone.

        Args:
            before: tails of the same container that end: their follows have to be closed first.
        """
        outcome: Outcome = "gone"
        try:
            if before:
                await asyncio.wait(before)
            outcome = await self._follow_all()
        finally:
            self._cancel_timer()
            self.outcome = outcome
            self._primed.set()
            for watcher in tuple(self._watchers):
                watcher.tail_ended(outcome)

    async def _follow_all(self) -> Outcome:
        pause_s = RETRY_FIRST_S
        was_warned = was_cut = False
        while True:
            before = self._last
            try:
                if was_cut:
                    await self._read_previous()
                was_cut = await self._follow_once()
                # Once more for what came between the end of the follow and that of the container.
                if await self._has_ended() and await self._follow_once(follow=False):
                    self._end_line()
                    return "over"
            except NotFound:
                return "gone"
            except Invalid:
                # The container has not started; when its init container failed it never will.
                if await self._never_starts():
                    return "over"
                pause_s = RETRY_FIRST_S
            except ClusterError as error:
                # What our account may not do, an admin has to mend: the health page tells warnings.
                is_grave = isinstance(error, Forbidden) and not was_warned
                log.log(
                    logging.WARNING if is_grave else logging.INFO, _TROUBLE, self._key.pod, error
                )
                was_warned = was_warned or is_grave
                was_cut = True
            pause_s = RETRY_FIRST_S if self._last != before else min(pause_s * 2, RETRY_MOST_S)
            await asyncio.sleep(pause_s)

    async def _has_ended(self) -> bool:
        pod = await self._source.get("Pod", self._key.namespace, self._key.pod)
        status = pod.get("status") or {}
        if status.get("phase") in {"Succeeded", "Failed"}:
            return True
        for row in status.get("containerStatuses") or []:
            if row.get("name") == self._key.container:
                is_terminated = bool((row.get("state") or {}).get("terminated"))
                # Others are started again in the same pod, and their log goes on.
                return is_terminated and pod["spec"].get("restartPolicy") == "Never"
        return False

    async def _read_previous(self) -> None:
        """Reads what a container printed after it was cut off from us, where another has begun since."""
        if not self._ring:  # nothing of it has come
            return
        pod = await self._source.get("Pod", self._key.namespace, self._key.pod)
        rows = (pod.get("status") or {}).get("containerStatuses") or []
        row: dict[str, Any] = next(
            (one for one in rows if one.get("name") == self._key.container), {}
        )
        ended = (row.get("lastState") or {}).get("terminated")
        if not ended or self._previous == (which := str(ended)):
            return
        try:
            await self._follow_once(follow=False, previous=True)
            self._end_line()
        except (NotFound, Invalid):
            pass  # its node has removed it
        self._previous = which

    async def _never_starts(self) -> bool:
        try:
            return await self._has_ended()
        except NotFound:
            return True
        except ClusterError:
            return False

    async def _follow_once(self, *, follow: bool = True, previous: bool = False) -> bool:
        """One connection, until it is cut (an error), or ends (True), or falls silent (False)."""
        last = self._last
        self._reader = LineReader(last)
        try:
            newest = FIRST_LINES if last is None else None
            if newest and not previous:
                async with asyncio.timeout(SILENCE_S):
                    found = await newest_of(partial(self._source.logs, *self._key), newest)
                self.is_cut = found.is_cut
                # Of a short log all is asked for: no line is lost that came since it was counted.
                newest = found.pieces if found.is_cut else None
        except TimeoutError:
            return False
        async with self._source.logs(
            *self._key,
            follow=follow,
            previous=previous,
            tail_lines=newest,
            since_time=None if last is None else since(last),
        ) as chunks:
            prime = asyncio.get_running_loop().call_later(PRIMED_S, self._primed.set)
            try:
                await self._read(chunks)
                return True
            except TimeoutError:
                return False
            finally:
                prime.cancel()
                self._flush()

    async def _read(self, chunks: AsyncIterator[bytes]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            async with asyncio.timeout(SILENCE_S):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            self._reader.feed(chunk)
            now = loop.time()
            if self._reader.pending_bytes >= FLUSH_BYTES:
                await self._flush_paced()
            elif now >= self._flushed_at + FLUSH_S:
                self._flush()
            elif self._timer is None:
                self._timer = loop.call_at(self._flushed_at + FLUSH_S, self._flush)

    async def _pace(self) -> None:
        """Waits a moment for watchers that keep up, so that they lose nothing in a flood."""
        waiting = [watcher for watcher in self._watchers if watcher.wants_pause]
        if self._is_late():
            for watcher in waiting:
                watcher.give_up_pause()
            return
        if not waiting:
            return
        try:
            async with asyncio.timeout(PACE_S):
                while any(watcher.wants_pause for watcher in waiting):
                    self._drained.clear()
                    await self._drained.wait()
        except TimeoutError:
            for watcher in waiting:
                if watcher.wants_pause:
                    watcher.give_up_pause()

    async def _flush_paced(self) -> None:
        """Publishes a flood batch by batch, with a turn for those who send after each."""
        self._cancel_timer()
        for batch in self._reader.take():
            self._publish(batch)
            # Buffered chunks come without a pause of their own.
            await asyncio.sleep(0)
            await self._pace()
        self._flushed_at = asyncio.get_running_loop().time()

    def _is_late(self) -> bool:
        """Whether we fall behind the program: the kubelet throws away what is not read in time.

        The age of lines alone says nothing: clocks differ, and old logs are read, too.
        """
        if self._last is None:
            return False
        age_s = time.time() - self._last.time_ns / 10**9
        self._least_age_s = min(self._least_age_s, age_s)
        return age_s > self._least_age_s + LATE_S

    def _flush(self) -> None:
        self._cancel_timer()
        self._flushed_at = asyncio.get_running_loop().time()
        for batch in self._reader.take():
            self._publish(batch)

    def _end_line(self) -> None:
        for batch in self._reader.finish():
            self._publish(batch)

    def _publish(self, batch: Batch) -> None:
        if not batch.is_unfinished:
            self._last = batch.last
        if self._ring and self._ring[-1].is_unfinished:  # what follows stands in its place
            self._ring_bytes -= self._ring.pop().size
        self._ring.append(batch)
        self._ring_bytes += batch.size
        while self._ring_bytes > RING_BYTES and len(self._ring) > 1:
            dropped = self._ring.popleft()
            self._ring_bytes -= dropped.size
            self._start = dropped.last
        for watcher in tuple(self._watchers):
            watcher.batch_came(batch)
        self._primed.set()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
