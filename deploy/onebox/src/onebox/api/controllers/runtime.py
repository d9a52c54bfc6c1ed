"""Runs the controllers: work queues fed by the Api's changes, drained by one asyncio loop.

A controller names the kinds that wake it, turns each change into keys, and syncs one key at a
time from what is in the store. Keys are de-duplicated; a key whose sync fails comes back with
exponential back-off, one that met a conflict at once. Nothing is polled: when no key is ready,
the only thing that waits is one timer for the next key that asked to be called again.

`Api` calls are synchronous, so one sync is never interleaved with another or with a request.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from onebox.api.controllers.objects import Key
from onebox.api.resources import Obj
from onebox.api.status import StatusError

if TYPE_CHECKING:
    from onebox.api.registry import Api

log = logging.getLogger(__name__)

FIRST_RETRY_S = 0.2
LONGEST_RETRY_S = 60.0
CONFLICTS_AT_ONCE = 5  # a key that conflicts more often in a row is treated as failing
SLICE_S = 0.01  # a drain gives the loop back to requests after this long


class RetryLaterError(Exception):
    """An expected failure, already reported where users look: try again, do not log a trace."""


class Controller(ABC):
    """One control loop.

    `sync` must be level-triggered and idempotent: it looks at the store, does what is missing,
    and may be killed between any two writes.
    """

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]

    def __init__(self, api: Api) -> None:
        self.api = api

    def first_keys(self) -> Iterable[Key]:
        """Keys to sync at start besides those of the existing objects."""
        return ()

    @abstractmethod
    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """The keys that a change wakes. Must be cheap and must not write."""

    @abstractmethod
    def sync(self, key: Key) -> float | None:
        """Bring one key in order.

        Returns:
            seconds until it wants to be called again without a change, or None.

        Raises:
            RetryLaterError, StatusError: called again with back-off (a conflict: at once).
        """


Item = tuple[int, Key]


class Runtime:
    """The queue of all controllers, and what drains it."""

    def __init__(
        self,
        api: Api,
        controllers: Sequence[Controller],
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._controllers = list(controllers)
        self._monotonic_s = monotonic_s
        self._ready: deque[Item] = deque()
        self._queued: set[Item] = set()
        self._due: dict[Item, float] = {}
        self._heap: list[tuple[float, Item]] = []
        self._failures: dict[Item, int] = {}
        self._by_kind: dict[str, list[int]] = {}
        for number, controller in enumerate(self._controllers):
            for kind in controller.kinds:
                self._by_kind.setdefault(kind, []).append(number)
        self._unsubscribe: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._drain_handle: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Watch the Api, enqueue everything that exists, and drain in `loop` (None: by hand)."""
        self._loop = loop
        self._unsubscribe = self._api.subscribe(self._on_change)
        for plural in self._by_kind:
            for obj in self._api.list(plural):
                self._on_change("ADDED", plural, obj)
        for number, controller in enumerate(self._controllers):
            for key in controller.first_keys():
                self._enqueue((number, key))

    def stop(self) -> None:
        """Stop at once; what was queued is found again by the next start."""
        if self._unsubscribe:
            self._unsubscribe()
        for handle in (self._drain_handle, self._timer):
            if handle:
                handle.cancel()
        self._unsubscribe = self._drain_handle = self._timer = self._loop = None
        self._ready.clear()
        self._queued.clear()
        self._due.clear()
        self._heap.clear()

    def run_until_idle(self, *, most_syncs: int = 100_000) -> int:
        """Drain everything that is ready or due now, without a loop; returns the syncs made.

        Raises:
            RuntimeError: the controllers keep waking each other.
        """
        done = 0
        while self._promote_due() or self._ready:
            self._sync_one()
            done += 1
            if done > most_syncs:
                raise RuntimeError(f"controllers are still busy after {most_syncs} syncs")
        return done

    def next_due_s(self) -> float | None:
        """Seconds until the next key wants to be called again; None if none does."""
        self._forget_stale_timers()
        return max(0.0, self._heap[0][0] - self._monotonic_s()) if self._heap else None

    def _on_change(self, event: str, plural: str, obj: Obj) -> None:
        for number in self._by_kind.get(plural, ()):
            try:
                for key in self._controllers[number].keys(event, plural, obj):
                    self._enqueue((number, key))
            except Exception:
                # Fence: one controller's fault must not blind the others.
                log.exception("%s cannot read a %s", self._controllers[number].name, plural)

    def _enqueue(self, item: Item) -> None:
        if item in self._queued:
            return
        self._queued.add(item)
        self._ready.append(item)
        self._wake()

    def _enqueue_after(self, item: Item, delay_s: float) -> None:
        due = self._monotonic_s() + max(0.0, delay_s)
        self._due[item] = due
        heapq.heappush(self._heap, (due, item))

    def _promote_due(self) -> bool:
        now = self._monotonic_s()
        self._forget_stale_timers()
        promoted = False
        while self._heap and self._heap[0][0] <= now:
            _, item = heapq.heappop(self._heap)
            del self._due[item]
            if item not in self._queued:
                self._queued.add(item)
                self._ready.append(item)
            promoted = True
            self._forget_stale_timers()
        return promoted

    def _forget_stale_timers(self) -> None:
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)

    def _sync_one(self) -> None:
        item = self._ready.popleft()
        self._queued.discard(item)
        # This sync sees everything, so an older wish to be called again is void.
        self._due.pop(item, None)
        number, key = item
        controller = self._controllers[number]
        try:
            again_in_s = controller.sync(key)
        except RetryLaterError as error:
            log.debug("%s %s: %s", controller.name, "/".join(key), error)
            self._retry(item)
        except StatusError as error:
            self._retry_refused(item, error)
        except Exception:
            # Fence: a key that fails comes back later and does not stop the other keys.
            log.exception("%s failed on %s", controller.name, "/".join(key))
            self._retry(item)
        else:
            self._failures.pop(item, None)
            if again_in_s is not None:
                self._enqueue_after(item, again_in_s)

    def _retry_refused(self, item: Item, error: StatusError) -> None:
        count = self._failures.get(item, 0)
        if error.reason == "Conflict" and count < CONFLICTS_AT_ONCE:
            self._failures[item] = count + 1
            self._enqueue(item)
            return
        log.warning("%s %s: %s", self._controllers[item[0]].name, "/".join(item[1]), error)
        self._retry(item)

    def _retry(self, item: Item) -> None:
        count = self._failures[item] = self._failures.get(item, 0) + 1
        self._enqueue_after(item, min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(count - 1, 16)))

    def _wake(self) -> None:
        if self._loop is not None and self._drain_handle is None:
            self._drain_handle = self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._drain_handle = None
        loop = self._loop
        if loop is None:
            return
        self._promote_due()
        until = time.monotonic() + SLICE_S
        while self._ready and time.monotonic() < until:
            self._sync_one()
        if self._ready:
            self._wake()
        self._arm_timer(loop)

    def _arm_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        delay_s = self.next_due_s()
        if delay_s is not None:
            self._timer = loop.call_later(delay_s, self._wake)
