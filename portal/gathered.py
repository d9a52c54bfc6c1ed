"""Asks the database once for all who ask the same question within a moment, each about something else."""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from channels.db import database_sync_to_async

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass
class _Round(Generic[K, V]):
    """Those that are asked about together."""

    keys: dict[K, None] = field(default_factory=dict)
    answers: asyncio.Task[Mapping[K, V]] | None = None


class Gathered(Generic[K, V]):
    """A question that is asked about many things at once, in a thread.

    No answer is older than who waits for it: it is asked for after they came.
    """

    def __init__(self, ask: Callable[[Sequence[K]], Mapping[K, V]]) -> None:
        """`ask` answers for each of what it is given."""
        self._ask = ask
        self._rounds: dict[asyncio.AbstractEventLoop, _Round[K, V]] = {}

    async def __call__(self, key: K, within_s: float) -> V:
        """The answer for one, asked for with those that come within so many seconds after the first.

        Raises:
            Exception: whatever `ask` raised; who comes later asks anew.
        """
        loop = asyncio.get_running_loop()
        now = self._rounds.get(loop)
        if now is None or now.answers is None:
            now = self._rounds[loop] = _Round()
            # In a context of its own: what is noted there is nobody's.
            now.answers = loop.create_task(self._soon(loop, within_s), context=Context())
        now.keys[key] = None
        # Shielded: who came first may leave while others wait.
        return (await asyncio.shield(now.answers))[key]

    async def _soon(self, loop: asyncio.AbstractEventLoop, within_s: float) -> Mapping[K, V]:
        await asyncio.sleep(within_s)
        keys = list(self._rounds.pop(loop).keys)
        found: Mapping[K, V] = await database_sync_to_async(self._ask)(keys)
        return found
