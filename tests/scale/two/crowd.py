"""Viewers of live logs, who do what static/js/socket.js does: they come back with the last cursor, after the same waits.

As a program (`python -m tests.scale.two.crowd`) it is a crowd of them in a process of its own. What it is told and
tells are rows of JSON: who looks at what; `"here"`; `"begin"`, from which on is counted; `"end"`; what they saw.
How old a line is when it comes is told by the kernel's time of its last byte's arrival, so that it matters
neither how many viewers a process has nor what reading costs.
"""

import asyncio
import json
import random
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.viewers import Account, Target, Viewer
from tests.e2e.portal import ROOT

_SOCKET_JS = (ROOT / "static" / "js" / "socket.js").read_text()
_CURSOR = re.compile(rb'"cursor":"([^"]*)"')
_NUMBER = re.compile(rb"#(\d{9}) ")
_SO_TIMESTAMPNS = 35  # asm-generic/socket.h; its message is a timespec
_PACE_S = 0.02


def _of_js(pattern: str) -> list[int]:
    found = re.search(pattern, _SOCKET_JS)
    assert found is not None, f"socket.js has no {pattern}"
    return [int(number) for number in re.findall(r"\d+", found[1].replace("_", ""))]


_FIRST_MS = _of_js(r"FIRST_WAIT_MS = ([\d_]+);")[0]
_LONGEST_MS = _of_js(r"LONGEST_WAIT_MS = ([\d_]+);")[0]
_FINAL = _of_js(r"FINAL_CODES = new Set\(\[([\d, ]+)\]\)")


@dataclass(frozen=True)
class Seat:
    """What one viewer looks at, and by whose token."""

    job: str
    token: str


@dataclass
class Place(Account):
    """What one viewer got over all of its connections, from whatever line it begins with.

    Attributes:
        gap_s: the longest time without a line.
        connects: how often it has connected.
    """

    cursor: str = ""
    gap_s: float = 0.0
    connects: int = 0

    def take(self, raw: bytearray, start: int, end: int, now_ns: int) -> None:
        first = _NUMBER.search(raw, start, end)
        if first is not None:
            if not self.is_ready:
                self.next_number, self.is_ready = int(first[1]), True
            elif self.last_at:
                self.gap_s = max(self.gap_s, now_ns / 1e9 - self.last_at)
        found = _CURSOR.search(raw, start, end)
        if found is not None:
            self.cursor = found[1].decode()
        super().take(raw, start, end, now_ns)

    def begin(self) -> None:
        """What came before is not measured."""
        self.gap_s, self.lines, self.oldest_ms = 0.0, 0, []


class _Stamped(socket.socket):
    """One that keeps when the last bytes that were read of it came, ns since 1970."""

    came_ns = 0

    def recv_into(self, buffer: memoryview) -> int:
        size, told, *_ = self.recvmsg_into([buffer], 64)
        stamp = next((data for _, kind, data in told if kind == _SO_TIMESTAMPNS), None)
        seconds, ns = struct.unpack("qq", stamp) if stamp else divmod(time.time_ns(), 10**9)
        self.came_ns = seconds * 10**9 + ns
        return size


class _StampedViewer(Viewer):
    def __init__(self, target: Target, connection: _Stamped) -> None:
        super().__init__(target)
        self._connection = connection

    def _came_ns(self) -> int:
        return self._connection.came_ns


async def watch(port: int, seat: Seat, place: Place) -> None:
    """Looks at the log of a training until it is cancelled."""
    loop, tries = asyncio.get_running_loop(), 0
    while True:
        path = f"/ws/jobs/{seat.job}/logs/?replica=worker-0"
        path += f"&cursor={place.cursor}" if place.cursor else ""
        connection = _Stamped()
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        target = Target(port, path, (f"Authorization: Token {seat.token}",))
        viewer = _StampedViewer(target, connection)
        viewer.account = place
        place.connects += 1
        transport = None
        try:
            await loop.sock_connect(connection, ("127.0.0.1", port))
            transport, _ = await loop.create_connection(lambda: viewer, sock=connection)  # noqa: B023
            await viewer.is_open.wait()
            tries = tries if viewer.is_lost else 0
            await viewer.done.wait()
        except OSError as error:
            viewer.refusal = repr(error)
        finally:
            if transport is not None:
                transport.abort()
            else:
                connection.close()
        if any(viewer.refusal == f"closed with {code}" for code in _FINAL):
            place.wrong.append(viewer.refusal)
            return
        longest_ms = min(_LONGEST_MS, _FIRST_MS * 2**tries)
        tries += 1
        await asyncio.sleep(longest_ms / 1000 * (0.5 + random.random() / 2))


@dataclass
class Viewers:
    """One for each seat, from `come` until `leave`."""

    places: list[Place] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def come(self, port: int, seats: Sequence[Seat]) -> None:
        """Ends when each of them sees lines."""
        for seat in seats:
            self.places.append(Place())
            self._tasks.append(asyncio.create_task(watch(port, seat, self.places[-1])))
            await asyncio.sleep(_PACE_S)
        async with asyncio.timeout(60 + len(seats) / 5):
            while not all(place.is_ready for place in self.places):
                await asyncio.sleep(0.1)

    def begin(self) -> None:
        for place in self.places:
            place.begin()

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass
class Seen:
    """What a crowd saw since it was told to begin; `oldest_ms`, `skipped` and `wrong` as of an account."""

    lines: int
    skipped: int
    connects: int
    wrong: list[str]
    oldest_ms: list[float]


class Crowd:
    """Viewers in a process of their own, which ends with `end`; all calls block.

    People's browsers use no processor of the servers', so it gets only what these leave.
    """

    def __init__(self, port: int, seats: Sequence[Seat]) -> None:
        """They are there and see lines when this is done."""
        words = ["nice", "-n", "19", sys.executable, "-m", "tests.scale.two.crowd"]
        self._process = subprocess.Popen(
            words,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        # Where sessions share processors, niceness counts within one: sched(7), "The autogroup feature".
        with suppress(OSError):
            Path(f"/proc/{self._process.pid}/autogroup").write_text("19")
        self._say([port, [asdict(seat) for seat in seats]])
        assert self._hear() == "here"

    def begin(self) -> None:
        self._say("begin")

    def end(self) -> Seen:
        self._say("end")
        seen = Seen(**self._hear())
        self._process.wait(10)
        return seen

    def _say(self, what: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        told = self._process.stdout.readline()
        assert told, "a crowd ended by itself"
        return json.loads(told)


async def _main() -> None:
    async def heard() -> Any:
        told = await asyncio.to_thread(sys.stdin.readline)
        return json.loads(told or '"end"')  # who asked is gone

    port, seats = await heard()
    viewers = Viewers()
    await viewers.come(port, [Seat(**seat) for seat in seats])
    print(json.dumps("here"), flush=True)
    if await heard() == "begin":
        viewers.begin()
        await heard()
    places = viewers.places
    seen = Seen(
        sum(place.lines for place in places),
        sum(place.skipped for place in places),
        sum(place.connects for place in places),
        [text for place in places for text in place.wrong],
        [ms for place in places for ms in place.oldest_ms],
    )
    print(json.dumps(asdict(seen)), flush=True)
    await viewers.leave()


if __name__ == "__main__":
    asyncio.run(_main())
