"""Viewers of logs that cost as little as possible, and keep account of every line.

A viewer takes websocket frames apart itself (https://www.rfc-editor.org/rfc/rfc6455#section-5.2) and looks
only at how many lines a message has and at the numbers of the first and the last. Numbers that do not
follow each other must have been announced in front of the gap, with the right count.
"""

import asyncio
import base64
import os
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from tests.bench.fakelogs import END, LINE_BYTES

_END = END.encode()
_NUMBER = re.compile(rb"#(\d{9}) ")
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{9})Z")
_SKIPPED = re.compile(rb'\{"type":"skipped","replica":"[^"]*","count":(\d+)\}$')
_OPEN_AT_ONCE = 20
_PING = bytes([0x89, 0x80, 0, 0, 0, 0])


@dataclass(frozen=True)
class Target:
    """Where one viewer looks, and what it shows of itself (`Name: text`, one row each).

    Attributes:
        buffer_bytes: the system's, for what was not read yet; 0: as it likes.
    """

    port: int
    path: str
    headers: tuple[str, ...] = ()
    buffer_bytes: int = 0

    def socket(self) -> socket.socket:
        made = socket.socket()
        if self.buffer_bytes:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.buffer_bytes)
        made.setblocking(False)
        return made


@dataclass
class Account:
    """What one viewer got.

    Attributes:
        is_ready: line 0 came, which is written before a measurement begins and not counted.
        next_number: of the line that has to come next.
        lines: that came.
        skipped: that did not come, and were announced.
        wrong: a sentence for each place where a gap and its announcement differ.
        oldest_ms: for each message, how old its first line was.
    """

    is_ready: bool = False
    next_number: int = 1
    lines: int = 0
    skipped: int = 0
    wrong: list[str] = field(default_factory=list)
    oldest_ms: list[float] = field(default_factory=list)
    first_at: float = 0.0
    last_at: float = 0.0
    _announced: int = 0

    def skip(self, count: int) -> None:
        self.skipped += count
        self._announced += count

    def take(self, raw: bytearray, start: int, end: int, now_ns: int) -> None:
        """A message, which lies between two places of `raw`; one without lines changes nothing."""
        count = raw.count(_END, start, end)
        if not count:
            skipped = _SKIPPED.match(raw, start, end)
            if skipped is not None:
                self.skip(int(skipped[1]))
            return
        first = _NUMBER.search(raw, start, end)
        last = _NUMBER.match(raw, raw.rfind(b"#", start, end), end)
        if first is None or last is None:
            self.wrong.append(f"lines without numbers: {bytes(raw[start : start + 80])!r}")
            return
        begins, ends = int(first[1]), int(last[1])
        if begins == 0 and not self.is_ready:
            self.is_ready = True
            begins, count = 1, count - 1
            if not count:
                return
        if ends - begins + 1 != count:
            self.wrong.append(f"{count} lines from {begins} to {ends}")
        if begins != self.next_number + self._announced:
            self.wrong.append(
                f"line {begins} follows {self.next_number - 1}, {self._announced} announced"
            )
        self._announced = 0
        self.next_number = ends + 1
        self.lines += count
        self.last_at = now_ns / 1e9
        self.first_at = self.first_at or self.last_at
        stamp = _STAMP.search(raw, start, end)
        if stamp is not None:
            self.oldest_ms.append((now_ns - _ns_of(stamp[1], stamp[2])) / 1e6)

    def lost_silently(self, written: int) -> int:
        """Lines of `written` ones that neither came nor were announced, or were announced wrongly."""
        missing = abs(written - self.lines - self.skipped)
        return max(missing, len(self.wrong))


@lru_cache(maxsize=64)
def _second(text: bytes) -> int:
    return int(datetime.fromisoformat(text.decode()).replace(tzinfo=UTC).timestamp()) * 10**9


def _ns_of(second: bytes, digits: bytes) -> int:
    return _second(second) + int(digits)


# What comes is taken over at once, so one buffer does for all of one event loop.
_buffer = memoryview(bytearray(512 * 1024))


