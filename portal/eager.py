"""Begins coroutines at once: one that never has to wait costs no turn of the event loop.

As the eager tasks of Python 3.12 do it: https://docs.python.org/3/library/asyncio-task.html#eager-task-factory
"""

from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any


class Begun:
    """What is left of a coroutine that was begun. Either `finish` is awaited, or `close` is called."""

    def __init__(
        self, work: Coroutine[Any, Any, None], waits_for: Any, error: Exception | None = None
    ) -> None:
        self._work, self._waits_for, self._error = work, waits_for, error

    async def finish(self) -> None:
        """Goes on with it.

        Raises:
            Exception: whatever it raises, or has raised before it came to wait.
        """
        if self._error is not None:
            raise self._error
        await _go_on(self._work, self._waits_for)

    def close(self) -> None:
        """It will not go on."""
        self._work.close()


def run(work: Coroutine[Any, Any, None]) -> Begun | None:
    """Runs it until it would wait; None: it is done.

    It must not ask which task it is in, for it may change that. What it raises, `Begun.finish` raises.
    """
    try:
        waits_for = work.send(None)
    except StopIteration:
        return None
    except Exception as error:  # noqa: BLE001 (it is for who finishes it)
        return Begun(work, None, error)
    return Begun(work, waits_for)


@coroutine
def _go_on(work: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    try:
        while True:
            try:
                value = yield waits_for
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:  # noqa: BLE001 (thrown where it waits, as `yield from` does)
                waits_for = work.throw(error)
            else:
                waits_for = work.send(value)
    except StopIteration:
        return
