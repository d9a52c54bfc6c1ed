"""Downloads that are sent as they are read.

Django reads a synchronous iterator WHOLE into memory before it sends it under ASGI
(https://docs.djangoproject.com/en/5.2/ref/request-response/#streaminghttpresponse-objects), so
each step of the iterator is taken in the request's own thread instead.
"""

import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import IO, Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header
from django.utils.translation import gettext_lazy as _

from portal import characters
from portal.storage.store import READ_BYTES
from portal.web import downloads

FILE_CHUNK_BYTES = READ_BYTES


_NOT_FOUND = _("Not found")


class AbsentError(Http404):
    """What was asked for is not there. Unlike that of other 404s, its text is for people."""

    def __init__(self, text: str, title: Any = _NOT_FOUND) -> None:
        """
        Args:
            title: of the page that says so.
        """
        super().__init__(text)
        self.title = title


async def threaded(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same chunks; `chunks` is closed when the reader goes away."""

    def next_chunk() -> bytes | None:
        # StopIteration cannot pass through a future, so the end is a value.
        return next(chunks, None)

    take = sync_to_async(next_chunk, thread_sensitive=True)
    try:
        while (chunk := await take()) is not None:
            yield chunk
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            await sync_to_async(close, thread_sensitive=True)()


def file_chunks(file: IO[bytes]) -> Iterator[bytes]:
    """A file in pieces; closed at its end."""
    with file:
        while chunk := file.read(FILE_CHUNK_BYTES):
            yield chunk


class _Streamed(StreamingHttpResponse):
    """Gives its place back when it is over."""

    give_back: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        if self.give_back is not None:
            self.give_back()


def streamed(
    request: HttpRequest,
    chunks: Iterator[bytes] | AsyncIterator[bytes],
    *,
    content_type: str,
    file_name: str | None,
    is_download: bool = True,
) -> StreamingHttpResponse:
    """An answer that is sent as it is read and that browsers never sniff.

    Args:
        request: decides how chunks are taken.
        chunks: the bytes; an asynchronous iterator under ASGI only.
        content_type: as HTTP says it.
        file_name: browsers save it under this name, with dashes for its hidden characters; None:
            they may show it.
        is_download: counts as one of the person's until it is closed; False: it is a pod's, which has
            limits of its own.

    Raises:
        portal.errors.Refused: the person has as many as may be at once, or all have.
    """
    give_back = downloads.places.take(request.user.pk) if is_download else None
    content: Any = chunks
    if isinstance(chunks, Iterator) and isinstance(request, ASGIRequest):
        content = threaded(chunks)
    answer = _Streamed(content, content_type=content_type)
    if give_back is not None:
        answer.give_back = give_back
        # One that is broken off is not closed; the door gives its place back (portal/server/download_door.py).
        if hold := getattr(request, "scope", {}).get(downloads.HOLD):
            hold(give_back)
        weakref.finalize(answer, give_back)
    if file_name is not None:
        shown = characters.replace_hidden(file_name, "-")
        answer["Content-Disposition"] = content_disposition_header(True, shown) or "attachment"
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
