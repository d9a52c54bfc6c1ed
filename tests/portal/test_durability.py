"""What the portal has answered is on disk: counted by the system calls that put it there."""

from pathlib import Path

import pytest
import requests
from django.db import connection

from tests.portal.whole import whole_portal
from tests.tools.fsyncs import watched

DATABASE = "homeport.sqlite3"


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "sqlite", reason="a pragma of SQLite")
def test_each_commit_waits_for_the_disk() -> None:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA synchronous")
        assert cursor.fetchone() == (2,)  # FULL


def test_what_was_acknowledged_is_on_disk(tmp_path: Path) -> None:
    with whole_portal(tmp_path) as portal, watched(portal.pid, tmp_path) as fsyncs:
        api = requests.Session()
        api.headers.update(portal.rest_headers)
        counts = [fsyncs.of(DATABASE)]

        def call(method: str, path: str, status: int, **body: object) -> requests.Response:
            answer = api.request(method, f"{portal.url}/api/v1/{path}", timeout=60, **body)
            counts.append(fsyncs.of(DATABASE))
            assert answer.status_code == status, answer.text
            assert counts[-1] > counts[-2], (method, path)
            return answer

        training = {"name": "kept", "image": "python:3.11-slim", "command": ["true"]}
        job = call("POST", "jobs/", 201, json=training).json()["id"]
        call("POST", f"jobs/{job}/stop/", 200)
        before = fsyncs.below(tmp_path / "store")
        file = {"file": ("code.py", b"print(1)")}
        bundle = call("POST", "bundles/", 201, files=file).json()["id"]
        # The file, the folder that names it, and each folder that was made for it.
        assert fsyncs.below(tmp_path / "store") >= before + 3
        before = fsyncs.below(tmp_path / "store")
        call("DELETE", f"bundles/{bundle}/", 204)
        assert fsyncs.below(tmp_path / "store") == before + 1  # the folder that named it
        call("DELETE", f"jobs/{job}/", 204)
