"""A token bucket: lets bursts through and holds the average of writes to the API server down."""

import asyncio
import time
from collections.abc import Callable


class TokenBucket:
    """`burst` calls at once, then `rate_per_s`; callers wait their turn in order of arrival."""

    def __init__(
        self, rate_per_s: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate_per_s = rate_per_s
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._filled_at = clock()

    def reserve(self) -> float:
        """Takes one token, on credit when there is none; seconds to wait before using it."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate_per_s)
        self._filled_at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate_per_s)

    async def take(self) -> None:
        wait_s = self.reserve()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
