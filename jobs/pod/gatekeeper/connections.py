"""The gate's web server, with an end for connections that do not say what they want.

Anybody who reaches the port may open connections and say nothing, or half a head: each costs a descriptor
and up to a head of memory. A head has to come whole within `HEAD_S`, and where more connections than
`max_idle()` wait for one, or are only kept, the oldest of them ends. aiohttp knows neither.
"""

import asyncio
import resource
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

HEAD_S = 15.0
MOST_IDLE = 512

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def max_idle() -> int:
    """How many may wait: each that asks needs two descriptors, one of them to the app."""
    return max(1, min(MOST_IDLE, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 3))


class GateServer(web.Server):
    """Made as aiohttp's; see the module."""

    def __init__(self, handler: Handler, **options: Any) -> None:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            connection = request.protocol
            assert isinstance(connection, _Connection)
            connection.begin()
            try:
                return await handler(request)
            finally:
                connection.end()

        super().__init__(handle, **options)
        self._most = max_idle()
        # Those without a request, the one that has been so longest first.
        self._idle: dict[_Connection, None] = {}

    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)

    def add(self, one: "_Connection") -> None:
        self._idle[one] = None
        if len(self._idle) > self._most:
            next(iter(self._idle)).give_up()

    def remove(self, one: "_Connection") -> None:
        self._idle.pop(one, None)


class _Connection(RequestHandler):
    """One connection; ends when a head that it owes does not come."""

    def __init__(self, server: GateServer, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._is_idle = False
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.end()
        self._owe_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_idle and self._deadline is None and data:
            self._owe_head()  # until it is handled, in a moment if it came whole

    def connection_lost(self, exc: BaseException | None) -> None:
        self.begin()
        super().connection_lost(exc)

    def begin(self) -> None:
        """A request came, or nothing will any more."""
        self._is_idle = False
        self._server.remove(self)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def end(self) -> None:
        """It is answered: now it may ask again."""
        if self.transport is not None:
            self._is_idle = True
            self._server.add(self)

    def give_up(self) -> None:
        """Ends it at once."""
        self.begin()
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()

    def _owe_head(self) -> None:
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HEAD_S, self.give_up)
