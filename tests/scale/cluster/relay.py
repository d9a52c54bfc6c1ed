"""A TCP relay that counts: what passes through it is what the web server asks of the cluster."""

import socket
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self


@dataclass
class Relay:
    """Listens on a free port of loopback and passes everything on to `port`.

    Attributes:
        connections: how many were accepted.
        sent_bytes: what the clients sent; encrypted, so only their number means something.
    """

    port: int
    connections: int = 0
    sent_bytes: int = 0
    _listener: socket.socket = field(init=False, repr=False)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()

    @property
    def own_port(self) -> int:
        """Where clients connect to."""
        return int(self._listener.getsockname()[1])

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            self.connections += 1
            server = socket.create_connection(("127.0.0.1", self.port))
            for source, target in ((client, server), (server, client)):
                is_client = source is client
                threading.Thread(
                    target=self._pass, args=(source, target, is_client), daemon=True
                ).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_client: bool) -> None:
        try:
            while block := source.recv(65_536):
                if is_client:
                    self.sent_bytes += len(block)
                target.sendall(block)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            target.close()
