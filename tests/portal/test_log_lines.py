"""LOG_FORMAT=json: one object a line, by which a request, its person and the reconciler are found."""

import json
import logging
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
import requests

from portal.environment.parsers import parse_log_format
from portal.errors import ConfigurationError
from portal.log_lines import KEYS, JsonLines
from tests.jobs.engine.test_takeover import kubeconfig_of_nobody
from tests.jobs.engine.test_takeover import process as running
from tests.portal.whole import whole_portal
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
