"""Logs over real sockets: every way of framing an answer, cut anywhere, refused, endless."""

import asyncio
import gc
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from portal.cluster import logs
from portal.cluster.credentials import Credentials
from portal.cluster.errors import (
    ClusterError,
    Forbidden,
    Invalid,
    NotFound,
    TooManyRequests,
    Unavailable,
)
from portal.cluster.logs import LogReader, LogResponse
from tests.tools.authority import Authority

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class NoConfiguration:
    """Stands for the official client's: a token that needs no renewal."""

    refresh_api_key_hook: Any = None
    api_key: dict[str, str] = field(default_factory=lambda: {"BearerToken": "secret"})


@asynccontextmanager
async def serving(
    handler: Handler, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[LogReader, list[str]]]:
    """A server that reads one request and answers as the handler likes."""
    asked: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    account = Credentials(f"http://127.0.0.1:{port}/base", None, None, NoConfiguration())
    try:
        yield LogReader(account), asked
    finally:
        server.close()
        await server.wait_closed()


def raw(data: bytes, *, cut: int | None = None) -> Handler:
    """Answers with these bytes, in two pieces when cut."""

    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = data if cut is None else data[:cut]
        writer.write(first)
        await writer.drain()
        if cut is not None:
            await asyncio.sleep(0)
            writer.write(data[cut:])
            await writer.drain()

    return handler


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + end


async def read(reader: LogReader, **how: Any) -> bytes:
    async with (
        asyncio.timeout(5),
        reader.logs("u-alice", "pod", "main", **{"follow": False, **how}) as pieces,
    ):
        return b"".join([piece async for piece in pieces])


async def test_the_request_asks_what_upstream_understands() -> None:
    async with serving(raw(chunked(b"x"))) as (reader, asked):
        assert (
            await read(reader, follow=True, tail_lines=5, since_time="2026-11-20T00:00:00Z") == b"x"
        )
    first, *headers = asked[0].split("\r\n")
    assert first == (
        "GET /base/api/v1/namespaces/u-alice/pods/pod/log?container=main&timestamps=true"
        "&follow=true&tailLines=5&sinceTime=2026-11-20T00%3A00%3A00Z HTTP/1.1"
    )
    assert "Authorization: Bearer secret" in headers
    assert any(row.startswith("Host: 127.0.0.1:") for row in headers)


LONG = b"y" * 70_000
WHOLE = {
    "chunks": (chunked(b"one\n", b"two\n", LONG, b""), None),
    "chunks with extensions and trailers": (
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4;a=b\r\none\n\r\n004\r\ntwo\n\r\n"
            b"0\r\nTrailer: x\r\n\r\n"
        ),
        b"one\ntwo\n",
    ),
    "a length": (b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\none\ntwo\nrubbish", b"one\ntwo\n"),
    "a length of nothing": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""),
    "until the end": (b"HTTP/1.0 200 OK\r\n\r\none\ntwo\n", b"one\ntwo\n"),
    "after a 100": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\none\n",
        b"one\n",
    ),
}


@pytest.mark.parametrize("name", [name for name in WHOLE if name != "chunks"])
async def test_answers_of_every_framing_are_read_wherever_they_are_cut(name: str) -> None:
    data, expected = WHOLE[name]
    for cut in range(1, len(data)):
        async with serving(raw(data, cut=cut)) as (reader, _):
            assert await read(reader) == expected, cut


async def test_many_chunks_and_long_ones_are_read() -> None:
    chunks = [b"%d\n" % number for number in range(20_000)] + [LONG]
    async with serving(raw(chunked(*chunks))) as (reader, _):
        assert await read(reader) == b"".join(chunks)


