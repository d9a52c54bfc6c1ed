"""Shares tails: whoever watches a pod in this process watches the same follow.

A tail lives as long as somebody watches it, and a little longer: who reloads a page finds it warm.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import partial

from django.conf import settings

from jobs.logs.cursor import Position
from jobs.logs.lines import BATCH_BYTES, Batch, LineReader
from jobs.logs.newest import Newest, newest_of
from jobs.logs.tail import FIRST_LINES, Key, Source, Tail, Watcher, since
from portal import metrics, supervise
from portal.cluster import credentials
from portal.cluster.client import Cluster
from portal.cluster.credentials import Credentials
from portal.cluster.logs import LogReader

log = logging.getLogger(__name__)

LINGER_S = 5.0  # a tail that nobody watches any more


class Hub:
    """The tails of one process; belongs to one event loop."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._tails: dict[Key, Tail] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        # With those that end while another begins.
        self._all: dict[asyncio.Task[None], Key] = {}

    @property
    def tail_count(self) -> int:
        """How many follows are open."""
        return len(self._all)

    def join(self, key: Key, watcher: Watcher, after: Position | None) -> Tail:
        """The tail of a container, with the watcher among its watchers from now on.

        Args:
            key: what is followed.
            watcher: gets what comes from now on; the ring is its own to read.
            after: the last line that it has seen, if any.
        """
        tail = self._tails.get(key)
        if tail is None or tail.outcome is not None:
            tail = Tail(self.source, key, after)
            self._tails[key] = tail
            ending = [task for task, other in self._all.items() if other == key]
            task = asyncio.create_task(tail.run(ending), name=f"tail {key.pod}")
            self._tasks[key] = task
            self._all[task] = key
            metrics.LOG_TAILS.inc()
            task.add_done_callback(lambda done: self._ended(key, done))
        tail.add(watcher)
        return tail

    def leave(self, key: Key, tail: Tail, watcher: Watcher) -> None:
        """The watcher wants no more; the last one to leave ends the follow."""
        tail.remove(watcher)
        if not tail.is_watched:
            asyncio.get_running_loop().call_later(LINGER_S, self._end_unwatched, key, tail)

    def _end_unwatched(self, key: Key, tail: Tail) -> None:
        task = self._tasks.get(key)
        if task is not None and self._tails.get(key) is tail and not tail.is_watched:
            del self._tails[key]
            task.cancel()

    def _ended(self, key: Key, task: asyncio.Task[None]) -> None:
        self._all.pop(task, None)
        metrics.LOG_TAILS.dec()
        if self._tasks.get(key) is task:
            del self._tasks[key]
            self._tails.pop(key, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("the tail of %s died", key.pod, exc_info=task.exception())

    async def newest(self, key: Key) -> Newest:
        """What has to be asked for to get the newest `FIRST_LINES`.

        Raises:
            portal.cluster.errors.ClusterError: it cannot be read.
        """
        return await newest_of(partial(self.source.logs, *key), FIRST_LINES)

    async def history(
        self, key: Key, after: Position | None, before: Position, newest: Newest | None = None
    ) -> AsyncIterator[Batch]:
        """What lies between two lines, for who joins a tail that began later.

        Args:
            key: what is followed.
            after: begin behind this line; None: with the newest `FIRST_LINES`.
            before: end in front of this line.
            newest: which these are, where that is known already.

        Raises:
            portal.cluster.errors.ClusterError: it cannot be read.
        """
        reader = LineReader(after, before)
        if after is None and newest is None:
            newest = await self.newest(key)
        async with self.source.logs(
            *key,
            follow=False,
            tail_lines=newest.pieces if newest is not None and after is None else None,
            since_time=None if after is None else since(after),
        ) as chunks:
            async for chunk in chunks:
                reader.feed(chunk)
                if reader.pending_bytes >= BATCH_BYTES:
                    for batch in reader.take():
                        yield batch
                if reader.is_over:
                    return
            for batch in reader.take():
                yield batch

    async def close(self) -> None:
        """Ends every tail."""
        await supervise.end(self._all)


# Of each event loop, the hub or the task that makes it: many viewers may come at once.
_hubs: dict[asyncio.AbstractEventLoop, asyncio.Future[Hub]] = {}


async def get_hub() -> Hub:
    """The hub of this process's event loop; connects to the cluster at its first use.

    Raises:
        portal.cluster.errors.CredentialsError: there is no cluster to connect to.
    """
    loop = asyncio.get_running_loop()
    made = _hubs.get(loop)
    if made is None or (made.done() and made.exception() is not None):
        made = _hubs[loop] = asyncio.ensure_future(_connect())
    # Shielded: the viewer that came first may leave while others wait for the same.
    return await asyncio.shield(made)


class ClusterSource(LogReader):
    """The cluster of the settings."""

    def __init__(self, account: Credentials) -> None:
        super().__init__(account)
        self.get = Cluster(account).get


async def _connect() -> Hub:
    kubeconfig = settings.WEB_KUBECONFIG or settings.KUBECONFIG
    return Hub(ClusterSource(await asyncio.to_thread(credentials.load, kubeconfig)))


def set_hub(hub: Hub | None) -> None:
    """Another source for this event loop (None: the cluster again)."""
    loop = asyncio.get_running_loop()
    _hubs.pop(loop, None)
    if hub is not None:
        _hubs[loop] = loop.create_future()
        _hubs[loop].set_result(hub)
