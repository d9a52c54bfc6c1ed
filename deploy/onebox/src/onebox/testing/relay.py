"""A relay before an API server that answers chosen calls wrongly, as HTTP does: a status with its body,
a connection that ends before the reply, a reply that comes too late or never.
"""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp import web

# Statuses as the API server answers them; done, but the connection ends first; done, but the reply
# is late; not done, and no reply.
POINTS = ("403", "404", "409", "422", "429", "500", "lost", "late", "timeout")
RETRY_AFTER_S = 2
LIMIT_S = 0.4  # of a call that meets `late` or `timeout`, in place of the transport's own
TRIES = 3  # of a call that is told to come later, before its caller hears of it
_REASONS = {
    "403": "Forbidden",
    "404": "NotFound",
    "409": "Conflict",
    "422": "Invalid",
    "500": "InternalError",
}
_NOT_PASSED_ON = {"host", "content-length", "transfer-encoding", "connection"}


@dataclass
class Order:
    """What is to happen to the next request of a method to a path, so many times.

    Attributes:
        name: of the object; a request that creates another one there is not meant.
        point: one of `POINTS`.
        said: what a refusal says besides.
    """

    method: str
    path: str
    name: str
    point: str
    said: str
    left: int


class Relay:
    """Between `open` and `close` it serves at `url`.

    Attributes:
        met: how many requests were treated as ordered.
    """

    def __init__(self, upstream: str) -> None:
        self.url = ""
        self.met = 0
        self._upstream = upstream
        self._order: Order | None = None
        self._runner: web.AppRunner
        self._session: aiohttp.ClientSession

    async def open(self) -> None:
        """Serve at `url`, a free port of this machine's loopback."""
        app = web.Application(client_max_size=16 * 1024**2)
        app.router.add_route("*", "/{tail:.*}", self._handle)
        self._session = aiohttp.ClientSession()
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def close(self) -> None:
        """End it, with every request that waits."""
        await self._runner.cleanup()
        await self._session.close()

    @property
    def limit_s(self) -> float | None:
        """How long the call waits for which silence is ordered."""
        is_silent = self._order is not None and self._order.point in {"late", "timeout"}
        return LIMIT_S if is_silent else None

    def order(self, method: str, path: str, name: str, point: str, said: str = "") -> None:
        """The request that is about to be made meets this."""
        left = TRIES if point == "429" else 1
        self._order = Order(method, path, name, point, said, left)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        order = self._order
        if order is None or (request.method, request.path) != (order.method, order.path):
            return await self._forward(request, body)
        if order.method == "POST" and (await request.json())["metadata"]["name"] != order.name:
            return await self._forward(request, body)
        self.met += 1
        order.left -= 1
        if not order.left and order.point not in {"late", "timeout"}:
            self._order = None
        if order.point in _REASONS or order.point == "429":
            return _refusal(order)
        if order.point != "timeout":
            await self._forward(request, body)
        if order.point == "lost":
            assert request.transport is not None
            request.transport.abort()
            raise ConnectionResetError("the reply is lost on purpose")
        try:
            await asyncio.Event().wait()  # until the client has had enough
        finally:
            self._order = None
        raise AssertionError("unreachable: this wait ends by being cancelled")

    async def _forward(self, request: web.Request, body: bytes) -> web.Response:
        passed = {k: v for k, v in request.headers.items() if k.lower() not in _NOT_PASSED_ON}
        url = f"{self._upstream}{request.path_qs}"
        async with self._session.request(
            request.method, url, data=body or None, headers=passed
        ) as answer:
            return web.Response(
                status=answer.status,
                body=await answer.read(),
                headers={"Content-Type": answer.headers.get("Content-Type", "")},
            )


def _refusal(order: Order) -> web.Response:
    """As upstream words it; that somebody should come later is said by a filter, in plain text."""
    if order.point == "429":
        later = {"Retry-After": str(RETRY_AFTER_S)}
        text = "Too many requests, please try again later.\n"
        return web.Response(status=429, text=text, headers=later)
    reason = _REASONS[order.point]
    if (order.point, order.method) == ("409", "POST"):
        reason = "AlreadyExists"
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"{HTTPStatus(int(order.point)).phrase}: {order.said}",
        "reason": reason,
        "details": {"name": order.name},
        "code": int(order.point),
    }
    return web.json_response(status, status=int(order.point))