@pytest.mark.parametrize("step", [1, 7, 64, 10_000])
async def test_lines_with_line_breaks_like_those_of_chunks_are_read(step: int) -> None:
    lines = [b"plain\n", b"from windows\r\n", b"5\r\nabcde\r\n", b"\r\n", b"0\r\n\r\n", b"end\n"]
    raw = b"".join(b"%x\r\n%b\r\n" % (len(text), text) for text in lines) + b"0\r\n\r\n"
    answer = LogResponse()
    answer.data_received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for at in range(0, len(raw), step):
        answer.data_received(raw[at : at + step])
    assert await answer.read() == b"".join(lines)
    assert await answer.read() == b""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        chunked(b"one\n", end=b""),
        chunked(b"one\n", end=b"5\r\nha"),
        chunked(b"one\n", end=b"zz\r\n"),
        chunked(b"one\n", end=b"-5\r\nabcde\r\n"),
        chunked(b"one\n", end=b"0x5\r\nabcde\r\n"),
        chunked(b"one\n", end=b"1_0\r\n" + b"a" * 16 + b"\r\n"),
        chunked(b"one\n", end=b"f" * 17 + b"\r\n"),
        chunked(b"one\n", end=b"\r\n"),
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"x" * (logs.MAX_HEAD_BYTES + 10),
        chunked(b"one\n", end=b"1" * (logs.MAX_HEAD_BYTES + 10)),
    ],
)
async def test_what_is_broken_or_no_http_is_told_as_unavailable(data: bytes) -> None:
    async with serving(raw(data)) as (reader, _):
        with pytest.raises(Unavailable):
            await read(reader)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Invalid), (403, Forbidden), (404, NotFound), (429, TooManyRequests), (500, Unavailable)],
)
async def test_refusals_are_our_errors_with_the_servers_words(
    status: int, kind: type[ClusterError]
) -> None:
    body = json.dumps({"kind": "Status", "reason": "Because", "message": "no, because"}).encode()
    data = b"HTTP/1.1 %d No\r\nContent-Length: %d\r\nRetry-After: 7\r\n\r\n" % (status, len(body))
    async with serving(raw(data + body)) as (reader, _):
        with pytest.raises(kind, match="no, because") as caught:
            await read(reader)
    assert caught.value.status == status
    if isinstance(caught.value, TooManyRequests):
        assert caught.value.retry_after_s == 7
    async with serving(raw(b"HTTP/1.1 502 Bad\r\n\r\n<html>")) as (reader, _):
        with pytest.raises(Unavailable, match="502"):
            await read(reader)


async def test_a_server_that_is_away_or_says_nothing_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "ANSWER_S", 0.05)

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(silent) as (reader, _):
        with pytest.raises(Unavailable, match="in time"):
            await read(reader)
    with pytest.raises(Unavailable, match="broke"):
        await read(reader)


async def test_lines_come_as_they_are_written_and_leaving_closes_the_connection() -> None:
    closed = asyncio.Event()
    written = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(chunked(b"one\n", end=b""))
        await writer.drain()
        await written.wait()
        writer.write(b"4\r\ntwo\n\r\n")
        await writer.drain()
        await reader.read()
        closed.set()

    async with serving(endless) as (reader, _):
        async with reader.logs("ns", "pod", "main", follow=True) as pieces:
            assert await anext(pieces) == b"one\n"
            written.set()
            assert await anext(pieces) == b"two\n"
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(pieces)
        async with asyncio.timeout(2):
            await closed.wait()


async def test_who_reads_slowly_makes_the_server_wait() -> None:
    sent = 0

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.transport.set_write_buffer_limits(high=65536)
        writer.write(chunked(end=b""))
        block = b"10000\r\n" + b"z" * 65536 + b"\r\n"
        while sent < 64 * 1024**2:
            writer.write(block)
            await writer.drain()
            sent += 65536
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async with (
        serving(flood) as (reader, _),
        reader.logs("ns", "pod", "main", follow=True) as pieces,
    ):
        received = len(await anext(pieces))
        await asyncio.sleep(0.2)
        assert sent < 40 * 1024**2  # the buffers of two sockets, and ours
        async for piece in pieces:
            received += len(piece)
        assert received == sent == 64 * 1024**2


async def test_the_server_proves_who_it_is(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.pair("server"))
    server = await asyncio.start_server(_answer_at_once, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    for believed, is_read in ((authority, True), (other, False)):
        tls = ssl.create_default_context(cafile=str(believed.folder / "ca.crt"))
        account = Credentials(f"https://127.0.0.1:{port}", tls, None, NoConfiguration())
        if is_read:
            assert await read(LogReader(account)) == b"one\n"
        else:
            with pytest.raises(Unavailable, match="certificate"):
                await read(LogReader(account))
    server.close()
    await server.wait_closed()


async def _answer_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(chunked(b"one\n"))
    await writer.drain()
    writer.close()


async def test_opening_many_times_leaves_nothing_behind() -> None:
    async with serving(raw(chunked(b"x", end=b""))) as (reader, _):
        for _number in range(50):
            with pytest.raises(Unavailable):
                await read(reader)
        await asyncio.sleep(0.05)
        gc.collect()
        assert not [
            found
            for found in gc.get_objects()
            # isinstance would ask lazy objects of others for their class, which makes them.
            if type(found) is logs.LogResponse and not found._is_over
        ]
