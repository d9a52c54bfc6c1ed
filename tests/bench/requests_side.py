"""Asks one server for one page again and again, and looks at what that costs it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.bench.processes import cpu_s

_AT_ONCE = 4


class _Client(asyncio.Protocol):
    """One kept connection; asks as soon as it was answered."""

    def __init__(self, request: bytes, count: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.left = count
        self.statuses: set[int] = set()
        self._request = request
        self._raw = bytearray()
        self._missing = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._raw += data
        end = self._raw.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._raw[:end]).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(self._raw) < end + 4 + length:
            return
        del self._raw[: end + 4 + length]
        self.statuses.add(int(head.split(b" ", 2)[1]))
        self.left -= 1
        if self.left:
            self._transport.write(self._request)
        elif not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionResetError("it hung up"))

    def close(self) -> None:
        self._transport.close()


@dataclass(frozen=True)
class Page:
    """One address of one server's process."""

    pid: int
    port: int
    path: str
    cookie: str = ""

    @property
    def request(self) -> bytes:
        rows = [f"GET {self.path} HTTP/1.1", f"Host: localhost:{self.port}"]
        rows += [f"Cookie: {self.cookie}"] if self.cookie else []
        return "\r\n".join([*rows, "", ""]).encode()


@dataclass(frozen=True)
class RealPages:
    """Pages of a web server on a real cluster.

    Attributes:
        hello: below the same middleware, as Django runs it under ASGI.
        ask: makes one call as the web server's account.
        calls: what that account has asked the cluster for so far, as `list /path?query`.
    """

    views: Sequence[Page]
    hello: Page
    ask: Callable[[], object]
    calls: Callable[[], list[str]]


async def cost_ms(page: Page, count: int) -> float:
    """CPU time of the server for one request, in ms; the mean of `count`.

    Raises:
        AssertionError: it did not answer 200 every time.
    """
    loop = asyncio.get_running_loop()
    at_once = min(count, _AT_ONCE)
    clients = [_Client(page.request, count // at_once) for _ in range(at_once)]
    began_s = cpu_s(page.pid)
    for client in clients:
        await loop.create_connection(lambda client=client: client, "127.0.0.1", page.port)
    try:
        await asyncio.wait_for(asyncio.gather(*(client.done for client in clients)), 120)
    finally:
        for client in clients:
            client.close()
    used_s = cpu_s(page.pid) - began_s
    statuses = set().union(*(client.statuses for client in clients))
    assert statuses == {200}, f"{page.path}: {statuses}"
    return used_s * 1000 / (count // at_once * at_once)
