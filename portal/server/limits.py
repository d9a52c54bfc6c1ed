"""How many requests are answered at once, in this process: an ASGI layer around Django.

It counts requests whose body has come, so that nobody who sends slowly keeps others out. Websockets
have limits of their own (tenants/sockets.py).
"""

from portal.asgi_answer import App, Message, Receive, Send, retry_after, send_error

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
            text = "Too many requests are being answered at the moment. Try again soon."
            await send_error(send, 503, "unavailable", text, retry_after(_WAIT_S))
            return
        self._count += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._count -= 1
