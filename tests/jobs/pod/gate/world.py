"""A real gate between a fake app and a fake portal, all on loopback."""

import asyncio
import hashlib
import hmac
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from deploy.testcluster.ports import free_port
from jobs.pod.protocol.tickets import encode
from tests.tools.authority import Authority

ROOT = Path(__file__).resolve().parents[4]
SERVICE = "0123abcd-0000-4000-8000-000000000000"
PREFIX = "/s/0123abcd/"
COOKIE = "gate_0123abcd"
ALICE = "aaaaaaaa-0000-4000-8000-000000000000"
BOB = "bbbbbbbb-0000-4000-8000-000000000000"
SECRETS = {"portal_token": "p" * 64, "ticket_key": "k" * 64, "app_token": "a" * 64}


async def until(
    what: str, look: Callable[[], Any], *, timeout_s: float = 20, interval_s: float = 0.02
) -> Any:
    """The first true answer of `look`, which may be a coroutine function."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = look()
        if isinstance(answer, Awaitable):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < deadline, f"after {timeout_s} s still not: {what}"
        await asyncio.sleep(interval_s)


def ticket(key: str = SECRETS["ticket_key"], **changes: Any) -> str:
    """A ticket as the portal writes it, with changes."""
    now = time.time()
    fields = {
        "aud": SERVICE,
        "sub": ALICE,
        "jti": uuid4().hex,
        "iat": now,
        "exp": now + 60,
        "start": 1,
        **changes,
    }
    payload = encode(json.dumps(fields).encode())
    digest = hmac.digest(key.encode(), payload.encode(), hashlib.sha256)
    return f"{payload}.{encode(digest)}"


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakePortal:
    """The one call that a gate makes; everything about the answer can be changed."""

    def __init__(self) -> None:
        self.allowed = {ALICE, BOB}
        self.start = 1
        self.status = 200
        self.body: str | None = None
        self.ahead_s = 0.0
        self.asked: list[list[str]] = []
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {SECRETS['portal_token']}"
        assert request.path == f"/internal/v1/services/{SERVICE}/gate/"
        body = await request.json()
        assert body["start"] == 1
        self.asked.append(body["subjects"])
        if self.body is not None:
            return web.Response(text=self.body, status=self.status)
        if self.status in (404, 410):
            code = "not_found" if self.status == 404 else "deleted"
            row = {"field": "", "code": code, "text": "it is gone"}
            return web.json_response({"errors": [row]}, status=self.status)
        allowed = [subject for subject in body["subjects"] if subject in self.allowed]
        fields = {"start": self.start, "allowed": allowed, "now": time.time() + self.ahead_s}
        return web.json_response(fields, status=self.status)


@asynccontextmanager
async def serving(handler: Any, port: int, **options: Any) -> AsyncIterator[None]:
    """Serves every request with a handler while the block runs."""
    app = web.Application(client_max_size=2**40)
    app.router.add_route("*", "/{tail:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2, **options)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield
    finally:
        await runner.cleanup()


class GateProcess:
    """The program as it runs in pods, with what it says and how much memory it takes."""

    def __init__(self, folder: Path, portal_url: str, upstream_port: int, **changes: str) -> None:
        self.port = free_port()
        # Intervals of the module `access_list`, as assignments.
        self.quick = changes.pop("quick", "")
        self.folder = folder
        self.environ = {
            "PATH": os.environ["PATH"],
            "GATE_SERVICE_ID": SERVICE,
            "GATE_PREFIX": PREFIX,
            "GATE_PORT": str(self.port),
            "GATE_UPSTREAM_PORT": str(upstream_port),
            "GATE_START": "1",
            "GATE_WORD": "notebook",
            "GATE_READY_PATH": "api",
            "GATE_APP_SECRET": "app_token",
            "GATE_PORTAL_URL": portal_url,
            "GATE_SECRETS": str(folder),
            **changes,
        }
        for name, text in SECRETS.items():
            (folder / name).write_text(text)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def scheme(self) -> str:
        return "https" if (self.folder / "tls.crt").exists() else "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def run(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(ROOT / "jobs/pod/gate.py")]
        if self.quick:
            code = f"from jobs.pod import gate; from jobs.pod.gatekeeper import access_list as s; {self.quick}"
            command = [sys.executable, "-c", f"{code}; raise SystemExit(gate.main())"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT if self.quick else self.folder,
                env=self.environ,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return self.process

    async def start(self) -> None:
        process = self.run()

        async def answers() -> bool:
            assert process.poll() is None, self.said()
            try:
                async with (
                    aiohttp.ClientSession() as session,
                    session.get(f"{self.url}/__gate/live", ssl=False) as answer,
                ):
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        await until("the gate answers", answers)

    async def stop(self, signal_number: int = signal.SIGTERM) -> int:
        """Ends it; the exit code."""
        assert self.process is not None
        self.process.send_signal(signal_number)
        process, self.process = self.process, None
        return await asyncio.to_thread(process.wait, 20)

    def said(self) -> str:
        return (self.folder / "log").read_text()

    def peak_bytes(self) -> int:
        """The most memory that it ever had (resident)."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024

    def cpu_s(self) -> float:
        """Processor time that it has used."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)


@dataclass
class Answer:
    """One whole answer."""

    status: int
    reason: str
    headers: Any
    cookies: Any
    body: bytes

    @classmethod
    async def read(cls, response: aiohttp.ClientResponse) -> "Answer":
        body = await response.read()
        reason = response.reason or ""
        return cls(response.status, reason, response.headers, response.cookies, body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of a refusal."""
        code: str = self.json["errors"][0]["code"]
        return code


