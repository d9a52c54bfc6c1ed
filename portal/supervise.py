"""Keeps the tasks of a process alive: a task that dies is started again, and health shows it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from portal import metrics
from portal.backoff import Backoff

log = logging.getLogger(__name__)

_HEALTHY_S = 60.0  # a task that ran so long is not "dying again and again"
_AGAIN_S = 5.0  # between two cancellations of a task that did not end; it may be clearing up


@dataclass
class TaskHealth:
    """What the health page says of one task.

    Attributes:
        state: `running`, `waiting` (died, starts again soon) or `stopped` (ended as asked).
        error: why it died last; empty when it never did.
        since: monotonic seconds when `state` began.
    """

    state: str = "running"
    error: str = ""
    restarts: int = 0
    since: float = 0.0

    def turn(self, state: str) -> None:
        self.state = state
        self.since = time.monotonic()


# Task name -> health, of this process.
health: dict[str, TaskHealth] = {}


def report() -> dict[str, dict[str, Any]]:
    """Health of all tasks, ready for JSON; `for_s` is how long the state has lasted."""
    now = time.monotonic()
    return {
        name: {
            "state": task.state,
            "error": task.error,
            "restarts": task.restarts,
            "for_s": round(now - task.since, 1),
        }
        for name, task in health.items()
    }


async def end(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancels tasks and waits until all have ended.

    As often as it takes: before Python 3.12 `asyncio.wait_for` loses a cancellation that comes in the
    moment in which what it waits for is done, and a library on the way may use it. A task that goes
    on unnoticed would be waited for without end. Who is cancelled while it waits here cancels them
    once more and still waits: what one task ends may be ending tasks of its own.
    """
    left = set(tasks)
    is_cancelled = False
    while left:
        for task in left:
            task.cancel()
        try:
            await asyncio.wait(left, timeout=_AGAIN_S)
        except asyncio.CancelledError:
            is_cancelled = True
        done = {task for task in left if task.done()}
        left -= done
        for task in done:
            if not task.cancelled():
                task.exception()  # looked at, so that nothing is logged about it
    if is_cancelled:
        raise asyncio.CancelledError


async def run_forever(
    name: str,
    make: Callable[[], Awaitable[None]],
    *,
    stop: asyncio.Event | None = None,
    backoff: Backoff | None = None,
) -> None:
    """Runs `await make()` until it returns; starts it again, with growing waits, when it raises.

    Whatever the task raises is logged with its traceback and shown in `health`. Cancelling ends it;
    so does `stop` while it waits to start again (a running task has to look at it by itself).
    """
    backoff = backoff or Backoff()
    stop = stop or asyncio.Event()
    status = health[name] = TaskHealth()
    restarts = metrics.TASK_RESTARTS.labels(name)
    while True:
        status.turn("running")
        try:
            await make()
        except asyncio.CancelledError:
            status.turn("stopped")
            raise
        except Exception as error:  # the named fence: nothing that a task does ends the process
            log.exception("task %s died and is started again", name)
            if time.monotonic() - status.since > _HEALTHY_S:
                backoff.reset()
            status.error = f"{type(error).__name__}: {error}"
            status.restarts += 1
            restarts.inc()
            status.turn("waiting")
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), backoff.next_s())
            if not stop.is_set():
                continue
        status.turn("stopped")
        return
