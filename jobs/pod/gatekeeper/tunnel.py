"""Passes a websocket on, byte by byte in both directions, until one side or the gate ends it.

Each direction holds one buffer at most: whoever does not read stops the other side from writing.
Subprotocols, extensions, pings and close codes are between browser and app.
"""

import asyncio
import contextlib
from collections import deque
from typing import Any

from aiohttp import web

from jobs.pod.gatekeeper.frames import Frames, close_frame
from jobs.pod.gatekeeper.handshake import BUFFER_BYTES, Upstream

# For a frame in progress to end, and for the browser to answer our close frame.
CLOSE_HANDSHAKE_S = 1.0


class RawReader:
    """What the browser sent; takes the place of aiohttp's own reader of websockets."""

    def __init__(self, protocol: web.RequestHandler) -> None:
        self._protocol = protocol
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._is_over = False
        self._more = asyncio.Event()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Called by aiohttp with what came."""
        self._parts.append(data)
        self._size += len(data)
        self._more.set()
        if self._size >= BUFFER_BYTES:
            self._protocol.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        """Called by aiohttp when nothing more will come."""
        self._is_over = True
        self._more.set()

    async def read(self) -> bytes:
        """What is there, waiting for it; empty at the end."""
        while not self._parts and not self._is_over:
            self._more.clear()
            await self._more.wait()
        if not self._parts:
            return b""
        data = self._parts.popleft()
        was_full = self._size >= BUFFER_BYTES
        self._size -= len(data)
        if was_full and self._size < BUFFER_BYTES:
            self._protocol.resume_reading()
        return data


class Tunnel:
    """One websocket between a browser and the app."""

    def __init__(self, request: web.BaseRequest, upstream: Upstream, headers: Any) -> None:
        self._request = request
        self._upstream = upstream
        self._response = web.StreamResponse(status=101, headers=headers)
        self._down = Frames()
        self._up = Frames()
        self._closing: tuple[int, str] | None = None
        self._wanted = asyncio.Event()

    def end(self, code: int, reason: str) -> None:
        """Asks for the end, with a close code for both sides."""
        if self._closing is None:
            self._closing = code, reason
            self._wanted.set()

    async def run(self) -> web.StreamResponse:
        """Passes on until the end; the answer to the browser, which has been given by then."""
        # The connection is the websocket's from here on.
        self._response.force_close()
        await self._response.prepare(self._request)
        protocol: Any = self._request.protocol
        reader = RawReader(protocol)
        protocol.set_parser(reader)
        tasks = [
            asyncio.create_task(self._pass_down()),
            asyncio.create_task(self._pass_up(reader)),
            asyncio.create_task(self._wanted.wait()),
        ]
        down, up, _ = tasks
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if self._closing is not None:
                up.cancel()
                await asyncio.wait([up])
                await self._close_handshake(*self._closing, down, reader)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self._response

    async def _pass_down(self) -> None:
        """From the app to the browser; when it is to end, to the end of the frame."""
        while self._closing is None or not self._down.is_between:
            data = await self._upstream.reader.read(BUFFER_BYTES)
            if not data:
                return
            end = self._down.feed(data, to_end_of_frame=self._closing is not None)
            await self._response.write(data[:end])

    async def _pass_up(self, reader: RawReader) -> None:
        while data := await reader.read():
            self._up.feed(data)
            self._upstream.writer.write(data)
            await self._upstream.writer.drain()

    async def _close_handshake(
        self, code: int, reason: str, down: "asyncio.Task[Any]", reader: RawReader
    ) -> None:
        """Closes both sides in the protocol's own words, as far as they still listen."""
        if self._up.is_between:
            self._upstream.writer.write(close_frame(code, reason, masked=True))
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(CLOSE_HANDSHAKE_S):
                if not self._down.is_between:
                    await down  # ends with the frame
                down.cancel()
                await asyncio.wait([down])
                if self._down.is_between:
                    await self._response.write(close_frame(code, reason, masked=False))
                    while not self._up.has_closed and (data := await reader.read()):
                        self._up.feed(data)
        transport = self._request.transport
        if transport is not None and not self._up.has_closed:
            transport.abort()  # else what it has not read would be kept for it
