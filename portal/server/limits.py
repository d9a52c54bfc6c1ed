"""How many requests are answered at once, in this process: an ASGI layer around Django.

It counts requests whose body has come, so that nobody who sends slowly keeps others out. Websockets
have limits of their own (tenants/sockets.py).
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

# Far more than the people of a lab cause: it is there so that memory has a bound.
MAX_REQUESTS = 2000
_WAIT_S = 2


class RequestLimit:
    """Passes on at most `most` requests at once; the others are told to come again (503)."""

    def __init__(self, app: App, most: int = MAX_REQUESTS) -> None:
        self._app = app
        self._most = most
        self._count = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if self._count >= self._most:
            await _refuse(send)
            return
        self._count += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._count -= 1


async def _refuse(send: Send) -> None:
    text = "Too many requests are being answered at the moment. Try again soon."
    body = json.dumps({"errors": [{"field": "", "code": "unavailable", "text": text}]}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"retry-after", b"%d" % _WAIT_S),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})
