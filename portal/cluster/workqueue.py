"""Which keys a controller has to look at, when, and which it leaves alone for a while after a failure.

As the work queue of Kubernetes' own controllers (`util/workqueue` of client-go): a key that is added
many times is given out once; until it is `done` it is in flight and given out to nobody else, and
when it is added meanwhile, it is given out again afterwards. A key may also be added for later; what
gives it out earlier forgets that, for the look says anew when the next one is due.

Unlike there, a key that backs off is not given out before its time, however often it is added: what
changes in the cluster all the time must not turn one failure into a storm. `retry_now` ends the wait.

No I/O, no tasks, no timers: whoever owns a queue asks `next_s` how long to wait. Nothing here awaits,
so coroutines of one event loop may share a queue.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from portal.backoff import Backoff

K = TypeVar("K", bound=Hashable)


@dataclass
class _Wait:
    """Times are the clock's seconds.

    Attributes:
        count: how often the key backed off since it was forgotten last.
        at: when it did so last.
        until: until when it is left alone.
    """

    backoff: Backoff
    count: int = 0
    at: float = 0.0
    until: float = 0.0


class RateLimiter(Generic[K]):
    """How long each key is left alone: twice as long each time, up to a limit, with jitter."""

    def __init__(self, clock: Callable[[], float], first_s: float, most_s: float) -> None:
        """Arguments: `clock` gives seconds, see `Backoff` for the others."""
        self._clock = clock
        self._between_s = (first_s, most_s)
        self._waits: dict[K, _Wait] = {}

    def back_off(self, key: K, *, least_s: float = 0.0) -> None:
        """Leaves a key alone, at least so many seconds."""
        now = self._clock()
        wait = self._waits.setdefault(key, _Wait(Backoff(*self._between_s)))
        wait.count += 1
        wait.at = now
        wait.until = now + max(least_s, wait.backoff.next_s())

    def postpone(self, key: K, seconds: float) -> None:
        """Leaves a key that backs off alone for at least so long from now on."""
        if (wait := self._waits.get(key)) is not None:
            wait.until = max(wait.until, self._clock() + seconds)

    def end_wait(self, key: K) -> None:
        """The key may be tried now; if it fails again, its next wait is longer all the same."""
        if (wait := self._waits.get(key)) is not None:
            wait.until = self._clock()

    def forget(self, key: K) -> None:
        """The key has succeeded, or is gone: its next wait is the shortest again."""
        self._waits.pop(key, None)

    def forget_after(self, key: K, calm_s: float) -> None:
        """The same, if it has not backed off for so long."""
        wait = self._waits.get(key)
        if wait is not None and self._clock() - wait.at > calm_s:
            self.forget(key)

    def until(self, key: K) -> float:
        """When its wait ends or ended, by the clock; -inf for a key that does not back off."""
        wait = self._waits.get(key)
        return float("-inf") if wait is None else wait.until

    def count(self, key: K) -> int:
        """How often it backed off since it was forgotten last."""
        wait = self._waits.get(key)
        return 0 if wait is None else wait.count

    def is_backing_off(self, key: K) -> bool:
        return self.until(key) > self._clock()

    def backing_off(self) -> list[K]:
        """The keys that are left alone now."""
        now = self._clock()
        return [key for key, wait in self._waits.items() if wait.until > now]


class WorkQueue(Generic[K]):
    """The keys of one controller. See the module."""

    def __init__(self, clock: Callable[[], float], first_s: float, most_s: float) -> None:
        """Arguments: as of `RateLimiter`."""
        self._clock = clock
        self._limiter = RateLimiter[K](clock, first_s, most_s)
        self._pending: dict[K, None] = {}  # in the order in which they are given out
        self._due: dict[K, float] = {}
        self._in_flight: set[K] = set()

    # --- adding ---
    def add(self, *keys: K) -> None:
        """These are to be looked at. What was added first is given out first, so nobody starves."""
        self._pending.update(dict.fromkeys(keys))

    def add_at(self, key: K, at: float) -> None:
        """Adds a key when the clock says so; of several times the earliest counts."""
        self._due[key] = min(at, self._due.get(key, at))

    def add_after(self, key: K, seconds: float) -> None:
        """Adds a key in so many seconds."""
        self.add_at(key, self._clock() + seconds)

    def add_rate_limited(self, key: K, *, least_s: float = 0.0) -> None:
        """Adds a key that failed: it is given out when its back-off is over, at least so long."""
        self._limiter.back_off(key, least_s=least_s)
        self.add(key)

    def forget(self, key: K) -> None:
        """The key has succeeded: it backs off no more, and the next time shortly."""
        self._limiter.forget(key)

    def retry_now(self, keys: Iterable[K] | None = None) -> None:
        """Adds keys (None: all that back off) and ends their waits."""
        for key in self._limiter.backing_off() if keys is None else keys:
            self._limiter.end_wait(key)
            self.add(key)

    def remove(self, key: K) -> None:
        """There is no such thing any more. A key in flight still is to be `done`."""
        self._pending.pop(key, None)
        self._due.pop(key, None)
        self._limiter.forget(key)

    # --- giving out ---
    def get(self, most: int | None = None) -> list[K]:
        """Keys to look at now (None: all); they are in flight until they are `done`."""
        now = self._clock()
        arrived = [key for key, at in self._due.items() if at <= now]
        self.add(*sorted(arrived, key=self._due.__getitem__))
        for key in arrived:
            del self._due[key]
        free = (
            key
            for key in self._pending
            if key not in self._in_flight and self._limiter.until(key) <= now
        )
        chosen = list(islice(free, most))
        for key in chosen:
            del self._pending[key]
            self._due.pop(key, None)
        self._in_flight.update(chosen)
        return chosen

    def done(self, key: K) -> None:
        """A key is not in flight any more."""
        self._in_flight.discard(key)

    def next_s(self) -> float | None:
        """Seconds until `get` has something; None: never, unless a key is added or done."""
        now = self._clock()
        times = dict.fromkeys(self._pending, now)
        for key, at in self._due.items():
            times.setdefault(key, at)
        waits = (
            max(at, self._limiter.until(key)) - now
            for key, at in times.items()
            if key not in self._in_flight
        )
        return max(0.0, earliest) if (earliest := min(waits, default=None)) is not None else None

    # --- what is known ---
    def failures(self, key: K) -> int:
        """How often it was added as failed since it was forgotten last."""
        return self._limiter.count(key)

    def pending(self) -> list[K]:
        """The keys that were added and not given out since, in order."""
        return list(self._pending)

    def is_backing_off(self, key: K) -> bool:
        return self._limiter.is_backing_off(key)

    def backing_off(self) -> list[K]:
        """The keys that are left alone now."""
        return self._limiter.backing_off()

    def in_flight(self) -> frozenset[K]:
        """The keys that are given out and not done."""
        return frozenset(self._in_flight)
