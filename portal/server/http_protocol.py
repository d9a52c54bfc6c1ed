"""uvicorn's HTTP protocol with a deadline for what the other side does, which uvicorn has not.

- A head has to come whole within `HEAD_S`. Bodies have their deadline in `bodies.py`, the pause between two
  requests in uvicorn itself.
- An answer has to be taken: who takes nothing of it for `TAKE_S` is left. So a connection cannot be held
  open by not reading either, whatever was asked for.
- A request to speak websocket is small (`websocket_protocol.py`).
- `Content-Length` beside `Transfer-Encoding` is 400 and the end of the connection (RFC 9112, 6.3): what
  stands in front of us may have believed the other one.

All that are waited for stand in one row (`peers.py`), so that descriptors are left for everybody else.

What comes after a large body on the same connection is read in the context of that request (asyncio
keeps the one in which reading was taken up again), which leads to a thread that others have by then.
So each request begins with a new context: by `reset_contextvars` in `serve`, a websocket here.
"""

import sys
from contextvars import Context
from enum import Enum
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from portal.server.peers import peers, taken_bytes
from portal.server.websocket_protocol import MAX_HEAD_BYTES, MAX_HEADERS

HEAD_S = 15.0
TAKE_S = 60.0
_TOO_LONG = 431


class _Owed(Enum):
    """What the other side has to do."""

    HEAD = "a head, within a time"
    NEXT = "another request, if it likes"
    BODY = "the rest of a body"
    TAKING = "to take what is sent"


class _StrictConnection(h11.Connection):
    """h11's connection; refuses what it would take with a choice of its own."""

    def next_event(self) -> Any:
        """
        Raises:
            h11.RemoteProtocolError: as h11's, and for two lengths of one body.
        """
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _value in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("Content-Length beside Transfer-Encoding")
        return event


class HeadDeadlineProtocol(H11Protocol):  # type: ignore[misc] # uvicorn is not followed by mypy
    """Ends a connection whose other side does not do what it has to, in time.

    Attributes:
        began_at: when the head that is owed was begun, on the loop's clock, or its connection; 0: none is.
        outer: what carries this connection (TLS); None: nothing does.
    """

    began_at = 0.0
    outer: Any = None
    _owed: _Owed | None = None
    _taken: tuple[int, int] = (0, 0)
    _is_over = False  # lost, or another protocol's

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        size = self.config.h11_max_incomplete_event_size
        self.conn = _StrictConnection(h11.SERVER, *(() if size is None else (size,)))

    # --- what asyncio and uvicorn call ---
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.outer is not None:
            self.began_at = self.outer.began_at
        self._note()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_until_taken()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        peers.let_go(self)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        size = len(event.method) + len(event.target) + len(b"  HTTP/1.1\r\n\r\n")
        size += sum(len(name) + len(value) + len(b": \r\n") for name, value in event.headers)
        if size > MAX_HEAD_BYTES or len(event.headers) > MAX_HEADERS:
            text = (
                f"A request to speak websocket has at most {MAX_HEAD_BYTES:,} bytes and "
                f"{MAX_HEADERS} headers."
            )
            self._refuse(_TOO_LONG, text)
            return
        self._is_over = True
        peers.let_go(self)
        Context().run(super().handle_websocket_upgrade, event)

    def send_400_response(self, msg: str) -> None:
        error = sys.exc_info()[1]
        if getattr(error, "error_status_hint", 400) == _TOO_LONG:
            self._refuse(_TOO_LONG, "The head of the request is too long.")
        else:
            self._refuse(400, msg)

    # --- what is owed ---
    def give_up(self) -> None:
        peers.let_go(self)
        self.transport.abort()

    def _note(self) -> None:
        """Looks again at what the other side has to do."""
        if self._is_over:
            return
        if self._untaken_bytes() or self.flow.write_paused:
            if self._owed is not _Owed.TAKING:
                self._wait_until_taken()
            return
        owed = self._find_owed()
        if owed is self._owed and owed is not _Owed.BODY:
            return
        self._owed = owed
        if owed is _Owed.HEAD:
            now = self.loop.time()
            self.began_at = self.began_at or now
            peers.wait(self, max(0.0, self.began_at + HEAD_S - now))
            return
        self.began_at = 0.0
        if owed is None:
            peers.let_go(self)
        else:
            peers.wait(self)

    def _find_owed(self) -> _Owed | None:
        if self.transport.is_closing():
            return None
        if self.timeout_keep_alive_task is not None:
            return _Owed.NEXT
        if self.conn.their_state is h11.IDLE:
            return _Owed.HEAD
        if self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.SEND_RESPONSE:
            return _Owed.BODY
        return None

    def _wait_until_taken(self) -> None:
        self._owed, self._taken = _Owed.TAKING, self._find_taken()
        held = self._untaken_bytes()
        peers.wait(self, TAKE_S, self._look_whether_taken, held_bytes=held)

    def _look_whether_taken(self) -> None:
        peers.let_go(self)
        if self._taken == self._find_taken() and self._untaken_bytes():
            self.give_up()
            return
        self._owed = None
        self._note()

    def _find_taken(self) -> tuple[int, int]:
        return taken_bytes(self.transport), self._untaken_bytes()

    def _untaken_bytes(self) -> int:
        """What waits here to be taken, of all layers."""
        below = 0 if self.outer is None else self.outer.untaken_bytes()
        return int(self.transport.get_write_buffer_size()) + below

    def _refuse(self, status: int, text: str) -> None:
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.abort()  # an answer has begun, and cannot become another one
            return
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        reason = STATUS_PHRASES[status]
        for event in (
            h11.Response(status_code=status, headers=headers, reason=reason),
            h11.Data(data=text.encode()),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))
        self.transport.close()