class Viewer(asyncio.BufferedProtocol):
    """One websocket; `account` is what came through it."""

    def __init__(self, target: Target) -> None:
        """`done` is set when `expected` lines came or were announced as missing."""
        self.account = Account()
        self.expected = 0
        self.is_open = asyncio.Event()
        self.done = asyncio.Event()
        self.pong = asyncio.Event()
        self.refusal = ""
        self.is_lost = False
        self._target = target
        self._raw = bytearray()
        self._has_head = False
        self._transport: asyncio.Transport

    # --- what the event loop calls ---
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        rows = [
            f"GET {self._target.path} HTTP/1.1",
            f"Host: localhost:{self._target.port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
            *self._target.headers,
        ]
        transport.write("\r\n".join([*rows, "", ""]).encode())

    def get_buffer(self, sizehint: int) -> memoryview:
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._raw += _buffer[:nbytes]
        if not self._has_head:
            end = self._raw.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._raw[:end])
            del self._raw[: end + 4]
            self._has_head = True
            if not head.startswith(b"HTTP/1.1 101"):
                self.refusal = head[:200].decode(errors="replace")
                self._transport.abort()
                return
            self.is_open.set()
        self._read_frames()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self.is_open.set()
        self.done.set()

    # --- frames ---
    def _came_ns(self) -> int:
        """When the last bytes came, since 1970."""
        return time.time_ns()

    def _read_frames(self) -> None:
        raw, at, now_ns = self._raw, 0, self._came_ns()
        while len(raw) - at >= 2:
            opcode, length, start = raw[at] & 15, raw[at + 1] & 127, at + 2
            if length >= 126:
                width = 2 if length == 126 else 8
                start += width
                if len(raw) < start:
                    break
                length = int.from_bytes(raw[start - width : start])
            if len(raw) < start + length:
                break
            at = start + length
            if opcode == 1:
                self.account.take(raw, start, at, now_ns)
            else:
                self._control(opcode, bytes(raw[start:at]))
        del raw[:at]
        if self.expected and self.account.lines + self.account.skipped >= self.expected:
            self.done.set()

    def _control(self, opcode: int, message: bytes) -> None:
        if opcode == 10:
            self.pong.set()
        elif opcode == 9:
            self._transport.write(bytes([0x8A, 0x80, 0, 0, 0, 0]))
        elif opcode == 8:
            self.refusal = f"closed with {int.from_bytes(message[:2])}"
            self._transport.write(bytes([0x88, 0x80, 0, 0, 0, 0]))
            self._transport.close()  # as a browser does

    # --- what a measurement calls ---
    async def ping_s(self) -> float:
        """How long the other side's event loop takes for the least that it can be asked."""
        self.pong.clear()
        began = time.perf_counter()
        self._transport.write(_PING)
        await self.pong.wait()
        return time.perf_counter() - began

    def stall(self) -> None:
        """Reads nothing from now on."""
        self._transport.pause_reading()

    def go_on(self) -> None:
        self._transport.resume_reading()

    def leave(self) -> None:
        self._transport.abort()


async def arrive(targets: Sequence[Target]) -> list[Viewer]:
    """One viewer for each target, all of them let in.

    Raises:
        AssertionError: one was refused; the text has the other side's words.
    """
    loop = asyncio.get_running_loop()
    viewers: list[Viewer] = []
    for number, target in enumerate(targets):
        viewer = Viewer(target)
        connection = target.socket()
        await loop.sock_connect(connection, ("127.0.0.1", target.port))
        await loop.create_connection(lambda viewer=viewer: viewer, sock=connection)
        viewers.append(viewer)
        if number % _OPEN_AT_ONCE == _OPEN_AT_ONCE - 1:
            await asyncio.sleep(0.02)
    async with asyncio.timeout(60):
        for viewer in viewers:
            await viewer.is_open.wait()
            assert not viewer.is_lost, viewer.refusal
    return viewers


@dataclass(frozen=True)
class Delivered:
    """What all viewers together got of what was written for each."""

    lines: int
    skipped: int
    silently_lost: int
    wrong: tuple[str, ...]
    seconds: float
    oldest_ms: tuple[float, ...]

    @property
    def mb(self) -> float:
        """The programs' own bytes, in 10^6: the same for both sides, whatever is put around them."""
        return self.lines * LINE_BYTES / 1e6

    @property
    def lines_per_s(self) -> float:
        return self.lines / self.seconds if self.seconds > 0 else 0.0

    def oldest_p99_ms(self) -> float:
        return percentile(self.oldest_ms, 0.99)


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def delivered(viewers: Sequence[Viewer]) -> Delivered:
    """The accounts together; `expected` lines were written for each viewer."""
    accounts = [viewer.account for viewer in viewers]
    starts = [account.first_at for account in accounts if account.first_at]
    return Delivered(
        lines=sum(account.lines for account in accounts),
        skipped=sum(account.skipped for account in accounts),
        silently_lost=sum(viewer.account.lost_silently(viewer.expected) for viewer in viewers),
        wrong=tuple(text for account in accounts for text in account.wrong)[:5],
        seconds=max(account.last_at for account in accounts) - min(starts) if starts else 0.0,
        oldest_ms=tuple(ms for account in accounts for ms in account.oldest_ms),
    )
