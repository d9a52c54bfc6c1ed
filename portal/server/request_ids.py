"""Names each request: an ASGI layer in front of all others, so that a line of the log leads to its request."""

import re
import secrets

from portal.asgi_answer import App, Message, Receive, Send
from portal.log_lines import note

_HEADER = b"x-request-id"
_GIVEN = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


class RequestIds:
    """Takes the `X-Request-ID` that a load balancer gave, or gives one, and says it with the answer."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        given = [value for name, value in scope["headers"] if name == _HEADER]
        is_sane = len(given) == 1 and _GIVEN.fullmatch(given[0])
        name = given[0] if is_sane else secrets.token_hex(16).encode()
        note(request_id=name.decode())

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (_HEADER, name)]}
            await send(message)

        await self._app(scope, receive, send if scope["type"] == "websocket" else send_named)
