"""Viewers of a training's log that are no browsers: one that counts, one that never reads."""

import base64
import os
import re
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import msgspec
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.e2e.portal import Rest

NUMBER = re.compile(r"^(\d{12})\b")
GAP = re.compile(r"^\[homeport\] (\d+) lines were skipped here")


class _Line(msgspec.Struct, gc=False):
    t: str
    text: str


class _Frame(msgspec.Struct):
    type: str
    replica: str = ""
    cursor: str = ""
    lines: list[_Line] = []
    count: int = 0


def logs_url(rest: Rest, job: dict[str, Any]) -> str:
    return f"ws://localhost:{rest.portal.port}/ws/jobs/{job['id']}/logs/?replica=worker-0"


@dataclass
class Counting:
    """Reads a log whose lines begin with their number (12 digits), and keeps account.

    Attributes:
        received: numbered lines.
        skipped: lines that did not come, by `skipped` frames and by the runner's own lines.
        broken: every place where a gap and what was said in front of it differ.
        delays_s: of lines that say `at <unix time>` behind their number.
        code: how the connection was closed.
    """

    rest: Rest
    job: dict[str, Any]
    first: int | None = None
    expected: int = 0
    received: int = 0
    skipped: int = 0
    received_bytes: int = 0
    broken: list[str] = field(default_factory=list)
    delays_s: list[float] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    has_ended: bool = False
    code: int | None = None
    error: Exception | None = None
    _pending: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leaves, and raises what went wrong on the way."""
        assert self._thread is not None
        self._stop.set()
        self._thread.join(10)
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            with connect(
                logs_url(self.rest, self.job),
                additional_headers={"Authorization": f"Token {self.rest.token}"},
                max_size=None,
                compression=None,
            ) as connection:
                self._read(connection)
                self.code = connection.close_code
        except Exception as error:  # noqa: BLE001 - it belongs to the test, not to its thread
            self.error = error  # raised by `stop`

    def _read(self, connection: ClientConnection) -> None:
        decoder = msgspec.json.Decoder(_Frame)
        while not self._stop.is_set():
            try:
                text = connection.recv(timeout=1)
            except TimeoutError:
                continue
            except ConnectionClosed:
                return
            frame = decoder.decode(text)
            if frame.type == "lines":
                self.received_bytes += len(text)
                self._take(frame.lines)
            elif frame.type == "skipped":
                self._skip(frame.count)
            elif frame.type == "end":
                self.has_ended = True

    def _skip(self, count: int) -> None:
        self.skipped += count
        self._pending += count

    def _take(self, lines: list[_Line]) -> None:
        now_s = time.time()
        for line in lines:
            match = NUMBER.match(line.text)
            gap_line = GAP.match(line.text)
            if gap_line is not None:
                self._skip(int(gap_line.group(1)))
                continue
            if match is None:
                self.others.append(line.text[:200])
                continue
            number = int(match.group(1))
            if self.first is None:
                self.first = self.expected = number
                self.skipped = self._pending = 0
            gap = number - self.expected
            if gap != self._pending:
                self.broken.append(
                    f"line {number} follows {self.expected - 1}, {self._pending} skipped"
                )
            self._pending = 0
            self.expected = number + 1
            self.received += 1
            if line.text.startswith(" at ", 12):
                self.delays_s.append(now_s - float(line.text[16:]))

    def p99_delay_s(self) -> float:
        return sorted(self.delays_s)[int(len(self.delays_s) * 0.99)]


class Stuck:
    """Opens a log and never reads from its socket."""

    def __init__(self, rest: Rest, job: dict[str, Any]) -> None:
        self._socket = socket.create_connection(("localhost", rest.portal.port), timeout=10)
        key = base64.b64encode(os.urandom(16)).decode()
        path = logs_url(rest, job).partition(str(rest.portal.port))[2]
        head = (
            f"GET {path} HTTP/1.1\r\nHost: localhost:{rest.portal.port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
            f"Authorization: Token {rest.token}\r\n\r\n"
        )
        self._socket.sendall(head.encode())
        answer = self._socket.recv(12)
        assert answer == b"HTTP/1.1 101", answer

    def read_to_the_end(self, timeout_s: float) -> bytes:
        """All that was still on its way; the last bytes of it."""
        self._socket.settimeout(timeout_s)
        last = b""
        try:
            while data := self._socket.recv(1024**2):
                last = (last + data)[-64:]
        except ConnectionResetError:
            pass
        self.close()
        return last

    def close(self) -> None:
        self._socket.close()
