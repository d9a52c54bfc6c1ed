"""TCP relays: listeners that hand each connection to a handler, and the relaying of bytes.

Back-pressure is the kernel's (nothing is read that could not be written on), each direction ends by
itself (half-close), and closing a listener ends every connection that came through it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Collection, Sequence

logger = logging.getLogger(__name__)

Dial = Callable[[str, int], Awaitable[socket.socket]]
Handler = Callable[[socket.socket], Awaitable[None]]

_CHUNK_BYTES = 256 * 1024
_CONNECT_TIMEOUT_S = 5.0
# Out of descriptors: accepting again at once would burn a core.
_ACCEPT_PAUSE_S = 0.2
# A peer that vanished without a word (its pod was killed) is found within a minute.
_KEEPALIVE_IDLE_S, _KEEPALIVE_INTERVAL_S, _KEEPALIVE_PROBES = 30, 10, 3


class Listener:
    """Accepts connections on a listening socket and runs a handler for each.

    Args:
        server: listening, non-blocking; closed with the listener.
        handler: owns the connection it is given and closes it.
    """

    def __init__(self, server: socket.socket, handler: Handler) -> None:
        self._server = server
        self._handler = handler
        # asyncio itself holds tasks only weakly.
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_accepting = True
        self._accepting = asyncio.get_running_loop().create_task(self._accept(server))

    def stop_accepting(self) -> None:
        """Close the listening socket; connections go on. `resume` gives it a new one."""
        if self.is_accepting:
            self.is_accepting = False
            self._accepting.cancel()
            asyncio.get_running_loop().remove_reader(self._server.fileno())
            # Whoever made the socket may still have it open for a moment, and it would go on listening.
            with contextlib.suppress(OSError):
                self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()

    def resume(self, server: socket.socket) -> None:
        """Accept again, on a new listening socket."""
        self._server = server
        self.is_accepting = True
        self._accepting = asyncio.get_running_loop().create_task(self._accept(server))

    async def close(self) -> None:
        """Stop accepting and end every connection."""
        self.stop_accepting()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self._accepting, *self._tasks, return_exceptions=True)

    async def _accept(self, server: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _address = await loop.sock_accept(server)
            except OSError as error:
                logger.warning("a connection could not be accepted: %s", error)
                await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            task = loop.create_task(self._serve(connection))
            self._tasks.add(task)
            task.add_done_callback(functools.partial(self._served, connection))

    def _served(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        # Here and not in the task, which may be cancelled before its first step.
        self._tasks.discard(task)
        connection.close()

    async def _serve(self, connection: socket.socket) -> None:
        prepare(connection)
        try:
            await self._handler(connection)
        except OSError:
            reset(connection)
        except Exception:  # the fence: one connection must not end the listener
            logger.exception("a connection failed")
            reset(connection)


def prepare(connection: socket.socket) -> None:
    """Set the options that every relayed connection has."""
    connection.setblocking(False)
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES)


def reset(connection: socket.socket) -> None:
    """Close a connection so that the peer sees a reset rather than a clean end."""
    with contextlib.suppress(OSError):
        linger = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    connection.close()


async def relay(left: socket.socket, right: socket.socket) -> None:
    """Carry bytes both ways until both directions have ended; closes both sockets."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_pump(left, right))
            group.create_task(_pump(right, left))
    except* OSError:
        # What broke one side is passed on to the other.
        reset(left)
        reset(right)
    finally:
        left.close()
        right.close()


async def _pump(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while chunk := await loop.sock_recv(source, _CHUNK_BYTES):
        await loop.sock_sendall(target, chunk)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


async def dial_host(host: str, port: int) -> socket.socket:
    """Connect from the host's own network.

    Raises:
        OSError: refused, unreachable.
    """
    made = socket.socket()
    made.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(made, (host, port))
    except BaseException:
        made.close()
        raise
    return made


class Forward:
    """A handler that relays to one fixed address."""

    def __init__(self, dial: Dial, host: str, port: int) -> None:
        self._dial = dial
        self._host = host
        self._port = port

    async def __call__(self, client: socket.socket) -> None:
        """Relay one connection; OSError where the address does not answer."""
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            upstream = await self._dial(self._host, self._port)
        prepare(upstream)
        await relay(client, upstream)


class Balancer:
    """A handler that relays each connection to the next of several endpoints, in turn.

    One that does not answer is skipped. Connections to an endpoint last as long as it exists,
    ready or not; when it is gone they are ended, for nobody else would do that.
    """

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._ready: Sequence[tuple[str, int]] = ()
        self._turn = 0
        self._open: dict[str, set[tuple[socket.socket, socket.socket]]] = {}

    def set_endpoints(self, ready: Sequence[tuple[str, int]], existing: Collection[str]) -> None:
        """Replace the endpoints.

        Args:
            ready: (ip, port) of those that take new connections.
            existing: the addresses of all that exist.
        """
        self._ready = tuple(ready)
        for ip in [ip for ip in self._open if ip not in existing]:
            for pair in self._open.pop(ip):
                for end in pair:
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)  # wakes the relay, which closes both

    @property
    def has_ready(self) -> bool:
        """Whether a new connection would find an endpoint."""
        return bool(self._ready)

    async def __call__(self, client: socket.socket) -> None:
        """Relay one connection; OSError where no endpoint answers."""
        ip, upstream = await self._connect()
        prepare(upstream)
        pair = (client, upstream)
        pairs = self._open.setdefault(ip, set())
        pairs.add(pair)
        try:
            await relay(client, upstream)
        finally:
            pairs.discard(pair)
            if not pairs and self._open.get(ip) is pairs:
                del self._open[ip]

    async def _connect(self) -> tuple[str, socket.socket]:
        candidates = self._ready
        last_error: OSError = ConnectionRefusedError("no endpoint is ready")
        for _ in range(len(candidates)):
            ip, port = candidates[self._turn % len(candidates)]
            self._turn += 1
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    return ip, await self._dial(ip, port)
            except OSError as error:
                last_error = error
        raise last_error
