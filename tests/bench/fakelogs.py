"""An API server that has nothing but logs, as a process: `python -m tests.bench.fakelogs PORT`.

It writes each line as a chunk of its own, as a kubelet does. Lines are made in blocks and the time
is put in by one replacement per block, so that this process is never what limits a measurement.
All streams begin with line 0, wait for `/bench/open?lines=N[&per_s=R][&loud=K]`, write the same N numbered lines (as fast
as they are read, or R each second; see `Work`), and stay open until `/bench/close`. `/bench/stats` counts.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import parse_qs, urlsplit

LINE_BYTES = 100  # of the program's own line, its line break included
END = "~"  # ends each line; what viewers count, a single character because that is quickest
BLOCK = 64
TICK_S = 0.01
_WRITE_BUFFER = 256 * 1024
_STAMP = b"2000-01-01T00:00:00.000000000Z"


@dataclass(frozen=True)
class Work:
    """What every stream writes: `lines`, as fast as they are read or `per_s`.

    Attributes:
        loud: the pod whose name ends with `-0` writes so many times as much, in the same time.
    """

    lines: int
    per_s: float = 0.0
    loud: int = 1

    def of(self, pod: str) -> "Work":
        if self.loud == 1 or not pod.endswith("-0"):
            return self
        return Work(self.lines * self.loud, self.per_s * self.loud)


@dataclass
class Stats:
    """Counted since the process began."""

    requests: int = 0
    follows: int = 0  # log streams with follow=true that were ever opened
    others: int = 0  # reads of logs without follow
    open: int = 0
    peak: int = 0


def line_of(number: int) -> bytes:
    """Line `number` of a program, `LINE_BYTES` long."""
    head = f"#{number:09d} INFO train step loss=0.1234 lr=1e-4 "
    return f"{head}{'x' * (LINE_BYTES - len(head) - len(END) - 1)}{END}\n".encode()


@lru_cache(maxsize=10_000)
def block_of(first: int, count: int, *, stamped: bool) -> bytes:
    """Chunks of the lines from `first` on; with the placeholder where each time belongs."""
    stamp = _STAMP + b" " if stamped else b""
    size = b"%x" % (len(stamp) + LINE_BYTES)
    chunks = (size + b"\r\n" + stamp + line_of(n) + b"\r\n" for n in range(first, first + count))
    return b"".join(chunks)


def stamp_now() -> bytes:
    """The time as a kubelet writes it, always with nine digits."""
    ns = time.time_ns()
    whole = datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{ns % 10**9:09d}Z".encode()


class Gate:
    """All streams wait at it; each opening has a work of its own."""

    def __init__(self) -> None:
        self.work = Work(0)
        self.opened = asyncio.Event()
        self.closed = asyncio.Event()


class Connection(asyncio.Protocol):
    """One client; answers one request after the other."""

    def __init__(self, stats: Stats, gate: Callable[[], Gate], swap: Callable[[], None]) -> None:
        self._stats = stats
        self._gate = gate
        self._swap = swap
        self._raw = b""
        self._writable = asyncio.Event()
        self._writable.set()
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BUFFER)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        self._raw += data
        while b"\r\n\r\n" in self._raw:
            head, _, self._raw = self._raw.partition(b"\r\n\r\n")
            self._answer(head.split(b" ", 2)[1].decode())

    def _answer(self, target: str) -> None:
        self._stats.requests += 1
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = parts.path.strip("/").split("/")
        if path[0] == "bench":
            self._control(path[1], query)
        elif path[-1] == "log":
            self._task = asyncio.create_task(self._log(path[-2], query))
        elif len(path) > 2 and path[-2] == "pods":
            self._json(_pod(path[-1], path[-3]))
        else:
            self._json(_discovery(parts.path))

    def _control(self, what: str, query: dict[str, str]) -> None:
        gate = self._gate()
        if what == "open":
            gate.work = Work(
                int(query["lines"]), float(query.get("per_s", "0")), int(query.get("loud", "1"))
            )
            gate.opened.set()
        elif what == "close":
            gate.closed.set()
            self._swap()
        self._json(asdict(self._stats))

    def _json(self, body: object) -> None:
        data = json.dumps(body).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}"
        self._transport.write(f"{head}\r\n\r\n".encode() + data)

    async def _log(self, pod: str, query: dict[str, str]) -> None:
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
        self._transport.write(head.encode())
        if query.get("follow") != "true":
            self._stats.others += 1
            self._transport.write(b"0\r\n\r\n")
            return
        stats, gate, stamped = self._stats, self._gate(), query.get("timestamps") == "true"
        self._write(0, 1, stamped)
        stats.follows += 1
        stats.open += 1
        stats.peak = max(stats.peak, stats.open)
        try:
            await gate.opened.wait()
            work = gate.work.of(pod)
            await (self._paced if work.per_s else self._flood)(work, stamped)
            await gate.closed.wait()
            self._transport.write(b"0\r\n\r\n")
        finally:
            stats.open -= 1

    def _write(self, first: int, count: int, stamped: bool) -> None:
        block = block_of(first, count, stamped=stamped)
        self._transport.write(block.replace(_STAMP, stamp_now()) if stamped else block)

    async def _flood(self, work: Work, stamped: bool) -> None:
        for done in range(0, work.lines, BLOCK):
            self._write(1 + done, min(BLOCK, work.lines - done), stamped)
            if not self._writable.is_set():
                await self._writable.wait()
            elif done % (16 * BLOCK) == 0:
                await asyncio.sleep(0)

    async def _paced(self, work: Work, stamped: bool) -> None:
        # Pods that all write in the same instant would be unlike any.
        await asyncio.sleep(id(self) // 64 % 20 / 1000)
        began, written = time.monotonic(), 0
        while written < work.lines:
            due = min(work.lines, int((time.monotonic() - began) * work.per_s) + 1)
            while written < due:
                # Up to the next whole block, so that blocks are made once.
                count = min(due - written, BLOCK - written % BLOCK)
                self._write(1 + written, count, stamped)
                written += count
            await asyncio.sleep(TICK_S)


def _pod(name: str, namespace: str) -> object:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "main", "image": "i"}], "restartPolicy": "Never"},
        "status": {"phase": "Running"},
    }


def _discovery(path: str) -> object:
    """What kubectl asks before it asks for a log."""
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/api/v1":
        row = {"namespaced": True, "kind": "Pod", "verbs": ["get"], "singularName": ""}
        resources = [{"name": name, **row} for name in ("pods", "pods/log")]
        return {"kind": "APIResourceList", "groupVersion": "v1", "resources": resources}
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}


async def serve(port: int) -> None:
    stats, gates = Stats(), [Gate()]

    def swap() -> None:
        gates[0] = Gate()

    def connection() -> Connection:
        return Connection(stats, lambda: gates[0], swap)

    server = await asyncio.get_running_loop().create_server(
        connection, "127.0.0.1", port, backlog=1024
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
