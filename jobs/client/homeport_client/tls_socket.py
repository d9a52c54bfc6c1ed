"""TLS for a connection that one thread reads while another one writes, as websockets' threaded client does.

OpenSSL takes one call at a time on a connection: "SSL objects cannot be safely used by multiple threads"
(https://docs.openssl.org/master/man7/openssl-threads/). Where a session ticket is read while a request is
sent, the request is lost, and both sides wait for each other.
"""

from __future__ import annotations

import selectors
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_LOOK_S = 0.5  # how soon whoever waits sees that the socket was closed meanwhile


class SharedTlsSocket(ssl.SSLSocket):
    """After its handshake no call waits within OpenSSL, and none begins before another one has ended."""

    _calls: threading.Lock | None = None  # none before the handshake, which one thread does
    _timeout_s: float | None = None

    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        self._timeout_s = self.gettimeout()
        super().settimeout(0)
        self._calls = threading.Lock()

    def settimeout(self, value: float | None, /) -> None:
        if self._calls is None:
            super().settimeout(value)
        else:
            self._timeout_s = value

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        return self._when_ready(super().recv, buflen, flags)

    def send(self, data: Any, flags: int = 0) -> int:
        return self._when_ready(super().send, data, flags)

    def _when_ready(self, call: Callable[..., T], *given: Any) -> T:
        assert self._calls is not None
        until = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while True:
            try:
                with self._calls:
                    return call(*given)
            except (ssl.SSLWantReadError, BlockingIOError):
                self._wait(selectors.EVENT_READ, until)
            except ssl.SSLWantWriteError:
                self._wait(selectors.EVENT_WRITE, until)

    def _wait(self, event: int, until: float | None) -> None:
        """
        Raises:
            TimeoutError: it is not ready in time.
            OSError: another thread has closed it.
        """
        while (fileno := self.fileno()) >= 0:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError("timed out")
            with selectors.DefaultSelector() as selector:
                selector.register(fileno, event)
                if selector.select(_LOOK_S):
                    return
        raise OSError("the connection was closed")
