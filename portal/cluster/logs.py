"""Reads logs of containers, fast: an HTTP/1.1 answer taken apart where it arrives.

A kubelet sends every line as a chunk of its own. General HTTP clients hand each chunk through
several calls, which costs more than all that we do with the lines; here a whole buffer of chunks is
taken apart in one loop. One request for each connection, so nothing is pooled.
Chunks: https://www.rfc-editor.org/rfc/rfc9112#section-7.1
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from portal.cluster.credentials import Credentials
from portal.cluster.errors import ClusterError, Unavailable, error_of
from portal.cluster.kinds import get_kind

CONNECT_S = 5.0
ANSWER_S = 30.0  # for the head of the answer; logs of a container that starts are refused at once
HANG_UP_S = 4.0  # for the other side to let go of a log that is followed
MAX_HEAD_BYTES = 64 * 1024
MAX_REFUSAL_BYTES = 64 * 1024
BUFFER_BYTES = 512 * 1024  # beyond it the other side has to wait
_MAX_SIZE_DIGITS = 16  # of a chunk's size


class _AnswerError(Exception):
    """What came is no HTTP answer, or not all of one."""


class LogResponse(asyncio.Protocol):
    """One answer on its connection: `head`, then `read` until it gives nothing."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._raw = b""  # not taken apart yet
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._left: int | None = None  # of a body of known length
        self._is_chunked = False
        self._has_head = False
        self._is_over = False
        self._is_paused = False
        self._error: Exception | None = None
        self._wake = asyncio.Event()
        self._lost = asyncio.Event()
        self._is_left = False
        self.status = 0
        self.headers: dict[str, str] = {}

    # --- what the event loop calls ---
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._is_left:
            return
        self._raw = self._raw + data if self._raw else data
        try:
            if not self._has_head:
                self._read_head()
            if self._has_head:
                self._read_body()
        except _AnswerError as error:
            self._fail(error)
        if self._body_bytes > BUFFER_BYTES and not self._is_paused and self._transport:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_over:
            is_whole = self._has_head and not self._is_chunked and self._left is None
            if exc is not None or not is_whole:
                self._fail(exc or _AnswerError("it ended in the middle"))
            self._is_over = True
        self._wake.set()
        self._lost.set()

    # --- what a reader calls ---
    async def head(self) -> None:
        """Waits for status and headers."""
        while not self._has_head:
            self._raise_error()
            self._wake.clear()
            await self._wake.wait()

    async def read(self) -> bytes:
        """What has come since the last call; waits for something; empty at the end."""
        while not self._body:
            if self._is_over:
                self._raise_error()
                return b""
            self._wake.clear()
            await self._wake.wait()
        data = b"".join(self._body)
        self._body.clear()
        self._body_bytes = 0
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return data

    def close(self) -> None:
        self._is_over = True
        if self._transport is not None:
            self._transport.abort()

    async def hang_up(self) -> None:
        """Ends an answer that would go on, and waits until the other side ends it as well.

        A busy one notices late that somebody has gone; who asks again before has two answers there.
        """
        transport = self._transport
        try:
            if transport is not None and not self._is_over:
                self._is_left = self._is_over = True
                transport.resume_reading()
                # Not a farewell of TLS: whoever still sends would break it, and be left at once.
                transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
                async with asyncio.timeout(HANG_UP_S):
                    await self._lost.wait()
        except OSError:  # it took too long, or is gone
            pass
        finally:
            self.close()

    # --- HTTP ---
    def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._is_over = True

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _read_head(self) -> None:
        end = self._raw.find(b"\r\n\r\n")
        if end < 0:
            if len(self._raw) > MAX_HEAD_BYTES:
                raise _AnswerError("its head is too long")
            return
        first, *rows = self._raw[:end].decode("latin-1").split("\r\n")
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdigit():
            raise _AnswerError(f"it is no HTTP: {first[:80]!r}")
        self.status = int(status[:3])
        for row in rows:
            name, _, text = row.partition(":")
            self.headers[name.strip().lower()] = text.strip()
        self._raw = self._raw[end + 4 :]
        if 100 <= self.status < 200:  # not the answer yet
            self.headers.clear()
            self._read_head()
            return
        self._is_chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length", "")
        if not self._is_chunked and length.isdigit():
            self._left = int(length)
        self._has_head = True

    def _read_body(self) -> None:
        if self._is_chunked:
            self._read_chunks()
            return
        data, self._raw = self._raw, b""
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
            self._is_over = self._is_over or self._left == 0
        if data:
            self._body.append(data)
            self._body_bytes += len(data)

    def _read_chunks(self) -> None:
        """Takes apart what is whole; a chunk for each line is what nearly always comes."""
        if self._is_over:  # the last line break of the answer
            return
        raw, at, total = self._raw, 0, len(self._raw)
        parts = raw.split(b"\r\n")
        sizes, lines = parts[:-1:2], parts[1:-1:2]
        del sizes[len(lines) :]  # of a chunk that has not come whole
        if _all_fit(sizes, lines):
            self._body += lines
            body_bytes = sum(map(len, lines))
            self._body_bytes += body_bytes
            at = body_bytes + sum(map(len, sizes)) + 4 * len(lines)
        self._raw = self._read_one_by_one(raw, at, total)

    def _read_one_by_one(self, raw: bytes, at: int, total: int) -> bytes:
        """Any chunks, from a place on; what is left."""
        keep = self._body.append
        while (end := raw.find(b"\r\n", at)) >= 0:
            size = _sizes[raw[at:end]]
            if size == 0:
                self._is_over = True
                at = total
                break
            start = end + 2
            stop = start + size
            if stop + 2 > total:
                break
            keep(raw[start:stop])
            self._body_bytes += size
            at = stop + 2
        else:
            if total - at > MAX_HEAD_BYTES:
                raise _AnswerError("the size of a chunk has no end")
        return raw[at:]


