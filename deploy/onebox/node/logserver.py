"""The node's log server: what the API server asks when somebody reads a pod's log.

HTTPS on loopback with a bearer token, `GET /containerLogs/{namespace}/{pod}/{container}`, with
the kubelet's query parameters and words. A reader that does not read stops the sending, not the
program that writes, and costs one block of memory.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from deploy.onebox.node.inotify import FolderWatcher
from deploy.onebox.node.logs import LogOptions, LogRun, read_log

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
SHUTDOWN_S = 0.2


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

    def __init__(self, token: str, find: Find) -> None:
        self._token = token
        self._find = find
        self._watcher: FolderWatcher | None = None
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> int:
        """Start to serve; returns the port (chosen by the system for 0)."""
        self._watcher = FolderWatcher()
        app = web.Application()
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._serve)
        # Cancellation: a reader that goes away while the log is silent must be noticed.
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=SHUTDOWN_S, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, port, ssl_context=self_signed_context(HOST))
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

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        wanted = f"Bearer {self._token}".encode()
        given = request.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, wanted):
            return web.Response(status=401, text="a bearer token of this node is needed")
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


def self_signed_context(host: str) -> ssl.SSLContext:
    """Make a TLS server context with a fresh key and a self-signed certificate for `host`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "onebox-node")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # The ssl module loads keys from files only: a private one that is gone at once.
    descriptor, path = tempfile.mkstemp(prefix="onebox-")
    try:
        os.write(descriptor, pem)
        context.load_cert_chain(path)
    finally:
        os.close(descriptor)
        Path(path).unlink()
    return context
