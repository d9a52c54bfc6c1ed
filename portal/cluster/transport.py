"""HTTP to one API server: two pools of connections, time limits, and errors in our words.

Short calls share one session; watches and log follows have an unlimited pool of their own, so that
no number of viewers can starve a call. `client.py` is its only caller.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from portal import metrics
from portal.cluster.credentials import Credentials
from portal.cluster.errors import ClusterError, TooManyRequests, Unavailable, error_of

JSON = "application/json"
CALL_S = 15.0  # upstream answers a single object within 1 s at the 99th percentile
_CONNECT_S = 5.0
_TRIES_WHEN_BUSY = 3  # of a call that the server refused by 429
_PATIENCE_S = 5.0  # a longer Retry-After is the caller's to wait for, not a connection's


@dataclass(frozen=True)
class Request:
    """One call; `body` is sent as JSON of `content_type`. It is counted under `about`: verb and kind."""

    method: str
    path: str
    about: tuple[str, str]
    params: Mapping[str, str] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    content_type: str = JSON
    accept: str = JSON
    timeout_s: float = CALL_S


def _verdict(status: int, body: bytes, headers: Mapping[str, str]) -> ClusterError:
    try:
        parsed = msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError):
        text = body[:200].decode(errors="replace").strip()
        parsed = {"message": f"the cluster answered {status}: {text or 'no text'}"}
    return error_of(status, parsed if isinstance(parsed, dict) else {}, headers)


class Transport:
    """Sessions with one API server; needs a running event loop."""

    def __init__(self, account: Credentials) -> None:
        self._account = account
        self._server = URL(account.server)
        self.answered: tuple[str, float] = ("", 0.0)  # the last answer's Date, and when it came
        tls: Any = account.tls if account.tls is not None else False
        self._calls = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=32, ssl=tls))
        self._streams = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls), read_bufsize=2**18
        )

    async def close(self) -> None:
        await self._calls.close()
        await self._streams.close()

    @property
    def server(self) -> str:
        return self._account.server

    async def request(self, request: Request) -> bytes:
        """The body of a good answer; asks again when the server says 429 (which means: not done).

        Raises:
            ClusterError: see errors.py.
        """
        data = None if request.body is None else msgspec.json.encode(request.body)
        for tries_left in reversed(range(_TRIES_WHEN_BUSY)):
            try:
                return await self._once(request, data)
            except TooManyRequests as busy:
                if not tries_left or busy.retry_after_s > _PATIENCE_S:
                    raise
                await self.pause(busy.retry_after_s)
        raise AssertionError("unreachable: the last try returns or raises")

    async def pause(self, wait_s: float) -> None:
        """Waits as the server asked; tests let their own clock pass instead."""
        await asyncio.sleep(wait_s)

    async def _once(self, request: Request, data: bytes | None) -> bytes:
        headers = await self._headers(request.accept)
        if data is not None:
            headers["Content-Type"] = request.content_type
        try:
            async with self._calls.request(
                request.method,
                self._url(request.path, request.params),
                data=data,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=request.timeout_s, sock_connect=_CONNECT_S),
                server_hostname=self._account.server_hostname,
                allow_redirects=False,
            ) as answer:
                self.answered = (answer.headers.get("Date", ""), time.time())
                body = await answer.read()
                metrics.KUBERNETES_REQUESTS.labels(*request.about, str(answer.status)).inc()
                if answer.status >= 300:
                    raise _verdict(answer.status, body, answer.headers)
                return body
        except (aiohttp.ClientError, OSError) as error:
            metrics.KUBERNETES_REQUESTS.labels(*request.about, "none").inc()
            late = f"it did not answer within {request.timeout_s:g} s"
            raise self._broken(error, late) from error

    def _broken(self, error: BaseException, when_late: str) -> Unavailable:
        """What a failure of the connection means; TimeoutError is an OSError too."""
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            # aiohttp would write out the whole address that was asked for, on everybody's pages.
            is_late = isinstance(error, aiohttp.ConnectionTimeoutError)
            words = f"no connection to {self.server}: {'it timed out' if is_late else error}"
            return Unavailable(0, "NoConnection", words)
        if isinstance(error, TimeoutError):
            return Unavailable(0, "Timeout", f"{self.server}: {when_late}")
        words = f"the connection to {self.server} broke: {error or type(error).__name__}"
        return Unavailable(0, "Cut", words)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        silence_s: float | None,
        accept: str = JSON,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """An endless answer as chunks, on the pool of streams.

        Args:
            path: as `ResourceKind.path` makes it.
            params: of the query.
            silence_s: raise Unavailable after so long without a byte; None: never.

        Raises:
            ClusterError: refused, cut, or silent for too long.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=silence_s)
        try:
            async with self._streams.get(
                self._url(path, params),
                headers=await self._headers(accept),
                timeout=timeout,
                server_hostname=self._account.server_hostname,
            ) as answer:
                self.answered = (answer.headers.get("Date", ""), time.time())
                if answer.status >= 400:
                    raise _verdict(answer.status, await answer.read(), answer.headers)
                yield answer.content.iter_any()
        except (aiohttp.ClientError, OSError) as error:
            raise self._broken(error, "nothing was heard from it in time") from error

    def _url(self, path: str, params: Mapping[str, str]) -> URL:
        base = self._server.path.rstrip("/")
        return self._server.with_path(base + path, encoded=True).with_query(dict(params))

    async def _headers(self, accept: str) -> dict[str, str]:
        if self._account.configuration.refresh_api_key_hook is None:
            value = self._account.authorization()
        else:  # may read a file or run a credential plugin
            value = await asyncio.to_thread(self._account.authorization)
        return {"Accept": accept} | ({"Authorization": value} if value else {})