class _Sizes(dict[bytes, int]):
    """Sizes of chunks as they were written: lines of a log have few different lengths."""

    MOST = 4096

    def __missing__(self, row: bytes) -> int:
        size = _size_of(row)
        if len(self) < self.MOST:
            self[row] = size
        return size


_sizes = _Sizes()


def _all_fit(sizes: list[bytes], lines: list[bytes]) -> bool:
    """Whether these are chunks: none has a line break like theirs, none is the last, empty one."""
    try:
        wanted = list(map(_sizes.__getitem__, sizes))
    except _AnswerError:
        return False  # text that looks like one, or an error that the slow way words
    return wanted == list(map(len, lines)) and 0 not in wanted


def _size_of(row: bytes) -> int:
    """The size that begins a chunk; an extension behind it is ignored."""
    digits = row.split(b";", 1)[0].strip()
    if not 0 < len(digits) <= _MAX_SIZE_DIGITS or not digits.isalnum():
        raise _AnswerError(f"{row[:20]!r} is no size of a chunk")
    try:
        return int(digits, 16)
    except ValueError:
        raise _AnswerError(f"{row[:20]!r} is no size of a chunk") from None


class LogReader:
    """Opens logs at one API server; every log has a connection of its own."""

    def __init__(self, account: Credentials) -> None:
        self._account = account
        parts = urlsplit(account.server)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._netloc = parts.netloc
        self._base = parts.path.rstrip("/")

    @asynccontextmanager
    async def logs(  # noqa: PLR0913 (the parameters of the API's own call)
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        follow: bool,
        tail_lines: int | None = None,
        since_time: str | None = None,
        previous: bool = False,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The log of a container as pieces of bytes, each line behind its RFC 3339 time.

        A program may be silent for hours: how long to wait for a piece is the caller's to say.

        Args:
            since_time: RFC 3339; lines at or after it.

        Raises:
            Invalid: the container has not started yet. NotFound: no such pod. Unavailable: no
                connection, or it was cut.
        """
        params = {"container": container, "timestamps": "true"}
        params |= {"follow": "true"} if follow else {}
        params |= {"previous": "true"} if previous else {}
        params |= {} if tail_lines is None else {"tailLines": str(tail_lines)}
        params |= {} if since_time is None else {"sinceTime": since_time}
        path = f"{get_kind('Pod').path(namespace, pod, 'log')}?{urlencode(params)}"
        answer = await self._open(path, follow=follow)
        try:
            if answer.status >= 300:
                raise await self._refusal(answer)
            yield self._pieces(answer)
        finally:
            await self._leave(answer, follow=follow)

    @staticmethod
    async def _leave(answer: LogResponse, *, follow: bool) -> None:
        if follow:
            await answer.hang_up()
        else:
            answer.close()

    async def _open(self, path: str, *, follow: bool) -> LogResponse:
        authorization = await asyncio.to_thread(self._account.authorization)
        head = [f"GET {self._base}{path} HTTP/1.1", f"Host: {self._netloc}", "Accept: */*"]
        head += [f"Authorization: {authorization}"] if authorization else []
        head += ["Connection: close", "", ""]
        answer: LogResponse | None = None
        try:
            async with asyncio.timeout(CONNECT_S):
                transport, answer = await asyncio.get_running_loop().create_connection(
                    LogResponse,
                    self._host,
                    self._port,
                    ssl=self._account.tls,
                    server_hostname=self._tls_name(),
                )
            transport.write("\r\n".join(head).encode("latin-1"))
            async with asyncio.timeout(ANSWER_S):
                await answer.head()
        except (OSError, _AnswerError) as error:
            if answer is not None:
                await self._leave(answer, follow=follow)
            raise self._broken(error) from error
        except BaseException:
            if answer is not None:
                await self._leave(answer, follow=follow)
            raise
        return answer

    def _tls_name(self) -> str | None:
        if self._account.tls is None:
            return None
        return self._account.server_hostname or self._host

    async def _pieces(self, answer: LogResponse) -> AsyncIterator[bytes]:
        while True:
            try:
                data = await answer.read()
            except (OSError, _AnswerError) as error:
                raise self._broken(error) from error
            if not data:
                return
            yield data

    async def _refusal(self, answer: LogResponse) -> ClusterError:
        body = b""
        try:
            async with asyncio.timeout(CONNECT_S):
                while len(body) < MAX_REFUSAL_BYTES and (data := await answer.read()):
                    body += data
        except (OSError, _AnswerError):
            pass  # the status says enough
        parsed: Any = {}
        try:
            parsed = msgspec.json.decode(body)
        except (msgspec.DecodeError, ValueError):
            parsed = {"message": f"the cluster answered {answer.status}"}
        headers = {"Retry-After": answer.headers.get("retry-after", "")}
        return error_of(answer.status, parsed if isinstance(parsed, dict) else {}, headers)

    def _broken(self, error: Exception) -> Unavailable:
        if isinstance(error, TimeoutError):
            return Unavailable(0, "Timeout", f"{self._account.server} did not answer in time")
        what = str(error) or type(error).__name__
        return Unavailable(0, "Cut", f"the connection to {self._account.server} broke: {what}")
