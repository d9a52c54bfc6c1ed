"""The node's log server: what the API server asks when somebody reads a pod's log.

HTTPS on loopback, `GET /containerLogs/{namespace}/{pod}/{container}`, with the kubelet's query
parameters and words. A reader that does not read stops the sending, not the program that writes,
and costs one block of memory. What else a kubelet serves (exec, attach, port-forward) is refused
in words.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from aiohttp import web

from onebox.node.inotify import FolderWatcher
from onebox.node.logaccess import LogAccess
from onebox.node.logs import LogOptions, LogRun, read_log

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
SHUTDOWN_S = 0.2
_NOT_OFFERED = ("attach", "checkpoint", "exec", "portForward", "run")


class LogRefusedError(Exception):
    """There is no such log (now); `code` is the HTTP status, the message is for people."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


Find = Callable[[str, str, str, bool], LogRun]
"""find(namespace, pod, container, previous): the run; raises LogRefusedError."""


class LogServer:
    """Serves logs until closed."""

    def __init__(self, access: LogAccess, find: Find) -> None:
        self._access = access
        self._find = find
        self._watcher: FolderWatcher | None = None
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> int:
        """Start to serve; returns the port (chosen by the system for 0)."""
        self._watcher = FolderWatcher()
        app = web.Application()
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._serve)
        for name in _NOT_OFFERED:
            app.router.add_route("*", f"/{name}/{{rest:.*}}", self._refuse)
        # Cancellation: a reader that goes away while the log is silent must be noticed.
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=SHUTDOWN_S, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, port, ssl_context=self._access.tls(HOST))
        await site.start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop serving; readers that follow are cut off."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._watcher is not None:
            self._watcher.close()

    @staticmethod
    async def _health(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _refuse(self, request: web.Request) -> web.Response:
        """Answer what a kubelet would do and this node does not."""
        what = request.path.split("/")[1]
        text = f"{what} is not offered by this node: it runs pods and serves their logs"
        return self._access.refusal(request) or web.Response(status=501, text=text)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        refusal = self._access.refusal(request)
        if refusal is not None:
            return refusal
        assert self._watcher is not None
        try:
            options = parse_options(request.query)
            names = request.match_info
            run = self._find(names["namespace"], names["pod"], names["container"], options.previous)
        except LogRefusedError as error:
            return web.Response(status=error.code, text=error.message)
        reply = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        try:
            await reply.prepare(request)
            async with contextlib.aclosing(read_log(run, options, self._watcher)) as chunks:
                async for chunk in chunks:
                    await reply.write(chunk)
            await reply.write_eof()
        except OSError as error:
            log.debug("a log reader went away: %s", error)
        finally:
            run.close()
        return reply


def parse_options(query: Mapping[str, str]) -> LogOptions:
    """Read the kubelet's query parameters.

    Raises:
        LogRefusedError: a value is malformed, naming it.
    """
    get = query.get
    since_seconds = _number(get("sinceSeconds"), "sinceSeconds")
    since = _time(get("sinceTime"))
    if since_seconds is not None:
        since = datetime.now(UTC) - timedelta(seconds=since_seconds)
    return LogOptions(
        follow=_flag(get("follow")),
        previous=_flag(get("previous")),
        timestamps=_flag(get("timestamps")),
        tail_lines=_number(get("tailLines"), "tailLines"),
        since=since,
        limit_bytes=_number(get("limitBytes"), "limitBytes"),
    )


def _flag(text: str | None) -> bool:
    return text is not None and text.lower() in ("true", "1", "")


def _number(text: str | None, name: str) -> int | None:
    if text is None or text == "":
        return None
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise LogRefusedError(400, f"{name} must be a whole number of at least 0, not {text!r}")
    return number


def _time(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise LogRefusedError(400, f"sinceTime must be an RFC 3339 time, not {text!r}") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
