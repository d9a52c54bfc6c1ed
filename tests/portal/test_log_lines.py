"""LOG_FORMAT=json: one object a line, by which a request, its person and the reconciler are found."""

import ast
import asyncio
import io
import json
import logging
import os
import sqlite3
import ssl
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging.config import dictConfig
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock
from urllib.parse import urlsplit

import pytest
import requests
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from jobs import bundle_listing
from portal.environment.parsers import parse_log_format
from portal.errors import ConfigurationError
from portal.log_lines import KEYS, JsonLines
from portal.server.tls import make_context
from portal.storage import folder_app
from portal.storage.folder import FolderStore
from portal.storage.folder_app import FolderStoreApp
from portal.web.log_filters import A_MINUTE, MOST_CHARS, OF_REQUESTS
from tests.factories import make_tenant
from tests.jobs.engine.test_takeover import kubeconfig_of_nobody
from tests.jobs.engine.test_takeover import process as running
from tests.portal.whole import whole_portal
from tests.repository.test_ratchet import sources
from tests.tools.authority import Authority
from tests.tools.waiting import wait_for

ALWAYS = {"time", "level", "logger", "message"}


def lines(text: str) -> list[dict[str, Any]]:
    """Every line, of which each must be an object of the known keys."""
    found = [json.loads(line) for line in text.splitlines()]
    for line in found:
        assert set(line) >= ALWAYS, line
        assert set(line) <= ALWAYS | set(KEYS), line
    return found


def test_a_failure_is_found_by_its_request_and_tells_no_secret(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with whole_portal(home, LOG_FORMAT="json") as portal:
        fine = portal.rest("GET", "me/")
        assert fine.headers["X-Request-ID"] != portal.rest("GET", "me/").headers["X-Request-ID"]
        with sqlite3.connect(home / "homeport.sqlite3") as database:
            database.execute("DROP TABLE jobs_template")
        path = "templates/?token=in-the-address"
        given = {"X-Request-ID": "from-the-proxy:1"}
        by_token = requests.get(
            f"{portal.url}/api/v1/{path}", headers={**portal.rest_headers, **given}, timeout=30
        )
        by_session = requests.get(
            f"{portal.url}/api/v1/{path}",
            headers={**portal.page_headers, "X-Request-ID": "two words"},
            timeout=30,
        )
        environ = {
            "HOMEPORT_HOME": str(home),
            "HOMEPORT_KUBECONFIG": str(kubeconfig_of_nobody(tmp_path / "kubeconfig")),
            "LOG_FORMAT": "json",
        }
        log = tmp_path / "reconciler.log"
        with running(tmp_path, "reconciler", "serve", "--no-web", **environ):
            wait_for("it works", lambda: "reconciling" in log.read_text())
        person = fine.json()["id"]
        secrets = (portal.session, portal.token, "in-the-address")
        web, reconciler = lines(portal.log), lines(log.read_text())
    assert (by_token.status_code, by_session.status_code) == (500, 500)
    assert by_token.headers["X-Request-ID"] == "from-the-proxy:1"
    chosen = by_session.headers["X-Request-ID"]
    assert len(chosen) == 32
    for name in ("from-the-proxy:1", chosen):
        told = [line for line in web if line.get("request_id") == name]
        assert told, portal.log
        assert any("no such table: jobs_template" in line["message"] for line in told)
        assert {line.get("user_id") for line in told} == {person}
    assert not any(secret in portal.log for secret in secrets)
    assert [line["epoch"] for line in reconciler if "reconciling" in line["message"]] == [1]


def test_what_a_library_says_beside_its_message_is_left_out() -> None:
    said = {"request": "Cookie: session", "job": "of-this-line"}
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.makeLogRecord({"msg": "it %s", "args": ("failed",), **said})
        record.exc_info = sys.exc_info()
    [line] = lines(JsonLines().format(record))
    assert line["job"] == "of-this-line"
    assert line["message"].startswith("it failed\nTraceback")
    assert line["message"].endswith("ValueError: two\nlines")
    assert "request" not in line


def test_another_format_is_refused() -> None:
    assert parse_log_format(" JSON") == "json"
    with pytest.raises(ConfigurationError, match="line json"):
        parse_log_format("xml")


# --- what clients cause ---------------------------------------------------------------------------


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """What the log of an installation gets meanwhile."""
    told = io.StringIO()
    config = {**settings.LOGGING, "handlers": {}}
    for name, handler in settings.LOGGING["handlers"].items():
        config["handlers"][name] = {**handler, "stream": told, "formatter": "json"}
    root = logging.getLogger()
    before = root.handlers[:]
    try:
        dictConfig(config)
        yield told
    finally:
        root.handlers[:] = before
        dictConfig({**settings.LOGGING, "root": {"handlers": [], "level": "INFO"}})
        root.handlers[:] = before


def send_much(one: Client, path: str) -> list[Any]:
    """What forms of more than their limits are answered, and an address of nobody."""
    files = {f"f{n}": SimpleUploadedFile("a", b"a") for n in range(200)}
    return [
        one.post(path, {f"f{n}": "" for n in range(1500)}),
        one.post(path, files),
        one.post(path, {"text": "x" * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)}),
        one.get(path, headers={"host": "nobody.example"}),
        one.get(f"{path}nowhere/"),
        one.put(path),
    ]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/sign-in/", "/trainings/new/", "/api/v1/jobs/"])
