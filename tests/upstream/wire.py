"""A TCP proxy between Homeport and an API server, to cut, stall and refuse connections."""

import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 65536
_LOOK_S = 0.1


@dataclass(eq=False)
class Line:
    """One connection; stalled, it stays open and carries nothing."""

    near: socket.socket
    far: socket.socket
    is_stalled: bool = False
    is_over: bool = False

    def end(self) -> None:
        self.is_over = True
        for one in (self.near, self.far):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


class Wire:
    """Forwards to one port of loopback; TLS passes through. Close it at the end.

    Attributes:
        is_refusing: new connections are closed at once.
    """

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.is_refusing = False
        self._lines: set[Line] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def kubeconfig(self, original: Path, to: Path) -> Path:
        """A copy that goes through this proxy; keys keep their paths."""
        text = original.read_text()
        to.write_text(text.replace(f"127.0.0.1:{self._to[1]}", f"127.0.0.1:{self.port}"))
        return to

    def open_count(self) -> int:
        """Connections that carry something."""
        with self._lock:
            return sum(not line.is_stalled for line in self._lines)

    def cut(self) -> None:
        """Ends all connections."""
        with self._lock:
            lines = list(self._lines)
        for line in lines:
            line.end()

    def stall(self) -> list[Line]:
        """All connections stay open and carry nothing; new ones are good."""
        with self._lock:
            lines = list(self._lines)
        for line in lines:
            line.is_stalled = True
        return lines

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.is_refusing:
                near.close()
                continue
            try:
                far = socket.create_connection(self._to)
            except OSError:
                near.close()
                continue
            line = Line(near, far)
            with self._lock:
                self._lines.add(line)
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(line, one, other), daemon=True).start()

    def _carry(self, line: Line, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(_CHUNK):
                # Held back, not lost: as on a network that has lost its way.
                while line.is_stalled and not line.is_over:
                    time.sleep(_LOOK_S)
                other.sendall(data)
        line.end()
        with self._lock:
            self._lines.discard(line)