@dataclass
class World:
    """Gate, app and portal. `app` answers what reaches the app."""

    gate: GateProcess
    portal: FakePortal
    session: aiohttp.ClientSession
    seen: list[web.Request] = field(default_factory=list)
    app: Handler | None = None

    @property
    def url(self) -> str:
        return self.gate.url

    @property
    def app_port(self) -> int:
        return int(self.gate.environ["GATE_UPSTREAM_PORT"])

    @asynccontextmanager
    async def raw_app(self, said: bytes) -> AsyncIterator[None]:
        """While the block runs, each request to the app is answered with these bytes."""

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
            writer.close()

        async with await asyncio.start_server(talk, "127.0.0.1", self.app_port):
            yield

    def behind(self, app: Handler) -> Handler:
        """Makes this the app."""
        self.app = app
        return app

    async def on_app(self, request: web.Request) -> web.StreamResponse:
        if "X-Forwarded-For" not in request.headers:
            return web.json_response({"version": "2"})  # the gate's own question
        self.seen.append(request)
        if self.app is not None:
            return await self.app(request)
        return web.Response(text=f"app: {request.method} {request.raw_path}")

    async def login(self, text: str | None = None, **headers: str) -> Answer:
        async with self.session.post(
            f"{self.url}{PREFIX}__gate/login",
            data=ticket() if text is None else text,
            headers={"Origin": self.url, "Content-Type": "text/plain", **headers},
        ) as answer:
            return await Answer.read(answer)

    async def cookie(self, **changes: Any) -> str:
        """The Cookie header of somebody who was let in."""
        answer = await self.login(ticket(**changes))
        assert answer.status == 200, answer.text
        return f"{COOKIE}={answer.cookies[COOKIE].value}"

    def websocket(self, cookie: str, path: str = "ws", **options: Any) -> Any:
        """One below the prefix, for `async with` or `await`."""
        headers = {"Cookie": cookie, "Origin": self.url}
        url = self.url + PREFIX + path
        return self.session.ws_connect(url, headers=headers, max_msg_size=0, **options)

    async def call(
        self, path: str = "", *, method: str = "GET", cookie: str = "", **arguments: Any
    ) -> Answer:
        """One request below the prefix, or of a whole path."""
        given = {"Cookie": cookie} if cookie else {}
        if method not in {"GET", "HEAD", "OPTIONS"}:
            given["Origin"] = self.url
        given.update(arguments.pop("headers", {}))
        target = path if path.startswith("/") else PREFIX + path
        async with self.session.request(
            method,
            URL(self.url + target, encoded=True),
            headers=given,
            allow_redirects=False,
            **arguments,
        ) as answer:
            return await Answer.read(answer)


@asynccontextmanager
async def world(*, tls: bool = False, app: bool = True, **environ: str) -> AsyncIterator[World]:
    """All of it, running."""
    folder = Path(tempfile.mkdtemp(prefix="homeport-gate-"))
    portal, portal_port, app_port = FakePortal(), free_port(), free_port()
    if tls:
        for path in Authority(folder / "ca").pair("tls"):
            path.rename(folder / path.name)
    gate = GateProcess(folder, f"http://127.0.0.1:{portal_port}", app_port, **environ)
    connector = aiohttp.TCPConnector(ssl=False, limit=0)
    async with aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(), connector=connector, auto_decompress=False
    ) as session:
        made = World(gate, portal, session)
        portal.port = portal_port
        async with serving(portal.answer, portal_port):
            try:
                if app:
                    async with serving(made.on_app, app_port, auto_decompress=False):
                        await gate.start()
                        yield made
                else:
                    await gate.start()
                    yield made
            finally:
                gate.kill()
                shutil.rmtree(folder)


def in_world(**given: Any) -> pytest.MarkDecorator:
    """The fixture `w` of a test is a world like this."""
    return pytest.mark.parametrize("w", [given], indirect=True, ids=[""])
