"""What the ASGI layers around Django answer by themselves: whole, and errors in the form of REST."""

import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]

# For a request of which the rest is not read.
CLOSE = (b"connection", b"close")
REPORT_PODS = "homeport.report_pods"  # in the scope of a request by the pods' door
STRANGERS = ""  # by what calls by that door are counted whose token or link is not valid


def name_route(scope: Message, name: str) -> None:
    """Says by which route a request is answered, for who counts them; empty: it is not to be counted.

    Layers between may give on a copy of the scope, so the name has a place that all of them share.
    """
    scope.get("route", {})["name"] = name


def report_pods(scope: Message, count: int, holder: str | None = None) -> None:
    """Says how many pods share the token of a request, for the layer that limits their calls.

    Args:
        holder: by what later calls of these pods are counted; None: by what this one is.
    """
    report = scope.get(REPORT_PODS)
    if report is not None:
        report(count, holder)


async def send_answer(
    send: Send,
    status: int,
    body: bytes,
    content_type: bytes,
    headers: Headers = (),
    *,
    is_head: bool = False,
) -> None:
    """A whole answer; of one to HEAD the body is only measured."""
    told = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": b"" if is_head else body})


def retry_after(wait_s: int | None) -> Headers:
    """The header, where another try may help."""
    return [(b"retry-after", b"%d" % wait_s)] if wait_s else []


async def send_error(send: Send, status: int, code: str, text: str, headers: Headers = ()) -> None:
    """`{"errors": [{"field", "code", "text"}]}`, as REST says it."""
    error = {"field": "", "code": code, "text": text}
    body = json.dumps({"errors": [error]}).encode()
    await send_answer(send, status, body, b"application/json", headers)
