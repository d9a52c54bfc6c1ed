"""Downloads are sent as they are read."""

import asyncio
import io
import threading
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.handlers.asgi import ASGIRequest
from django.test import AsyncRequestFactory, RequestFactory

from portal.web.streaming import FILE_CHUNK_BYTES, file_chunks, streamed, threaded


class Source:
    """Counts what was asked of it, and whether it was closed."""

    def __init__(self) -> None:
        self.taken = 0
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        self.taken += 1
        if self.taken > 1000:
            raise StopIteration
        return b"x"

    def close(self) -> None:
        self.is_closed = True


async def test_only_what_is_sent_is_read() -> None:
    source = Source()
    stream = threaded(iter(source))
    assert [await anext(stream) for _ in range(3)] == [b"x"] * 3
    assert source.taken == 3
    await stream.aclose()  # type: ignore[attr-defined]
    assert source.is_closed


async def test_everything_arrives_in_order() -> None:
    chunks = [bytes([n]) for n in range(100)]
    assert [chunk async for chunk in threaded(iter(chunks))] == chunks


async def test_the_loop_goes_on_while_the_source_blocks() -> None:
    has_gone_on = threading.Event()

    def slow() -> Iterator[bytes]:
        yield b"it goes on" if has_gone_on.wait(30) else b"it stands still"

    async def count() -> None:
        for _ in range(6):
            await asyncio.sleep(0.01)
        has_gone_on.set()

    counter = asyncio.create_task(count())
    assert [chunk async for chunk in threaded(slow())] == [b"it goes on"]
    await counter


def test_a_file_is_closed_at_its_end() -> None:
    file = io.BytesIO(b"a" * (FILE_CHUNK_BYTES + 1))
    sizes = [len(chunk) for chunk in file_chunks(file)]
    assert sizes == [FILE_CHUNK_BYTES, 1]
    assert file.closed


@pytest.mark.parametrize("name", ["plain.txt", 'quo"te.txt', "umlaut ü.txt", "new\nline"])
def test_names_of_downloads_cannot_break_the_header(name: str) -> None:
    request = RequestFactory().get("/")
    request.user = AnonymousUser()
    answer = streamed(request, iter([b"x"]), content_type="text/plain", file_name=name)
    header = answer["Content-Disposition"]
    assert header.startswith("attachment")
    assert "\n" not in header


async def test_under_asgi_the_answer_is_asynchronous() -> None:
    request = AsyncRequestFactory().get("/")
    assert isinstance(request, ASGIRequest)
    request.user = AnonymousUser()
    answer = streamed(request, iter([b"a", b"b"]), content_type="text/plain", file_name="x")
    assert answer.is_async
    assert [chunk async for chunk in answer] == [b"a", b"b"]
