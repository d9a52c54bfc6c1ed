"""uvicorn's protocol of websockets with an end for those that neither begin nor leave.

The library that reads the head again has limits of its own, and where one does not suit it, it is silent
and keeps the connection. So a head is small (`MAX_HEAD_BYTES`, `MAX_HEADERS`, looked at before), what the
library refuses all the same is 400, and a connection ends that was not accepted in time, or that should
be closed and is not.
"""

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from portal.server.peers import peers

MAX_HEAD_BYTES = 8192  # request line and headers, with their line ends
MAX_HEADERS = 100
ACCEPT_S = 20.0  # from the beginning of its connection's request
MIN_ACCEPT_S = 5.0  # of it, for us
END_S = 20.0
_NOT_READABLE = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 54\r\nconnection: close\r\n\r\n"
    b"This request to speak websocket cannot be understood.\n"
)


class WebsocketProtocol(WebSocketsSansIOProtocol):  # type: ignore[misc] # uvicorn is not followed by mypy
    """Ends a connection that is not accepted within `ACCEPT_S`, or not closed `END_S` after it should be."""

    _is_ending = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # What is replaced by this protocol knows when the request began.
        began_at = getattr(transport.get_protocol(), "began_at", None) or self.loop.time()
        left_s = began_at + ACCEPT_S - self.loop.time()
        peers.wait(self, max(MIN_ACCEPT_S, left_s))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated and self.conn.handshake_exc is not None:
            self.transport.write(_NOT_READABLE)
            self.handshake_complete = self.close_sent = True
            self.transport.close()
        self._note()

    async def run_asgi(self) -> None:
        await super().run_asgi()
        self._note()

    async def send(self, message: Any) -> None:
        await super().send(message)
        self._note()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        peers.let_go(self)

    def give_up(self) -> None:
        peers.let_go(self)
        self.transport.abort()

    def _note(self) -> None:
        if self.disconnected or self._is_ending:
            return
        if self.close_sent or self.transport.is_closing():
            self._is_ending = True
            peers.wait(self, END_S)
        elif self.handshake_complete:
            peers.let_go(self)
