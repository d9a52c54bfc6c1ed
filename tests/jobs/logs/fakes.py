"""A kubelet's log in memory: follows, `sinceTime`, `tailLines`, and connections that are cut."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from jobs.logs.lines import Batch
from jobs.logs.tail import Outcome
from portal.cluster.errors import Forbidden, Invalid, NotFound, Unavailable


def stamp(nanoseconds: int, zone: str = "Z") -> bytes:
    """A time of day one as the kubelet writes it."""
    seconds, rest = divmod(nanoseconds, 10**9)
    hours, minutes = divmod(seconds // 60, 60)
    return b"2026-11-20T%02d:%02d:%02d.%09d%s" % (
        hours,
        minutes,
        seconds % 60,
        rest,
        zone.encode(),
    )


class FakeLog:
    """One container's log, and a source as `tail.Source` wants it."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_running = True
        self.exists = True
        self.has_started = True
        self.restart_policy = "Never"
        self.starts = 1
        self.phase = ""
        self.cuts: list[tuple[int, str]] = []  # bytes until a connection ends, and how
        self.piece_bytes = 1 << 20
        self.held_at: int | None = None  # the byte from which on a follow gives nothing
        self.opened: list[dict[str, Any]] = []
        self.open_count = 0
        self.gets = 0
        self._changed = asyncio.Event()
        self.previous = self  # the container before, once there was one

    # --- what the test does ---
    def start_again(self, how: str = "end") -> None:
        """The container ends, and another one begins in its pod, with a log of its own."""
        self.previous = FakeLog()
        self.previous.data, self.data = self.data, bytearray()
        self.previous.is_running = False
        self.starts += 1
        self.restart_policy = "Always"
        self.cuts = [(0, how)] * self.open_count
        self._changed.set()

    def chunks_since(self, since_time: str | None) -> AsyncIterator[bytes]:
        return self._chunks(self._beginning(None, since_time), follow=False)

    def write(self, data: bytes) -> None:
        self.data += data
        self._changed.set()

    def lines(self, *texts: bytes, at: int = 0, step: int = 1) -> None:
        rows = (
            stamp(at + number * step) + b" " + text + b"\n" for number, text in enumerate(texts)
        )
        self.write(b"".join(rows))

    def let_go(self) -> None:
        self.held_at = None
        self._changed.set()

    def end(self) -> None:
        self.is_running = False
        self._changed.set()

    def vanish(self) -> None:
        """The pod is deleted."""
        self.exists = False
        self.cut()

    def cut(self) -> None:
        """Ends all connections that are open now."""
        self.cuts = [(0, "error")] * self.open_count
        self._changed.set()

    # --- what a tail does ---
    async def get(self, kind: str, namespace: str | None, name: str) -> dict[str, Any]:
        self.gets += 1
        if not self.exists:
            raise NotFound(404, "NotFound", "no pod")
        state = {"running": {}} if self.is_running else {"terminated": {"exitCode": 0}}
        before = {"terminated": {"containerID": str(self.starts - 1)}}
        return {
            "spec": {"restartPolicy": self.restart_policy},
            "status": {
                "phase": self.phase or "Running",
                "containerStatuses": [
                    {
                        "name": "main",
                        "state": state,
                        "lastState": before if self.starts > 1 else {},
                    }
                ],
            },
        }

    @asynccontextmanager
    async def logs(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        follow: bool,
        tail_lines: int | None = None,
        since_time: str | None = None,
        previous: bool = False,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.opened.append({"follow": follow, "tail_lines": tail_lines, "since_time": since_time})
        if not self.exists:
            raise NotFound(404, "NotFound", "no pod")
        if previous:
            yield self.previous.chunks_since(since_time)
            return
        if not self.has_started:
            raise Invalid(400, "BadRequest", "container is waiting to start")
        if not follow and tail_lines is not None:  # a look at how it ends, not what is followed
            yield self._chunks_of(self._beginning(tail_lines, since_time))
            return
        self.open_count += 1
        try:
            yield self._chunks(self._beginning(tail_lines, since_time), follow)
        finally:
            self.open_count -= 1

    def _beginning(self, tail_lines: int | None, since_time: str | None) -> int:
        starts, at = [0], 0
        while (at := self.data.find(b"\n", at) + 1) > 0:
            starts.append(at)
        if since_time is not None:
            second = since_time.rstrip("Z").encode()
            for at in starts:
                if self.data[at : at + 19] >= second:
                    return at
            return len(self.data)
        if tail_lines is not None:
            whole = starts if self.data[-1:] != b"\n" else starts[:-1]
            return whole[-tail_lines] if len(whole) > tail_lines else 0
        return 0

    async def _chunks_of(self, position: int) -> AsyncIterator[bytes]:
        while position < len(self.data):
            yield bytes(self.data[position : position + self.piece_bytes])
            position += self.piece_bytes

    async def _chunks(self, position: int, follow: bool) -> AsyncIterator[bytes]:
        left, how = self.cuts.pop(0) if self.cuts else (None, "")
        while True:
            self._changed.clear()
            ended = not self.is_running or not follow
            while position < (stop := len(self.data) if self.held_at is None else self.held_at):
                size = min(self.piece_bytes, stop - position)
                if left is not None:
                    size = min(size, left)
                if size:
                    yield bytes(self.data[position : position + size])
                position += size
                if left is not None:
                    left -= size
                    if left == 0:
                        break
            if left == 0:
                if how == "error":
                    raise Unavailable(0, "Cut", "the connection was cut")
                if how == "forbidden":
                    raise Forbidden(403, "Forbidden", "web cannot get pods/log")
                if how == "silent":
                    await asyncio.Event().wait()
                return
            if ended:
                return
            await self._changed.wait()
            if self.cuts and left is None:
                left, how = self.cuts.pop(0)


class Recorder:
    """A watcher that keeps what it gets."""

    wants_pause = False

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.outcome: Outcome | None = None
        self.gave_up = 0

    def batch_came(self, batch: Batch) -> None:
        self.batches.append(batch)

    def tail_ended(self, outcome: Outcome) -> None:
        self.outcome = outcome

    def give_up_pause(self) -> None:
        self.gave_up += 1

    @property
    def texts(self) -> list[str]:
        return texts(self.batches)


def texts(batches: list[Batch]) -> list[str]:
    import msgspec

    rows = [msgspec.json.decode(batch.encoded) for batch in batches]
    assert [len(row) for row in rows] == [batch.count for batch in batches]
    return [line["text"] for line in itertools.chain.from_iterable(rows)]


async def until(condition: Any, timeout_s: float = 30) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)


class FakeCluster:
    """Logs by pod name; an unknown pod is not there."""

    def __init__(self) -> None:
        self.pods: dict[str, FakeLog] = {}

    def _log(self, pod: str) -> FakeLog:
        if pod not in self.pods:
            raise NotFound(404, "NotFound", f"no pod {pod}")
        return self.pods[pod]

    async def get(self, kind: str, namespace: str | None, name: str) -> dict[str, Any]:
        return await self._log(name).get(kind, namespace, name)

    @asynccontextmanager
    async def logs(
        self, namespace: str, pod: str, container: str, **how: Any
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._log(pod).logs(namespace, pod, container, **how) as chunks:
            yield chunks
