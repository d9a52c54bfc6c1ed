"""The certificate with which the web server speaks HTTPS itself, read anew when its files change."""

import asyncio
import logging
import ssl
from asyncio.sslproto import SSLProtocol, SSLProtocolState
from pathlib import Path
from typing import Any

from portal.errors import ConfigurationError
from portal.server.http_protocol import HEAD_S, HeadDeadlineProtocol
from portal.server.peers import peers

log = logging.getLogger(__name__)


def make_context(cert_file: str, key_file: str) -> ssl.SSLContext | None:
    """What the people's door speaks; None where both are empty: plain HTTP.

    Each new connection looks whether the files have changed. Those that cannot be used then (one of two
    was written, say) are told in the log, and the pair before goes on.

    Raises:
        ConfigurationError: the files are no pair that can be used.
    """
    if not cert_file and not key_file:
        return None
    pair = _Pair(cert_file, key_file)
    outer = pair.load()
    outer.sni_callback = pair.choose
    return outer


class _Pair:
    def __init__(self, cert_file: str, key_file: str) -> None:
        self._files = (cert_file, key_file)
        self._seen: tuple[int, ...] = ()
        self._current: ssl.SSLContext

    def load(self) -> ssl.SSLContext:
        try:
            seen = self._look()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self._files)
            # A ticket comes after the handshake, when clients with a thread for each direction (websockets' own, and
            # older command lines) already send: OpenSSL takes one call at a time, and what they sent is lost at times.
            context.num_tickets = 0
        except OSError as error:  # an SSLError is one
            raise ConfigurationError(
                f"TLS_CERT_FILE={self._files[0]!r} and TLS_KEY_FILE={self._files[1]!r} are no certificate "
                f"and its key: {error}; name two PEM files that belong together, or none"
            ) from error
        self._seen, self._current = seen, context
        return context

    def choose(self, connection: ssl.SSLObject, name: str | None, _first: ssl.SSLContext) -> None:
        """Called within each handshake, whether or not the browser names a host."""
        try:
            if self._look() != self._seen:
                self.load()
        except (OSError, ConfigurationError) as error:
            log.warning("The certificate from before goes on: %s", error)
        connection.context = self._current

    def _look(self) -> tuple[int, ...]:
        return tuple(Path(file).stat().st_mtime_ns for file in self._files)


class TlsProtocol(SSLProtocol):
    """A connection that speaks TLS first: its handshake is what the other side owes.

    As asyncio makes it for a server with `ssl`, except that it stands in the row of those that are
    waited for (`peers.py`) from its beginning on, and not only when the handshake is done; and again from when it
    is being closed, as the other side may take its time for that.
    """

    # One record. Each connection has as much of a buffer from its beginning, before anything is said; asyncio's 256 KiB
    # are 512 MiB for 2,000 that are silent.
    max_size = 16 * 1024

    def __init__(self, context: ssl.SSLContext, **options: Any) -> None:
        """
        Args:
            options: of the HTTP protocol inside.
        """
        loop = asyncio.get_running_loop()
        inner = HeadDeadlineProtocol(**options)
        inner.outer = self
        # Nobody waits for the connection to be made; the types know only of those that open one.
        nobody: Any = None
        super().__init__(
            loop, inner, context, nobody, server_side=True, ssl_handshake_timeout=int(HEAD_S)
        )
        self.began_at = loop.time()

    def connection_made(self, transport: Any) -> None:
        self._below = transport
        peers.wait(self, HEAD_S)
        super().connection_made(transport)

    def _on_handshake_complete(self, handshake_exc: BaseException | None) -> None:
        peers.let_go(self)
        super()._on_handshake_complete(handshake_exc)

    def _start_shutdown(self) -> None:
        if self._state is SSLProtocolState.WRAPPED:  # type: ignore[attr-defined] # asyncio's own
            peers.wait(self)  # asyncio itself ends it in time
        super()._start_shutdown()

    def untaken_bytes(self) -> int:
        """What waits to be sent, encrypted already."""
        return int(self._below.get_write_buffer_size())

    def connection_lost(self, exc: BaseException | None) -> None:
        peers.let_go(self)
        super().connection_lost(exc)

    def give_up(self) -> None:
        peers.let_go(self)
        self._below.abort()
