"""uvicorn's HTTP protocol with a deadline for the head of a request, which uvicorn has not.

A connection that was opened and says nothing, or half a head, costs a descriptor for as long as it
likes. Here it ends after `HEAD_S`; and where there are more such connections than half of what this
process may open, the oldest ends at once, so that descriptors are left for everybody else. Bodies
have their deadline in `bodies.py`, the pause between two requests in uvicorn itself.

What comes after a large body on the same connection is read in the context of that request (asyncio
keeps the one in which reading was taken up again), which leads to a thread that others have by then.
So each request begins with a new context: by `reset_contextvars` in `serve`, a websocket here.
"""

import asyncio
import resource
from contextvars import Context
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 15.0
# Connections that the kernel keeps for us until we accept them, as far as net.core.somaxconn allows.
# Where there are more, Linux lets them believe that they are open, and resets them some seconds later.
QUEUE = 4096


def raise_descriptor_limit() -> None:
    """Lets this process open as many files and connections as it may ever."""
    hard = descriptor_limit()
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descriptor_limit() -> int:
    """How many files and connections this process may open at most."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def backlog() -> int:
    """How many connections are accepted at a time.

    Where descriptors end in the middle, asyncio tells each of the others in the log.
    """
    return max(16, min(2048, descriptor_limit() // 16))


class HeadDeadlineProtocol(H11Protocol):  # type: ignore[misc] # uvicorn is not followed by mypy
    """Ends a connection whose next request does not begin with a whole head in time."""

    # Those that owe a head, the oldest first.
    waiting: "dict[HeadDeadlineProtocol, asyncio.TimerHandle]" = {}
    max_waiting = descriptor_limit() // 2

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.waiting) >= self.max_waiting:
            next(iter(self.waiting))._give_up()
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        owes_head = self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None
        if owes_head != (self in self.waiting):
            self._wait() if owes_head else self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        Context().run(super().handle_websocket_upgrade, event)

    def _wait(self) -> None:
        self.waiting[self] = self.loop.call_later(HEAD_S, self._give_up)

    def _stop_waiting(self) -> None:
        timer = self.waiting.pop(self, None)
        if timer is not None:
            timer.cancel()

    def _give_up(self) -> None:
        self._stop_waiting()
        self.transport.abort()
