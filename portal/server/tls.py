"""The certificate with which the web server speaks HTTPS itself, read anew when its files change."""

import logging
import ssl
from pathlib import Path

from portal.errors import ConfigurationError

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
