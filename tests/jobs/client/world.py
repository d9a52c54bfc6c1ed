"""A portal that answers as a test says, and a command line that is run in this process."""

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click
import pytest

from homeport_client import contexts
from homeport_client.__main__ import main
from homeport_client.cli import cli
from homeport_client.contexts import Context, Contexts
from homeport_client.session import CliSession
from homeport_client.terminal import Terminal

JOB_ID = "12345678-1234-4234-8234-123456789abc"


def job(**changes: Any) -> dict[str, Any]:
    """A training as REST shows it."""
    return {
        "id": JOB_ID,
        "name": "mnist",
        "owner": "ada",
        "namespace": "u-ada-1",
        "state": "running",
        "reason": {"code": "", "text": "", "next_step": ""},
        "attempt": 1,
        "queued_at": "2026-11-20T10:00:00Z",
        "started_at": "2026-11-20T10:00:05Z",
        "finished_at": None,
        "replicas": [],
        "resources": {"worker": {"count": 1, "cpu": "1", "memory": "1Gi", "gpu": 0}},
        "image": "python:3.11-slim",
        "command": ["python", "train.py"],
        **changes,
    }


def listed(*rows: Any) -> dict[str, Any]:
    """A page of a list."""
    return {"count": len(rows), "next": None, "previous": None, "results": list(rows)}


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """What is answered: JSON unless `data` is given; `cut` closes the connection in its midst."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    data: bytes | None = None
    cut: int | None = None  # after so many bytes


def refusal(status: int, code: str, text: str, field: str = "") -> Answer:
    return Answer({"errors": [{"field": field, "code": code, "text": text}]}, status)


@dataclass
class Scripted:
    """A portal whose answers are given by `METHOD path` (without query): one, or one each time."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    def answer(self, asked: Asked) -> Answer:
        key = f"{asked.method} {asked.path.partition('?')[0].removeprefix('/api/v1/')}"
        found = self.answers.get(key)
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if callable(found):
            found = found(asked)
        if found is None:
            return refusal(404, "not_found", f"no {key}")
        return found if isinstance(found, Answer) else Answer(found)

    def paths(self) -> list[str]:
        return [f"{asked.method} {asked.path.removeprefix('/api/v1/')}" for asked in self.asked]


def handler_of(portal: Scripted) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: Any) -> None:
            pass

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked = Asked(self.command, self.path, dict(self.headers), self.rfile.read(length))
            portal.asked.append(asked)
            answer = portal.answer(asked)
            data = json.dumps(answer.body).encode() if answer.data is None else answer.data
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status != 204:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if answer.cut is not None:
                self.wfile.write(data[: answer.cut])
                self.close_connection = True
            elif answer.status != 204:
                self.wfile.write(data)

    Handler.do_POST = Handler.do_DELETE = Handler.do_GET  # type: ignore[attr-defined]
    return Handler


class QuietServer(ThreadingHTTPServer):
    """Says nothing about clients that hang up: some tests do just that."""

    daemon_threads = True

    def handle_error(self, *words: Any) -> None:
        pass


@contextmanager
def scripted(**answers: Any) -> Iterator[Scripted]:
    """A running one."""
    portal = Scripted(dict(answers))
    server = QuietServer(("127.0.0.1", 0), handler_of(portal))
    portal.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield portal
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class CommandLine:
    """The command line of somebody who is signed in at a portal, with what that one answers."""

    def __init__(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, portal: Scripted | None = None
    ) -> None:
        self.home = home
        self._monkeypatch = monkeypatch
        found = portal or Scripted()
        self.answers, self.asked, self.url = found.answers, found.asked, found.url
        self.paths = found.paths
        for name in ("HOMEPORT_URL", "HOMEPORT_TOKEN", "HOMEPORT_CONTEXT", "NO_COLOR"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
        monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
        if self.url:
            self.sign_in(self.url)

    @property
    def folder(self) -> Path:
        return self.home / "config" / "homeport"

    def sign_in(self, url: str) -> None:
        contexts.save(self.folder, Contexts("here", {"here": Context(url, "hp_token", "ada")}))

    def __call__(self, *words: str, stdin: str = "") -> Ran:
        out, err = io.StringIO(), io.StringIO()
        with self._monkeypatch.context() as patch:
            patch.setattr("sys.stdout", out)
            patch.setattr("sys.stderr", err)
            patch.setattr("sys.stdin", io.StringIO(stdin))
            code = main(list(words))
        return Ran(code, out.getvalue(), err.getvalue())


def parsed(*words: str) -> dict[str, Any]:
    """What a command is called with."""
    command: click.Command | None = cli
    rest, name = list(words), ""
    while isinstance(command, click.Group):
        name = rest.pop(0)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    return command.make_context(name, rest, obj=CliSession(Terminal())).params
