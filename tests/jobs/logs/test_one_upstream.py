"""A log endpoint that is busy never has two follows of one container from one process."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jobs.logs import hub, tail
from jobs.logs.hub import Hub
from jobs.logs.tail import Key
from portal.cluster import logs
from portal.cluster.credentials import Credentials
from portal.cluster.logs import LogReader
from tests.jobs.logs.test_tail import Recorder, until
from tests.portal.cluster.test_logs import NoConfiguration, chunked
from tests.tools.authority import Authority

KEY = Key("u-ada", "pod", "main")
NOTICED_S = 0.6  # more than the pause before a follow is opened again


class BusyEndpoint:
    """Follows that say one line and then nothing; it notices late that somebody has gone.

    As upstream's API server it ends a connection when it is done with the answer, and not as soon as
    the other side wants no more.

    Attributes:
        answers_after_s: what it takes for the head of an answer.
        open: follows that it has now.
        most: at once.
        begun: all.
    """

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self.answers_after_s = 0.0
        self.open = self.most = self.begun = 0
        self._tls = tls
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[accepted], daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.closing(accepted):
            if self._tls is not None:
                accepted = self._tls.wrap_socket(accepted, server_side=True)
            with contextlib.closing(accepted):
                if b"follow=true" in accepted.recv(65536):
                    self._follow(accepted)
                else:
                    accepted.sendall(chunked(b"2026-11-20T16:50:07.000000001Z step\n"))

    def _follow(self, accepted: socket.socket) -> None:
        with self._lock:
            self.open += 1
            self.begun += 1
            self.most = max(self.most, self.open)
        try:
            time.sleep(self.answers_after_s)
            line = b"2026-11-20T16:50:07.%09dZ step\n" % self.begun
            accepted.sendall(chunked(line, end=b""))
            while accepted.recv(65536):
                pass
        finally:
            time.sleep(NOTICED_S)
            with self._lock:
                self.open -= 1


class Source(LogReader):
    """Logs of the endpoint, of a pod that runs."""

    async def get(self, kind: str, namespace: str | None, name: str) -> dict[str, Any]:
        return {"spec": {}, "status": {"phase": "Running"}}


@pytest.fixture(params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def endpoint(scheme: str, authority: Authority) -> Iterator[BusyEndpoint]:
    tls = None
    if scheme == "https":
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*authority.pair("server"))
        tls.options |= ssl.OP_IGNORE_UNEXPECTED_EOF  # as Go has it
    with contextlib.closing(BusyEndpoint(tls)) as found:
        yield found


@pytest.fixture
async def made(scheme: str, authority: Authority, endpoint: BusyEndpoint) -> AsyncIterator[Hub]:
    ca = authority.folder / "ca.crt"
    tls = ssl.create_default_context(cafile=str(ca)) if scheme == "https" else None
    account = Credentials(f"{scheme}://127.0.0.1:{endpoint.port}", tls, None, NoConfiguration())
    found = Hub(Source(account))
    yield found
    await found.close()
    await until(lambda: not endpoint.open)


async def test_who_comes_and_goes_while_a_follow_is_closed(
    made: Hub, endpoint: BusyEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "LINGER_S", 0.0)
    for _visit in range(4):
        watcher = Recorder()
        joined = made.join(KEY, watcher, None)
        if not endpoint.begun:
            await until(lambda seen=watcher: bool(seen.texts))
        made.leave(KEY, joined, watcher)
        await asyncio.sleep(0.05)
    made.join(KEY, watcher, None)
    await until(lambda: endpoint.begun == 2)
    assert endpoint.most == 1


@pytest.mark.parametrize(
    ("module", "limit", "seconds", "answers_after_s"),
    [(tail, "SILENCE_S", 0.1, 0.0), (logs, "ANSWER_S", 0.2, 0.5)],
    ids=["fell silent", "slow to answer"],
)
async def test_a_follow_is_closed_before_it_is_opened_again(
    made: Hub,
    endpoint: BusyEndpoint,
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    limit: str,
    seconds: float,
    answers_after_s: float,
) -> None:
    monkeypatch.setattr(module, limit, seconds)
    endpoint.answers_after_s = answers_after_s
    made.join(KEY, Recorder(), None)
    await until(lambda: endpoint.begun >= 2)
    assert endpoint.most == 1


async def test_an_endpoint_that_never_lets_go_is_left(
    made: Hub, endpoint: BusyEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "HANG_UP_S", 0.1)
    monkeypatch.setattr(tail, "SILENCE_S", 0.05)
    made.join(KEY, Recorder(), None)
    await until(lambda: endpoint.begun >= 2)
