"""Passes a request on to the app, and its answer back, piece by piece in both directions."""

import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from jobs.pod.gatekeeper import headers, refusals
from jobs.pod.gatekeeper.config import Config
from jobs.pod.gatekeeper.cookies import Cookies
from jobs.pod.gatekeeper.handshake import BUFFER_BYTES, CONNECT_TIMEOUT_S, Upstream, connected

log = logging.getLogger("gate")

MAX_HEADER_BYTES = 64 * 1024
READY_TIMEOUT_S = 3.0
READY_FRESH_S = 1.0
RETRY_MIN_S, RETRY_MAX_S = 3, 60
# What aiohttp would add by itself.
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


def session() -> aiohttp.ClientSession:
    """For requests to the app: nothing is decoded, remembered or kept open."""
    return aiohttp.ClientSession(
        # A connection of its own for each request: no answer can be taken for another's.
        connector=aiohttp.TCPConnector(force_close=True, limit=0),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=_AUTOMATIC,
        read_bufsize=BUFFER_BYTES,
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
    )


@dataclass
class App:
    """The app behind the gate, on the pod's loopback."""

    config: Config
    cookies: Cookies
    session: aiohttp.ClientSession
    _asked_at: float = float("-inf")
    _is_ready: bool = False
    _down_since_s: float | None = None  # monotonic

    async def forward(self, request: web.BaseRequest) -> web.StreamResponse:
        """The app's answer, which has been given by then.

        Raises:
            GateRefusal: nothing has been answered: nothing listens where the app should, what did
                spoke no HTTP, or it went away.
        """
        passed = headers.to_app(
            request.headers, self.config, self.cookies, client=request.remote or ""
        )
        body = _body(request) if request.can_read_body else None
        try:
            answer = await self.session.request(
                request.method,
                self._url(request.raw_path),
                headers=passed,
                data=body,
                allow_redirects=False,
            )
        except aiohttp.ClientConnectorError as error:
            self._note_down()
            raise refusals.starting(self.config.word, self.retry_s()) from error
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            self._note_down()
            log.warning("the app broke off: %s", error or type(error).__name__)
            raise refusals.broken(self.config.word, self.retry_s()) from error
        self._down_since_s = None
        async with answer:
            return await _pass_back(request, answer, self.cookies)

    @contextlib.asynccontextmanager
    async def websocket(
        self, request: web.BaseRequest
    ) -> AsyncIterator[tuple[Upstream, CIMultiDict[str]]]:
        """A websocket to the app, and the headers with which to open that to the browser.

        Raises:
            GateRefusal: the app does not open one, or nothing listens.
        """
        passed = headers.to_app(
            request.headers, self.config, self.cookies, client=request.remote or ""
        )
        passed["Connection"], passed["Upgrade"] = "Upgrade", "websocket"
        async with contextlib.AsyncExitStack() as stack:
            try:
                upstream = await stack.enter_async_context(
                    connected(self.config.upstream_port, request.raw_path, passed, self.config.word)
                )
            except (TimeoutError, OSError) as error:
                self._note_down()
                raise refusals.starting(self.config.word, self.retry_s()) from error
            answered = headers.to_browser(upstream.headers, self.cookies)
            answered["Connection"], answered["Upgrade"] = "Upgrade", "websocket"
            yield upstream, answered

    def retry_s(self) -> int:
        """When to try again: soon at first, ever more seldom while the app stays away."""
        if self._down_since_s is None:
            return RETRY_MIN_S
        down_s = time.monotonic() - self._down_since_s
        return int(min(RETRY_MAX_S, max(RETRY_MIN_S, down_s / 10)))

    def _note_down(self) -> None:
        if self._down_since_s is None:
            self._down_since_s = time.monotonic()

    async def is_ready(self) -> bool:
        """Whether the app answers HTTP; asked once a second at most, whoever asks."""
        now = time.monotonic()
        if now - self._asked_at >= READY_FRESH_S:
            self._asked_at = now
            self._is_ready = await self._answers()
        return self._is_ready

    async def _answers(self) -> bool:
        path = self.config.prefix + self.config.ready_path
        try:
            async with self.session.get(
                self._url(path),
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=READY_TIMEOUT_S),
            ) as answer:
                return answer.status < 500
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    def _url(self, target: str) -> URL:
        return URL(f"http://127.0.0.1:{self.config.upstream_port}{target}", encoded=True)


async def _body(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """What the browser sends, asked for only when the app has taken the piece before."""
    if request.headers.get("Expect", "").lower() == "100-continue" and request.transport:
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    while data := await request.content.read(BUFFER_BYTES):
        yield data


async def _pass_back(
    request: web.BaseRequest, answer: aiohttp.ClientResponse, cookies: Cookies
) -> web.StreamResponse:
    response = web.StreamResponse(
        status=answer.status,
        reason=headers.sendable(answer.reason or ""),
        headers=headers.to_browser(answer.headers, cookies),
    )
    await response.prepare(request)
    try:
        while data := await answer.content.read(BUFFER_BYTES):
            await response.write(data)
    except (aiohttp.ClientError, TimeoutError) as error:
        # The only way to say "this is not all of it" once the head is out.
        log.warning("the app broke off in an answer: %s", error or type(error).__name__)
        if request.transport is not None:
            request.transport.abort()
    return response
