"""Image environments that nodes of several homes share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from onebox.node.images import Images

from .bench import DEADLINE_S, IS_ROOT, until
from .wheels import define, make_wheel

PULL = """
import asyncio, sys
from pathlib import Path
from onebox.node.images import Images

async def main():
    home, shared = map(Path, sys.argv[1:])
    image = await Images(home, shared).ensure("test/hello:1", lambda line: print(line, flush=True))
    print(image.mounts[0].path)

asyncio.run(main())
"""
MAKING = "Making the environment"


class Wheels(ThreadingHTTPServer):
    """Serves one wheel, once it may."""

    def __init__(self, wheel: Path) -> None:
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self.wheel = wheel.read_bytes()
        super().__init__(("127.0.0.1", 0), _Handler)

    def requirement(self) -> str:
        return f"hello @ http://127.0.0.1:{self.server_port}/hello-1.0-py3-none-any.whl\n"


class _Handler(BaseHTTPRequestHandler):
    server: Wheels

    def do_GET(self) -> None:
        self.server.asked.set()
        self.server.may_answer.wait(DEADLINE_S)
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.wheel)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(self.server.wheel)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def wheels(tmp_path, monkeypatch) -> Iterator[Wheels]:
    for name in ("UV_NO_INDEX", "PIP_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Wheels(make_wheel(tmp_path)) as server:
        threading.Thread(target=server.serve_forever).start()
        yield server
        server.may_answer.set()
        server.shutdown()


def new_home(tmp_path: Path, name: str, wheels: Wheels) -> Path:
    (tmp_path / name / "images").mkdir(parents=True)
    define(tmp_path / name, wheels.requirement())
    return tmp_path / name


def node(home: Path, shared: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PULL, str(home), str(shared)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def environments(folder: Path) -> list[Path]:
    return sorted((folder / "envs").iterdir())


async def test_two_nodes_build_one_environment_also_after_a_third_was_killed_at_it(
    tmp_path, wheels
):
    shared = tmp_path / "shared"
    nodes = [node(new_home(tmp_path, name, wheels), shared) for name in "abc"]
    await until(wheels.asked.is_set, "the request of the only one that builds")
    assert len(environments(shared)) == 1
    builder = next(n for n in nodes if f"tmp-{n.pid}" in environments(shared)[0].name)
    builder.send_signal(signal.SIGKILL)
    wheels.may_answer.set()
    said = {n.pid: n.communicate(timeout=DEADLINE_S)[0].splitlines() for n in nodes}
    assert said.pop(builder.pid) == [MAKING]
    assert sum(lines.count(MAKING) for lines in said.values()) == 1
    [built] = environments(shared)
    assert [lines[-2:] for lines in said.values()] == [["Installed", str(built)]] * 2
    assert not environments(tmp_path / "a" / "images")


async def test_what_a_home_has_it_does_not_build_again(tmp_path, wheels):
    wheels.may_answer.set()
    home = new_home(tmp_path, "a", wheels)
    before = await Images(home).ensure("test/hello:1", lambda _line: None)
    assert Images(home, tmp_path / "shared").is_present("test/hello:1") == before


@pytest.mark.skipif(not IS_ROOT, reason="gives a folder to somebody else")
async def test_a_folder_of_somebody_else_is_not_used(tmp_path, wheels):
    wheels.may_answer.set()
    home, shared = new_home(tmp_path, "a", wheels), tmp_path / "shared"
    await Images(home, shared).ensure("test/hello:1", lambda _line: None)
    os.chown(shared, 65534, 65534)
    assert Images(home, shared).is_present("test/hello:1") is None
    await Images(home, shared).ensure("test/hello:1", lambda _line: None)
    assert len(environments(home / "images")) == 1
