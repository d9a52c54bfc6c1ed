"""A scripted API server for tests of the node's client side: real HTTP, answers as told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from onebox.node.client import Access, Client

Answer = Callable[["Request"], Awaitable[web.StreamResponse] | web.StreamResponse]


@dataclass
class Request:
    """One request as the server got it."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str
    body: Any
    raw: web.Request


@dataclass
class FakeApi:
    """Answers by `answer`; remembers every request."""

    answer: Answer
    seen: list[Request] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self.client = Client(Access(self.url, "token", None))

    async def close(self) -> None:
        await self.client.close()
        await self._runner.cleanup()

    async def wait_for(self, until: Callable[[], bool], timeout_s: float = 5) -> None:
        """Wait until what was seen is as wanted."""
        async with asyncio.timeout(timeout_s):
            while not until():
                self.arrived.clear()
                await self.arrived.wait()

    async def _handle(self, raw: web.Request) -> web.StreamResponse:
        text = await raw.text()
        request = Request(
            raw.method,
            raw.path,
            dict(raw.query),
            raw.content_type,
            json.loads(text) if text else None,
            raw,
        )
        self.seen.append(request)
        self.arrived.set()
        reply = self.answer(request)
        return reply if isinstance(reply, web.StreamResponse) else await reply


def ok(body: Any = None) -> web.Response:
    return web.json_response(body or {})


def refuse(code: int, reason: str = "", message: str = "no") -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code)


async def stream(request: Request, *events: Any, hold: bool = False) -> web.StreamResponse:
    """Answer a watch with these events, and keep it open when told."""
    reply = web.StreamResponse()
    await reply.prepare(request.raw)
    for event in events:
        await reply.write(json.dumps(event).encode() + b"\n")
    if hold:
        await asyncio.Event().wait()
    return reply
