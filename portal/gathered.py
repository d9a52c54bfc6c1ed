"""Asks the database once for all who ask the same question within a moment, each about something else."""

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import Context
from typing import Generic, TypeVar

from channels.db import database_sync_to_async

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


MOST_AT_ONCE = 32  # a thread that is asked for longer would keep others waiting for it


class Gathered(Generic[K, V]):
    """A question that is asked about many things at once, in a thread.

    No answer is older than who waits for it: it is asked for after they came.
    """

    def __init__(self, ask: Callable[[Sequence[K]], Mapping[K, V]]) -> None:
        """`ask` answers for each of what it is given, which are `MOST_AT_ONCE` at most."""
        self._ask = ask
        self._rounds: dict[
            asyncio.AbstractEventLoop, tuple[set[K], asyncio.Task[Mapping[K, V]]]
        ] = {}

    async def __call__(self, key: K, within_s: float) -> V:
        """The answer for one, asked for with those that come within so many seconds after the first.

        Raises:
            Exception: whatever `ask` raised; who comes later asks anew.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._rounds:
            # In a context of its own: what is noted there is nobody's.
            task = loop.create_task(self._soon(loop, within_s), context=Context())
            self._rounds[loop] = set(), task
        keys, answers = self._rounds[loop]
        keys.add(key)
        # Shielded: who came first may leave while others wait.
        return (await asyncio.shield(answers))[key]

    async def _soon(self, loop: asyncio.AbstractEventLoop, within_s: float) -> Mapping[K, V]:
        await asyncio.sleep(within_s)
        keys, found = list(self._rounds.pop(loop)[0]), dict[K, V]()
        for start in range(0, len(keys), MOST_AT_ONCE):
            some = keys[start : start + MOST_AT_ONCE]
            found.update(await database_sync_to_async(self._ask)(some))
        return found
