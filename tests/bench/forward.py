"""Passes connections on to a port and counts them: how many upstreams somebody holds, from outside."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

_READ = 2**16


@dataclass
class Forward:
    """The connections through a port of this machine."""

    made: int = 0
    open: int = 0
    peak: int = 0


@asynccontextmanager
async def forwarding(host: str, port: int, own_port: int) -> AsyncIterator[Forward]:
    """Passes what comes to `own_port` on while the context is open; TLS goes through unseen."""
    forward = Forward()
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        forward.made += 1
        forward.open += 1
        forward.peak = max(forward.peak, forward.open)
        try:
            far_reader, far_writer = await asyncio.open_connection(host, port)
            ways = [
                asyncio.create_task(_pass(reader, far_writer)),
                asyncio.create_task(_pass(far_reader, writer)),
            ]
            tasks.update(ways)
            # Who hangs up on one side is gone on the other.
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            far_writer.close()
        finally:
            writer.close()
            forward.open -= 1

    server = await asyncio.start_server(connected, "127.0.0.1", own_port)
    try:
        yield forward
    finally:
        server.close()
        for task in tasks:
            task.cancel()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_READ):
            writer.write(data)
            await writer.drain()
