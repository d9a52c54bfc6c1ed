"""The gate's web server, with an end for connections that do not say what they want.

Anybody who reaches the port may open connections and say nothing, half a head or half of what TLS begins with:
each costs a descriptor, and memory as long as it lasts. All that wait for their other side stand in one row, from
when they are accepted. What is begun has to come whole within `HEAD_S`; where more than `max_idle()` wait, or are
only kept, the oldest of them ends; where they hold more than `MOST_HELD_BYTES`, the one that holds most. aiohttp
knows none of this.
"""

import asyncio
import contextlib
import os
import resource
import socket
import ssl
from asyncio.sslproto import SSLProtocol, SSLProtocolState
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

HEAD_S = 15.0
# The gate has 128Mi for all. With TLS, each costs 65 KB before it says anything.
MOST_IDLE = 256
MOST_HELD_BYTES = 8 * 1024**2
# What is accepted, or read of each, in one turn of the loop is there before anything can make room for it.
ACCEPTED_AT_ONCE = 64
READ_BYTES = 64 * 1024
# By which one that has begun its handshake counts: nine bytes make OpenSSL keep room for a hello of 128 KiB.
HELLO_BYTES = 64 * 1024
# What the kernel keeps until it is accepted.
BACKLOG = 512

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def max_idle() -> int:
    """How many may wait: each that asks needs two descriptors, one of them to the app."""
    return max(1, min(MOST_IDLE, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 3))


class _IdleConnection(Protocol):
    """A connection in the row."""

    def give_up(self) -> None:
        """Ends it at once; it leaves the row."""


class GateServer(web.Server):
    """Made as aiohttp's; see the module.

    Args:
        tls: what the port speaks; None: plain HTTP. The connections see to it, not the loop.
    """

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None, **options: Any) -> None:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            connection = request.protocol
            assert isinstance(connection, _Connection)
            connection.begin()
            try:
                return await handler(request)
            finally:
                connection.end()

        super().__init__(handle, **options)
        self._tls = tls
        self._most = max_idle()
        # Those without a request -> bytes that they hold, the one that has been so longest first.
        self._idle: dict[_IdleConnection, int] = {}
        self._held_bytes = 0

    async def listen(self, port: int) -> asyncio.Server:
        """Serves at all addresses of both families."""
        # As many are accepted in one turn of the loop as asyncio is told to let wait.
        listener = await self._loop.create_server(self, None, port, backlog=ACCEPTED_AT_ONCE)
        for bound in listener.sockets:
            with socket.socket(fileno=os.dup(bound.fileno())) as same:
                same.listen(BACKLOG)
        return listener

    def __call__(self) -> Any:
        inner = _Connection(self, loop=self._loop, **self._kwargs)
        return inner if self._tls is None else _TlsConnection(self, inner, self._tls)

    def add(self, one: _IdleConnection, held_bytes: int = 0) -> None:
        """It waits; where it does already, it keeps its place and has another size."""
        self._held_bytes += held_bytes - self._idle.get(one, 0)
        self._idle[one] = held_bytes
        if len(self._idle) > self._most:
            next(iter(self._idle)).give_up()
        while self._held_bytes > MOST_HELD_BYTES:
            max(self._idle, key=self._idle.__getitem__).give_up()

    def remove(self, one: _IdleConnection) -> None:
        """It waits no more; harmless when it did not."""
        self._held_bytes -= self._idle.pop(one, 0)


class _TlsConnection(SSLProtocol):
    """A connection that speaks TLS first: in the row until that is done, and again while it is being closed.

    asyncio's own for a server with `ssl` tells nobody of a connection before its handshake.
    """

    # One record. Each connection has as much of a buffer from its beginning; asyncio takes 256 KiB.
    max_size = 16 * 1024

    def __init__(self, server: GateServer, inner: RequestHandler, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        # Nobody waits for the connection to be made; the types know only of those that open one.
        nobody: Any = None
        super().__init__(
            loop,
            inner,
            context,
            nobody,
            server_side=True,
            ssl_handshake_timeout=int(HEAD_S),
            ssl_shutdown_timeout=int(HEAD_S),
        )
        self._server = server
        self._below: Any = None

    def connection_made(self, transport: Any) -> None:
        self._below = transport
        self._server.add(self)
        super().connection_made(transport)

    def buffer_updated(self, nbytes: int) -> None:
        if self._state is SSLProtocolState.DO_HANDSHAKE:  # type: ignore[attr-defined] # asyncio's own
            self._server.add(self, HELLO_BYTES)
        if not self._below.is_closing():
            super().buffer_updated(nbytes)

    def _on_handshake_complete(self, handshake_exc: BaseException | None) -> None:
        self._server.remove(self)
        super()._on_handshake_complete(handshake_exc)

    def _start_shutdown(self) -> None:
        if self._state is SSLProtocolState.WRAPPED:  # type: ignore[attr-defined] # asyncio's own
            self._server.add(self)
        super()._start_shutdown()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._server.remove(self)
        super().connection_lost(exc)

    def give_up(self) -> None:
        self._server.remove(self)
        self._below.abort()


class _Connection(RequestHandler):
    """One connection; ends when a head that it owes does not come."""

    def __init__(self, server: GateServer, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._is_idle = False
        self._deadline: asyncio.TimerHandle | None = None
        # Since the last head was whole, at most: aiohttp does not say where in the data it ended.
        self._held_bytes = 0
        self._latest_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.max_size = READ_BYTES  # type: ignore[attr-defined] # asyncio's own: 256 KiB
        super().connection_made(transport)
        self.end()
        self._owe()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not data:
            return  # aiohttp's own call, to go on with what it has
        self._latest_bytes = len(data)
        if not self._is_idle:
            return
        self._held_bytes += len(data)
        self._server.add(self, self._held_bytes)
        if self._is_idle and self._deadline is None:
            self._owe()  # until it is handled, in a moment if it came whole

    def connection_lost(self, exc: BaseException | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def begin(self) -> None:
        """A request came."""
        self._leave()
        if not self._messages:  # else there are more behind it
            self._held_bytes = self._latest_bytes

    def end(self) -> None:
        """It is answered: now it may ask again."""
        if self.transport is not None:
            self._is_idle = True
            self._server.add(self, self._held_bytes)

    @contextlib.contextmanager
    def owing(self) -> Iterator[None]:
        """While the block runs, the rest of its request is waited for as a head is."""
        self.end()
        self._owe()
        try:
            yield
        finally:
            self._leave()

    def give_up(self) -> None:
        """Ends it at once."""
        self._leave()
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()

    def _owe(self) -> None:
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(HEAD_S, self.give_up)

    def _leave(self) -> None:
        self._is_idle = False
        self._server.remove(self)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def owing(request: web.BaseRequest) -> contextlib.AbstractContextManager[None]:
    """While the block runs, the other side has to send the rest of this request, and in time."""
    connection = request.protocol
    assert isinstance(connection, _Connection)
    return connection.owing()
