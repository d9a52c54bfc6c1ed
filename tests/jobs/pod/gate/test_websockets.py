"""Websockets through a real gate: everything between browser and app passes as it is."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.jobs.pod.gate.world import PREFIX, SECRETS, World, in_world, until

KERNEL = "v1.kernel.websocket.jupyter.org"
Talk = Callable[[web.WebSocketResponse], Awaitable[None]]


def talking(w: World, talk: Talk, **options: Any) -> None:
    """Makes the app answer with a websocket that talks like that."""

    @w.behind
    async def app(request: web.Request) -> web.StreamResponse:
        response = web.WebSocketResponse(autoping=False, **options)
        await response.prepare(request)
        await talk(response)
        return response


async def echo(ws: web.WebSocketResponse) -> None:
    async for message in ws:
        if message.type == aiohttp.WSMsgType.TEXT:
            await ws.send_str(message.data)
        elif message.type == aiohttp.WSMsgType.BINARY:
            await ws.send_bytes(message.data)
        elif message.type == aiohttp.WSMsgType.PING:
            await ws.pong(message.data)
        elif message.type == aiohttp.WSMsgType.PONG:
            await ws.send_str(f"pong {message.data.decode()}")


async def test_the_handshake_carries_subprotocol_query_and_the_apps_token(
    w: World, cookie: str
) -> None:
    talking(w, echo, protocols=[KERNEL])
    path = "api/kernels/1/channels?session_id=a%20b"
    async with w.websocket(cookie, path, protocols=["other", KERNEL]) as ws:
        assert ws.protocol == KERNEL
    [seen] = w.seen
    assert seen.raw_path == PREFIX + path
    assert seen.headers["Authorization"] == f"token {SECRETS['app_token']}"
    assert seen.headers["Host"] == f"127.0.0.1:{w.gate.port}"
    assert seen.headers["Origin"] == w.url
    assert "Cookie" not in seen.headers


@pytest.mark.parametrize("w", [{}, {"tls": True}], indirect=True, ids=["http", "https"])
async def test_text_binary_empty_and_large_messages_pass_both_ways(w: World, cookie: str) -> None:
    talking(w, echo, max_msg_size=0)
    async with w.websocket(cookie) as ws:
        for size in (0, 1, 125, 126, 127, 65535, 65536, 65537, 3_000_000, 40_000_000):
            data = os.urandom(size)
            await ws.send_bytes(data)
            assert await ws.receive_bytes() == data, size
        await ws.send_str("grüße ☃")
        assert await ws.receive_str() == "grüße ☃"
        for number in range(2000):
            await ws.send_str(str(number))
        assert [await ws.receive_str() for _ in range(2000)] == [str(n) for n in range(2000)]


async def test_compression_is_between_browser_and_app(w: World, cookie: str) -> None:
    talking(w, echo)
    async with w.websocket(cookie, compress=15) as ws:
        assert ws.compress == 15
        await ws.send_str("a" * 100_000)
        assert await ws.receive_str() == "a" * 100_000


async def test_pings_and_pongs_pass_both_ways(w: World, cookie: str) -> None:
    talking(w, echo)
    async with w.websocket(cookie, autoping=False) as ws:
        await ws.ping(b"one")
        message = await ws.receive()
        assert (message.type, bytes(message.data)) == (aiohttp.WSMsgType.PONG, b"one")
        await ws.pong(b"two")
        assert await ws.receive_str() == "pong two"


async def test_close_codes_and_reasons_pass_both_ways(w: World, cookie: str) -> None:
    ended: list[Any] = []

    async def talk(ws: web.WebSocketResponse) -> None:
        code, _, reason = (await ws.receive_str()).partition(" ")
        await ws.close(code=int(code), message=reason.encode())

    async def listen(ws: web.WebSocketResponse) -> None:
        message = await ws.receive()
        ended.append((message.type, message.data, message.extra))

    talking(w, talk)
    for code, reason in ((1000, ""), (1011, "kernel died"), (4001, "ü" * 40)):
        async with w.websocket(cookie) as ws:
            await ws.send_str(f"{code} {reason}")
            message = await ws.receive()
            assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, code)
            assert message.extra == reason
    talking(w, listen)
    async with w.websocket(cookie) as ws:
        await ws.close(code=4321, message=b"tab closed")
    await until("the app was told", lambda: ended)
    assert ended == [(aiohttp.WSMsgType.CLOSE, 4321, "tab closed")]


async def test_the_app_is_told_when_the_browser_vanishes_and_the_other_way_round(
    w: World, cookie: str
) -> None:
    ended: list[Any] = []

    async def talk(ws: web.WebSocketResponse) -> None:
        first = await ws.receive()
        if first.data == "crash":
            assert ws._req is not None
            assert ws._req.transport is not None
            ws._req.transport.abort()
            return
        ended.append((await ws.receive()).type)

    talking(w, talk)
    async with w.websocket(cookie) as ws:
        await ws.send_str("x")
        ws._conn.transport.abort()
    await until("the app was told", lambda: ended)
    async with w.websocket(cookie) as ws:
        await ws.send_str("crash")
        await asyncio.wait_for(ws.receive(), 10)
        assert ws.closed
        assert ws.close_code in {None, 1006, 1000}


REFUSALS = {
    None: 503,  # nothing listens
    b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n": 403,
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n": 404,
    b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n": 500,
    b"": 502,
    b"HTTP/1.1 101 Switching Protocols\r\n\r\n": 502,
    b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\n\r\n": 502,
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok": 502,
    b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n": 502,
    b"HTTP/2 101\r\n\r\n": 502,
    b"nonsense\r\n\r\n": 502,
    b"HTTP/1.1 101 X\r\nX: " + b"a" * 200_000 + b"\r\n\r\n": 502,
}


@in_world(app=False)
async def test_an_app_that_does_not_shake_hands_gets_no_tunnel(w: World, cookie: str) -> None:
    for said, status in REFUSALS.items():
        app = contextlib.nullcontext() if said is None else w.raw_app(said)
        async with app:
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await w.websocket(cookie)
            assert caught.value.status == status, (said or b"")[:60]


async def test_the_end_of_the_gate_closes_websockets_with_1001_and_leaves_in_time(
    w: World, cookie: str
) -> None:
    ended: list[Any] = []

    async def talk(ws: web.WebSocketResponse) -> None:
        message = await ws.receive()
        ended.append(message.data)

    talking(w, talk)

    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    sockets = [await w.websocket(cookie) for _ in range(20)]
    await until("all are open", lambda: len(w.seen) == 20)
    w.app = slow
    poll = asyncio.create_task(w.call("poll", cookie=cookie))
    await until("the poll waits", lambda: len(w.seen) == 21)
    code, *messages = await asyncio.wait_for(
        asyncio.gather(w.gate.stop(), *(ws.receive() for ws in sockets)), 12
    )
    assert code == 0
    assert {(m.type, m.data) for m in messages} == {(aiohttp.WSMsgType.CLOSE, 1001)}
    assert ended == [1001] * 20
    with pytest.raises(aiohttp.ClientError):
        await poll


@in_world(quick="from jobs.pod.gatekeeper import tunnel; tunnel.CLOSE_HANDSHAKE_S = 30")
async def test_a_goodbye_waits_for_the_end_of_a_frame(w: World, cookie: str) -> None:
    """The close frame comes between frames, even when one of 30 MB is on its way."""
    data = os.urandom(30_000_000)

    async def talk(ws: web.WebSocketResponse) -> None:
        while not ws.closed:
            await ws.send_bytes(data)

    talking(w, talk, max_msg_size=0)
    async with w.websocket(cookie) as ws:
        assert await ws.receive_bytes() == data
        stopping = asyncio.create_task(w.gate.stop())
        while (message := await ws.receive()).type == aiohttp.WSMsgType.BINARY:
            assert message.data == data
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1001)
        assert await stopping == 0
