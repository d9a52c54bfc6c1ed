"""A TCP proxy between Homeport and an API server, to cut, stall and refuse connections."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

_CHUNK = 65536
_LOOK_S = 0.1


class Wire:
    """Forwards to one address of loopback; TLS passes through. Close it at the end.

    Attributes:
        is_refusing: new connections are closed at once.
        stalled: connections (of those that were open at `stall`) that carry nothing any more.
    """

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.is_refusing = False
        self.stalled = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._dead: set[int] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def kubeconfig(self, original: Path, to: Path) -> Path:
        """A copy that goes through this proxy; keys keep their paths."""
        text = original.read_text()
        to.write_text(text.replace(f"127.0.0.1:{self._to[1]}", f"127.0.0.1:{self.port}"))
        return to

    def cut(self) -> None:
        """Ends all connections."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def stall(self) -> None:
        """All connections stay open and carry nothing; new ones are good."""
        with self._lock:
            self._dead |= {id(pair) for pair in self._pairs}
            self.stalled = len(self._dead)

    def open_count(self) -> int:
        """Connections that carry something."""
        with self._lock:
            alive = [pair for pair in self._pairs if pair[0].fileno() >= 0]
            return len([pair for pair in alive if id(pair) not in self._dead])

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
            pair = (near, far)
            with self._lock:
                self._pairs.append(pair)
            for one, other in (pair, pair[::-1]):
                threading.Thread(target=self._carry, args=(pair, one, other), daemon=True).start()

    def _carry(
        self, pair: tuple[socket.socket, socket.socket], one: socket.socket, other: socket.socket
    ) -> None:
        with suppress(OSError):
            while data := one.recv(_CHUNK):
                while id(pair) in self._dead:
                    # Held back, not lost: as on a network that has lost its way.
                    if threading.Event().wait(_LOOK_S) or other.fileno() < 0:
                        return
                other.sendall(data)
        for end in pair:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
