"""How much memory a real gate takes: for large bodies, and for those who do not read.

The figures are of the process, resident, at their highest.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from tests.jobs.pod.gate.world import PREFIX, World, until

MIB = 1024**2
LIMIT_BYTES = 100 * MIB
CHUNK = os.urandom(4 * MIB)


async def upload(w: World, cookie: str, size_bytes: int, *, sized: bool) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(size_bytes // len(CHUNK)):
            yield CHUNK

    headers = {"Content-Length": str(size_bytes)} if sized else {}
    answer = await w.call("big", method="PUT", cookie=cookie, data=body(), headers=headers)
    assert (answer.status, answer.text) == (200, str(size_bytes))


async def sink(request: web.Request) -> web.Response:
    """Counts what comes and looks at a piece of each chunk."""
    size = 0
    async for data in request.content.iter_any():
        at = size % len(CHUNK)
        assert data[:64] == CHUNK[at : at + 64][: len(data)] or at + 64 > len(CHUNK)
        size += len(data)
    return web.Response(text=str(size))


@pytest.mark.parametrize(("size_mib", "sized"), [(2048, True), (256, False)])
async def test_an_upload_of_2_gb_takes_less_than_100_mb(
    w: World, cookie: str, size_mib: int, sized: bool
) -> None:
    w.app = sink
    await upload(w, cookie, size_mib * MIB, sized=sized)
    check_peak(w)


async def test_many_uploads_at_once_to_an_app_that_does_not_read_take_less_than_100_mb(
    w: World, cookie: str
) -> None:
    go_on = asyncio.Event()

    @w.behind
    async def app(request: web.Request) -> web.Response:
        await go_on.wait()
        return await sink(request)

    uploads = [asyncio.create_task(upload(w, cookie, 64 * MIB, sized=True)) for _ in range(8)]
    await until("all wait", lambda: len(w.seen) == 8)
    await settled(w)
    assert w.gate.peak_bytes() < LIMIT_BYTES
    go_on.set()
    await asyncio.gather(*uploads)
    check_peak(w)


def check_peak(w: World) -> None:
    print(f"peak {w.gate.peak_bytes() / MIB:.0f} MiB")
    assert w.gate.peak_bytes() < LIMIT_BYTES


async def settled(w: World) -> None:
    """Until the gate takes no more time, since everything it could pass on it has."""
    seen = -1.0

    def still() -> bool:
        nonlocal seen
        before, seen = seen, w.gate.cpu_s()
        return before == seen

    await until("the gate rests", still, interval_s=0.5)


WEBSOCKET = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)


async def connected_raw(w: World, cookie: str, path: str, *lines: str) -> socket.socket:
    """A browser that sends a request and then reads nothing."""
    raw = socket.socket()
    raw.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(raw, ("127.0.0.1", w.gate.port))
    first = (f"GET {PREFIX}{path} HTTP/1.1", f"Cookie: {cookie}")
    head = [*first, *lines, f"Host: 127.0.0.1:{w.gate.port}", f"Origin: {w.url}", "", ""]
    await loop.sock_sendall(raw, "\r\n".join(head).encode())
    return raw


async def test_a_browser_that_stops_reading_stops_the_app_and_costs_no_memory(
    w: World, cookie: str
) -> None:
    sent = [0]

    @w.behind
    async def app(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(CHUNK)
            sent[0] += len(CHUNK)

    sockets = [await connected_raw(w, cookie, "flood") for _ in range(4)]
    await until("all flood", lambda: len(w.seen) == 4)
    await settled(w)
    print(f"sent {sent[0] / MIB:.0f} MiB")
    check_peak(w)
    assert (await w.call("/__gate/live")).status == 200
    for raw in sockets:
        raw.close()


async def test_a_websocket_that_is_not_read_costs_no_memory_in_either_direction(
    w: World, cookie: str
) -> None:
    @w.behind
    async def app(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse(max_msg_size=0)
        await ws.prepare(request)
        if request.path.endswith("deaf"):
            await asyncio.sleep(60)  # reads nothing
        while True:
            await ws.send_bytes(CHUNK)
        return ws

    raw = await connected_raw(w, cookie, "flood", *WEBSOCKET)
    await until("it floods", lambda: len(w.seen) == 1)
    async with w.websocket(cookie, "deaf") as ws:

        async def flood() -> None:
            while True:
                await ws.send_bytes(CHUNK)

        flooding = asyncio.create_task(flood())
        await until("both", lambda: len(w.seen) == 2)
        await settled(w)
        check_peak(w)
        assert not flooding.done()
        flooding.cancel()
        # Also who does not read is gone when the gate ends.
        assert await w.gate.stop() == 0
    raw.close()


async def test_a_websocket_message_of_240_mb_takes_less_than_100_mb(w: World, cookie: str) -> None:
    """Frames are passed on as they come, never gathered into messages."""
    received = [0]

    @w.behind
    async def app(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        assert request.transport is not None
        # One frame of 240 MiB, by hand.
        request.transport.write(b"\x82\x7f" + (60 * len(CHUNK)).to_bytes(8, "big"))
        for _ in range(60):
            request.transport.write(CHUNK)
            while request.transport.get_write_buffer_size() > MIB:  # type: ignore[attr-defined]
                await asyncio.sleep(0.001)
        return ws

    raw = await connected_raw(w, cookie, "huge", *WEBSOCKET)
    loop = asyncio.get_running_loop()
    while received[0] < 240 * MIB:
        data = await loop.sock_recv(raw, MIB)
        assert data
        received[0] += len(data)
    check_peak(w)
    raw.close()


async def test_two_hundred_websockets_are_open_at_once_in_less_than_100_mb(
    w: World, cookie: str
) -> None:
    @w.behind
    async def app(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        async for message in ws:
            await ws.send_bytes(message.data)
        return ws

    sockets = [await w.websocket(cookie) for _ in range(200)]
    data = os.urandom(100_000)
    for _ in range(3):
        await asyncio.gather(*(ws.send_bytes(data) for ws in sockets))
        answers = await asyncio.gather(*(ws.receive_bytes() for ws in sockets))
        assert answers == [data] * 200
    check_peak(w)
    await asyncio.gather(*(ws.close() for ws in sockets))
