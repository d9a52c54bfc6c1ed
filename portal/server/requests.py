"""Names and counts each request: an ASGI layer in front of all others.

By its name a line of the log leads to its request. What is counted has no path, for there are ids in
it: the route is the name of Django's pattern, which who answers says.
"""

import re
import secrets
import time

from prometheus_client import Counter

from portal import metrics
from portal.asgi_answer import App, Message, Receive, Send
from portal.log_lines import note

MOST_SERIES = 200  # of requests; the routes of what comes beyond it are not told apart
_HEADER = b"x-request-id"
_GIVEN = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_LEFT = 499

_counters: dict[tuple[str, str, int], Counter] = {}


class Requests:
    """Takes the `X-Request-ID` that a load balancer gave, or gives one, and says it with the answer."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        given = [value for name, value in scope["headers"] if name == _HEADER]
        is_sane = len(given) == 1 and _GIVEN.fullmatch(given[0])
        name = given[0] if is_sane else secrets.token_hex(16).encode()
        note(request_id=name.decode())
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        began_at, status = time.monotonic(), _LEFT
        route = scope["route"] = {"name": "none"}

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], (_HEADER, name)]}
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        except Exception:
            status = 500 if status == _LEFT else status  # the server says so
            raise
        finally:
            if route["name"]:
                count(route["name"], scope["method"], status)
                metrics.HTTP_SECONDS.observe(time.monotonic() - began_at)


def count(route: str, method: str, status: int) -> None:
    """One request was answered."""
    method = method if method in _METHODS else "other"
    counter = _counters.get((route, method, status))
    if counter is None:
        route = route if len(_counters) < MOST_SERIES else "other"
        counter = metrics.HTTP_REQUESTS.labels(route, method, str(status))
        _counters[route, method, status] = counter
    counter.inc()
