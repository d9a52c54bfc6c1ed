"""However an answer ends, its place among a person's downloads is free again."""

import asyncio
import io
from collections.abc import AsyncIterator

import pytest
from django.core.handlers.asgi import ASGIRequest
from django.http import StreamingHttpResponse
from django.urls import reverse

from portal.asgi_answer import Message, Receive, Send
from portal.server.download_door import DownloadDoor
from portal.web import downloads
from portal.web.streaming import streamed
from tests.portal.routes.limits import STREAMING

PERSON = 4711
kept: list[StreamingHttpResponse] = []  # as a traceback keeps an answer that is not closed


class _Person:
    pk = PERSON


async def _nothing() -> AsyncIterator[bytes]:
    yield b""


@pytest.mark.parametrize("error", [asyncio.CancelledError, OSError, None])
def test_its_place_is_free_again(error: type[BaseException] | None) -> None:
    async def app(scope: Message, _receive: Receive, _send: Send) -> None:
        request = ASGIRequest(scope, io.BytesIO())
        request.user = _Person()  # type: ignore[assignment]
        kept.append(streamed(request, _nothing(), content_type="text/plain", file_name=None))
        assert downloads.places.count(PERSON) == 1
        if error is not None:
            raise error

    async def receive() -> Message:
        return {}

    async def send(_message: Message) -> None:
        pass

    async def ask() -> None:
        path = reverse("audit-csv")
        scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
        await DownloadDoor(app, STREAMING, lambda _scope: "a badge")(scope, receive, send)

    if error is None:
        asyncio.run(ask())
    else:
        with pytest.raises(error):
            asyncio.run(ask())
    assert downloads.places.count(PERSON) == 0