def test_what_clients_cause_is_one_line_below_error_and_seldom(path: str) -> None:
    one = Client(raise_request_exception=False, HTTP_HOST="localhost")
    one.force_login(make_tenant("ada").owner)
    with logged() as told:
        for _ in range(A_MINUTE + 5):
            answers = send_much(one, path)
    found = lines(told.getvalue())
    causes = Counter((line["logger"], line["message"].partition(":")[0]) for line in found)
    assert {line["level"] for line in found} <= {"WARNING", "INFO"}, found
    assert all("\n" not in line["message"] for line in found), found
    assert causes, "the log says nothing of what is sent"
    assert max(causes.values()) <= A_MINUTE, causes
    words = [answer.content.decode() for answer in answers[:3]]
    if "api" not in path:  # which asks for JSON, and looks no further
        for text, limit in zip(
            words, ("1,000 fields", "100 files", "1,048,576 bytes"), strict=True
        ):
            assert limit in text
        assert {answer.status_code for answer in answers[:3]} == {413}


def test_a_busy_answer_is_seldom_told_and_a_failure_always() -> None:
    busy = [("job-preview", 503), ("job-preview", 429), ("sign-in", 503)]
    with logged() as told:
        log = logging.getLogger("django.request")
        for _ in range(600):
            for route, status in busy:
                request = type(
                    "Request", (), {"resolver_match": type("M", (), {"view_name": route})}
                )
                log.error("Refused: %s", route, extra={"status_code": status, "request": request})
        for _ in range(10):
            log.error("Internal Server Error: /", extra={"status_code": 500})
            try:
                raise sqlite3.OperationalError("the disk")
            except sqlite3.OperationalError:
                log.exception("Service Unavailable: /", extra={"status_code": 503})
        for _ in range(50):
            logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
            logging.getLogger("uvicorn.error").error("Exception in ASGI application")
    found = lines(told.getvalue())
    assert sum("Refused" in line["message"] for line in found) == A_MINUTE * len(busy)
    assert sum("Invalid HTTP" in line["message"] for line in found) == A_MINUTE
    errors = Counter(line["message"].split("\n")[0] for line in found if line["level"] == "ERROR")
    assert errors["Internal Server Error: /"] == errors["Service Unavailable: /"] == 10
    assert errors["Exception in ASGI application"] == 50


def hang_up(folder: Path) -> None:
    """An upload to the folder store breaks off."""
    link = FolderStore(folder, "http://localhost/").link_put("code/a", size_bytes=5)
    url = urlsplit(link.url)
    where = {"path": url.path, "query_string": url.query.encode(), "headers": []}

    async def nothing_more() -> dict[str, str]:
        return {"type": "http.disconnect"}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder_app, "get_store", lambda: FolderStore(folder, "http://localhost/"))
        app = FolderStoreApp(AsyncMock())
        asyncio.run(app({"type": "http", "method": "PUT", **where}, nothing_more, AsyncMock()))


def upload_what_the_reader_dies_of(folder: Path) -> None:
    dying = (sys.executable, "-c", f"raise SystemExit('a\\rb' + 'x' * {2 * MOST_CHARS})")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle_listing, "COMMAND", dying)
        bundle_listing.list_bundle(folder, "a.zip", 1, person="ada")


def connect_when_the_certificate_is_half_written(folder: Path) -> None:
    certificate, key = Authority(folder / "ca").pair("tls")
    context = make_context(str(certificate), str(key))
    assert context is not None
    certificate.write_text("half\n")
    os.utime(certificate, (1, 1))
    hello, nobody = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(nobody, hello, server_hostname="localhost")
    for one in (client, context.wrap_bio(hello, ssl.MemoryBIO(), server_side=True)):
        with pytest.raises(ssl.SSLWantReadError):
            one.do_handshake()


@pytest.mark.parametrize(
    "happen",
    [hang_up, upload_what_the_reader_dies_of, connect_when_the_certificate_is_half_written],
)
def test_what_people_and_broken_servers_cause_is_seldom_told(
    tmp_path: Path, happen: Callable[[Path], None]
) -> None:
    with logged() as told:
        for n in range(A_MINUTE + 3):
            folder = tmp_path / str(n)
            folder.mkdir()
            happen(folder)
    messages = [line["message"] for line in lines(told.getvalue())]
    assert len(messages) == A_MINUTE, messages
    assert all("\n" not in text and len(text) <= MOST_CHARS for text in messages), messages


# What no request causes, or what tells of it only once.
OF_THE_RECONCILER = ("jobs.engine.", "tenants.reconcile.", "portal.cluster.", "portal.management.")
RARE = {
    "portal.database.postgres.outage": "when it begins, and when it ends",
    "portal.live": "once a minute, by a filter of its own",
    "portal.log_lines": "what a library writes to a stream",
    "jobs.logs.hub": "a failure of ours",
}
LEVELS = {"debug", "info", "warning", "error", "critical", "log"}


def test_each_logger_that_requests_reach_has_a_bound() -> None:
    """Failures of ours, by `log.exception`, are told whenever they come."""
    speaking = {
        ".".join(path.with_suffix("").parts)
        for path, text in sources().items()
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in LEVELS
        and ast.unparse(call.func.value) in {"log", "self._log", "logger", "logging"}
        and path.parts[0] in {"jobs", "portal", "tenants"}
        and path.parts[1] not in {"pod", "client"}
    }
    assert speaking >= OF_REQUESTS
    assert RARE.keys() <= speaking
    unbounded = speaking - OF_REQUESTS - RARE.keys()
    assert not {name for name in unbounded if not name.startswith(OF_THE_RECONCILER)}
