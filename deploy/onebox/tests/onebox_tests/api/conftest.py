"""An Api in memory, a server in the loop of the test, and a whole process with its clients."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from onebox.api.bootstrap import ensure_first_objects
from onebox.api.registry import Api
from onebox.api.server import Access, Server
from onebox.api.store import Store

ADMIN_TOKEN = "admin-token"
DEADLINE_S = 20.0

Obj = dict[str, Any]


class Clock:
    """A clock that only moves when it is told to."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def api(clock: Clock) -> Iterator[Api]:
    store = Store(None)
    made = Api(store, clock=clock)
    ensure_first_objects(made)
    made.create("namespaces", None, {"metadata": {"name": "lab"}})
    yield made
    store.close()


def pod(name: str = "p", **spec: Any) -> Obj:
    """A small pod."""
    containers = [{"name": "main", "image": "python:3.11-slim"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


@dataclass
class Http:
    """A client of the server under test."""

    session: aiohttp.ClientSession
    base: str

    async def call(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        async with self.session.request(method, f"{self.base}{path}", **more) as reply:
            return reply.status, await reply.json(content_type=None)

    async def get(self, path: str, **more: Any) -> tuple[int, Any]:
        return await self.call("GET", path, **more)

    async def post(self, path: str, body: Obj, **more: Any) -> tuple[int, Any]:
        return await self.call("POST", path, json=body, **more)

    async def patch(self, path: str, body: Any, kind: str = "merge-patch+json") -> tuple[int, Any]:
        headers = {"Content-Type": f"application/{kind}"}
        return await self.call("PATCH", path, json=body, headers=headers)


@pytest.fixture
async def server(api: Api, tmp_path: Path) -> AsyncIterator[Server]:
    made = Server(api, Access({ADMIN_TOKEN: "admin"}), node_token_file=tmp_path / "node-token")
    yield made
    await made.stop()


@pytest.fixture
async def http(server: Server) -> AsyncIterator[Http]:
    port = await server.start(0, None)
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        yield Http(session, f"http://127.0.0.1:{port}")


@dataclass
class Process:
    """`python -m onebox.api` as its users start it."""

    home: Path
    options: list[str] = field(default_factory=list)
    child: subprocess.Popen[bytes] | None = None

    @property
    def kubeconfig(self) -> Path:
        return self.home / "kubeconfig"

    def start(self) -> None:
        """Start, and wait until it says that it answers."""
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "onebox.api", "--home", str(self.home / "api")]
        self.child = subprocess.Popen(
            [*command, "--ready-fd", str(writing), *self.options],
            pass_fds=(writing,),
            stdout=subprocess.DEVNULL,
        )
        os.close(writing)
        with os.fdopen(reading) as pipe:
            assert pipe.read() == "ready\n", "the API did not start"

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; gives the exit status."""
        assert self.child is not None
        self.child.send_signal(number)
        status = self.child.wait(DEADLINE_S)
        self.child = None
        return status

    def credentials(self, file: str = "kubeconfig") -> tuple[str, str, ssl.SSLContext]:
        """Give address, token and TLS context of a kubeconfig."""
        config = yaml.safe_load((self.home / file).read_text())
        cluster = config["clusters"][0]["cluster"]
        context = ssl.create_default_context(cafile=str(self.home / "api" / "pki" / "ca.crt"))
        return cluster["server"], config["users"][0]["user"]["token"], context


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    with tempfile.TemporaryDirectory(prefix="onebox-api-") as folder:
        made = Process(Path(folder))
        made.start()
        yield made
        if made.child is not None:
            made.stop()


async def eventually(check: Any, text: str) -> None:
    """Wait until a condition holds, or fail with a sentence."""
    end = asyncio.get_running_loop().time() + DEADLINE_S
    while not check():
        assert asyncio.get_running_loop().time() < end, f"never happened: {text}"
        await asyncio.sleep(0.01)
