"""The least that can relay logs to websockets: `python -m tests.bench.relay PORT MODE API`.

asyncio and websockets, nothing else: no sign-in, no database, no cleaning, no cursors, no limits. One
upstream for each pod. MODE `batch` sends what came after 50 ms or 64 KiB as one message, `line` sends
each line as one. API is an `Api` as JSON. Viewers connect to `/NAMESPACE/POD`.
"""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

from websockets.asyncio.server import ServerConnection, serve

WINDOW_S = 0.05
WINDOW_BYTES = 64 * 1024
_LINES_QUEUED = 1000
_BATCHES_QUEUED = 8
Queue = asyncio.Queue["bytes | None"]


@dataclass(frozen=True)
class Api:
    """An API server on this machine and who we are there; without `ca` it speaks plain HTTP."""

    port: int
    ca: str = ""
    certificate: str = ""
    key: str = ""
    authorization: str = ""

    def tls(self) -> ssl.SSLContext | None:
        if not self.ca:
            return None
        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key)
        return context


async def upstream(api: Api, pod: str) -> AsyncIterator[bytes]:
    """What comes of a log of `NAMESPACE/POD`; the chunks of one read together.

    Raises:
        ConnectionError: it was refused; the text has the first line of the answer.
    """
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", api.port, limit=2**20, ssl=api.tls()
    )
    namespace, _, name = pod.partition("/")
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/log"
    rows = [f"GET {path}?container=main&follow=true&timestamps=true HTTP/1.1", "Host: 127.0.0.1"]
    rows += [f"Authorization: {api.authorization}"] if api.authorization else []
    writer.write("\r\n".join([*rows, "", ""]).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(head.partition(b"\r\n")[0].decode(errors="replace"))
    rest = b""
    try:
        while data := await reader.read(2**17):
            rest += data
            found, at = [], 0
            while (end := rest.find(b"\r\n", at)) >= 0:
                size = int(rest[at:end], 16)
                if size == 0 or end + 2 + size + 2 > len(rest):
                    break
                found.append(rest[end + 2 : end + 2 + size])
                at = end + size + 4
            rest = rest[at:]
            if found:
                yield b"".join(found)
    finally:
        writer.close()


async def batches(api: Api, pod: str) -> AsyncIterator[bytes]:
    """At once after a silence, else what came within the window."""
    loop = asyncio.get_running_loop()
    came: Queue = asyncio.Queue(_BATCHES_QUEUED)

    async def pump() -> None:
        async for data in upstream(api, pod):
            await came.put(data)
        await came.put(None)

    task = asyncio.create_task(pump())
    sent_at = 0.0
    try:
        while (data := await came.get()) is not None:
            parts, size = [data], len(data)
            while size < WINDOW_BYTES and (left := sent_at + WINDOW_S - loop.time()) > 0:
                try:
                    more = await asyncio.wait_for(came.get(), left)
                except TimeoutError:
                    break
                if more is None:
                    break
                parts.append(more)
                size += len(more)
            sent_at = loop.time()
            yield b"".join(parts)
    finally:
        task.cancel()


@dataclass
class Tail:
    """One pod's upstream and the queues of those who watch it."""

    queues: list[Queue] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    async def run(self, api: Api, pod: str, mode: str) -> None:
        if mode == "line":
            async for data in upstream(api, pod):
                for line in data.splitlines(keepends=True):
                    await self._put(line)
        else:
            async for data in batches(api, pod):
                await self._put(data)
        await self._put(None)

    async def _put(self, data: bytes | None) -> None:
        for queue in tuple(self.queues):
            await queue.put(data)


async def main(port: int, mode: str, api: Api) -> None:
    tails: dict[str, Tail] = {}

    async def show(socket: ServerConnection) -> None:
        assert socket.request is not None
        pod = socket.request.path.strip("/")
        queue: Queue = asyncio.Queue(_LINES_QUEUED if mode == "line" else _BATCHES_QUEUED)
        tail = tails.setdefault(pod, Tail())
        tail.queues.append(queue)
        if tail.task is None:
            tail.task = asyncio.create_task(tail.run(api, pod, mode))
        # Somebody who leaves is noticed while there is nothing to send, too.
        left = asyncio.create_task(socket.wait_closed())
        sending = asyncio.create_task(_send(socket, queue))
        try:
            await asyncio.wait((left, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            sending.cancel()
            tail.queues.remove(queue)
            if not tail.queues:
                tail.task.cancel()
                tails.pop(pod, None)

    async with serve(show, "127.0.0.1", port, compression=None, max_queue=4):
        await asyncio.get_running_loop().create_future()


async def _send(socket: ServerConnection, queue: Queue) -> None:
    with suppress(ConnectionError):
        while (data := await queue.get()) is not None:
            await socket.send(data, text=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], Api(**json.loads(sys.argv[3]))))
