"""Below the reserve nothing makes the disk fuller, and what makes room still works."""

import sqlite3
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError
from django.test import Client

from portal.web import refusals
from tests.factories import make_tenant
from tests.portal.whole import TRAINING


@pytest.mark.django_db
def test_below_the_reserve(settings: Any) -> None:
    client = Client(raise_request_exception=False, headers={"host": "localhost"})
    client.force_login(make_tenant("alice").owner)
    kept = client.post("/api/v1/jobs/", TRAINING, content_type="application/json")
    assert kept.status_code == 201
    settings.DISK_RESERVE_BYTES = 1 << 60  # more than any disk has
    refused = client.post("/api/v1/jobs/", TRAINING, content_type="application/json")
    assert refused.status_code == 507
    assert "no room left" in refused.json()["errors"][0]["text"]
    upload = client.post("/api/v1/bundles/", {"file": SimpleUploadedFile("a.py", b"print(1)")})
    assert upload.status_code == 507
    assert "The disk is nearly full" in client.get("/").content.decode()
    stop = f"/api/v1/jobs/{kept.json()['id']}/stop/"
    assert client.post(stop, {}, content_type="application/json").status_code == 200
    settings.DISK_RESERVE_BYTES = 0
    again = client.post("/api/v1/jobs/", TRAINING, content_type="application/json")
    assert again.status_code == 201
    assert "nearly full" not in client.get("/").content.decode()


def test_a_database_that_finds_no_room_is_a_full_disk() -> None:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE kept (text)")
        database.execute("PRAGMA max_page_count = 2")
        with pytest.raises(sqlite3.OperationalError) as full:
            database.execute("INSERT INTO kept VALUES (zeroblob(100000))")
        with pytest.raises(sqlite3.OperationalError) as wrong:
            database.execute("SELECT nothing")
    for error, refusal in ((full, refusals.DISK_FULL), (wrong, None)):
        seen = OperationalError(str(error.value))
        seen.__cause__ = error.value
        assert refusals.find(seen) is refusal
