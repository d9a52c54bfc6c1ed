"""A backup that is taken while others write, and after a wipe the same rows.

In the lane with PostgreSQL it is on that, otherwise on SQLite.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from portal.backup.restoring import EPOCH_JUMP
from tests.portal.busy import SEALED
from tests.portal.programs import ROOT, environ_of, program
from tests.tools.waiting import wait_for


@dataclass
class Installation:
    """A HOMEPORT_HOME and a database."""

    home: Path
    database_url: str = ""

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return program(self.home, *arguments, DATABASE_URL=self.database_url)

    def ok(self, *arguments: str) -> str:
        done = self.call(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def rows(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ok("-m", "tests.portal.busy", "rows"))
        return found

    def wipe(self) -> None:
        shutil.rmtree(self.home)
        self.home.mkdir()
        if self.database_url:
            with psycopg.connect(self.database_url, autocommit=True) as other:
                other.execute("DROP SCHEMA public CASCADE")
                other.execute("CREATE SCHEMA public")


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    (home := tmp_path / "home").mkdir()
    if connection.vendor == "sqlite":
        yield Installation(home)
        return
    server, _, _ = os.environ["DATABASE_URL"].rpartition("/")
    name = f"backup_{secrets.token_hex(4)}"
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as other:
        other.execute(f"CREATE DATABASE {name}")
        try:
            yield Installation(home, f"{server}/{name}")
        finally:
            other.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_the_same_rows_after_a_wipe(installation: Installation, tmp_path: Path):
    installation.ok("manage.py", "migrate")
    installation.ok("-m", "tests.portal.busy", "seed")
    loaded, stopped = tmp_path / "loaded.backup", tmp_path / "stopped.backup"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.portal.busy", "write"],
        cwd=ROOT,
        env=environ_of(installation.home, DATABASE_URL=installation.database_url),
        stdin=subprocess.PIPE,
        stdout=(tmp_path / "written").open("w"),
    ) as writer:
        try:
            wait_for("it writes", lambda: acknowledged(tmp_path / "written"))
            before = acknowledged(tmp_path / "written")
            assert "is whole" in installation.ok("manage.py", "backup", str(loaded))
            after = acknowledged(tmp_path / "written")
        finally:
            writer.stdin.close()
    assert writer.returncode == 0
    with zipfile.ZipFile(loaded) as file:
        assert SEALED.encode() not in b"".join(map(file.read, file.namelist()))
    # With nobody at work it is the same, but for the rows that came since.
    kept = installation.rows()
    if installation.database_url:
        their_own_program_has_the_same(installation, stopped)
    else:
        installation.ok("manage.py", "backup", str(stopped))
    key = (installation.home / "secret_key").read_text()

    installation.wipe()
    installation.ok("manage.py", "migrate")  # with tables but nobody in it
    said = installation.ok("manage.py", "restore", str(stopped))
    assert "restored" in said
    found = installation.rows()
    assert found["epochs"] == [epoch + EPOCH_JUMP for epoch in kept["epochs"]]
    assert (installation.home / "secret_key").read_text() == key
    assert without_epoch(found) == without_epoch(kept)
    # Somebody is there now: nothing is put over that.
    done = installation.call("manage.py", "restore", str(loaded))
    assert done.returncode == 1
    assert "has 5 people" in done.stderr
    assert without_epoch(installation.rows()) == without_epoch(kept)

    # The one under load: whole transactions, all that were acknowledged before it began.
    installation.wipe()
    installation.ok("manage.py", "restore", str(loaded))
    written = installation.rows()["written"]
    assert all(revision == events for revision, events in written.values())
    assert {
        job: before[job] <= written[job][1] <= after[job] + 1 for job in before
    } == dict.fromkeys(before, True)
    assert sum(after.values()) > sum(before.values()), "nothing was written meanwhile"
    # And it works on: sequences give numbers that nobody has.
    installation.ok("-m", "tests.portal.busy", "more")


def test_make_run_leaves_a_server_s_database_to_its_owner(installation: Installation):
    """It sets up an empty one, and copies an SQLite one before it migrates; that it cannot here."""
    installation.ok("-m", "deploy.prepare")
    installation.ok("-m", "deploy.prepare")
    installation.ok("manage.py", "migrate", "portal", "zero")
    kept = set(installation.home.glob("*Z.sqlite3"))
    done = installation.call("-m", "deploy.prepare")
    if installation.database_url:
        assert done.returncode == 1
        assert "lacks the migration portal.0001_initial" in done.stderr
        assert "pg_dump --format=custom" in done.stderr
        assert "manage.py migrate\n" in done.stderr
        assert "Traceback" not in done.stderr
        assert installation.call("manage.py", "migrate", "--check").returncode == 1
    else:
        assert done.returncode == 0, done.stderr
        assert set(installation.home.glob("*Z.sqlite3")) - kept


def their_own_program_has_the_same(installation: Installation, path: Path) -> None:
    """A backup of what pg_dump wrote has the rows of one that is read by us; one with less is refused."""
    dump = path.with_name("dump.sql")
    words = ("pg_dump", "--data-only", "--encoding=UTF8", f"--dbname={installation.database_url}")
    subprocess.run([*words, f"--file={dump}"], check=True)
    own = path.with_name("own.backup")
    installation.ok("manage.py", "backup", str(own))
    installation.ok("manage.py", "backup", str(path), "--dump", str(dump))
    with zipfile.ZipFile(own) as first, zipfile.ZipFile(path) as second:
        assert SEALED.encode() not in b"".join(map(second.read, second.namelist()))
        abouts = [json.loads(one.read("backup.json")) for one in (first, second)]
        for name in ("tables", "sequences", "migrations"):
            assert abouts[0][name] == abouts[1][name]
        for table in abouts[0]["tables"]:
            rows = [sorted(one.read(f"rows/{table}").splitlines()) for one in (first, second)]
            assert rows[0] == rows[1], table
    subprocess.run([*words, f"--file={dump}", "--exclude-table=tenants_team"], check=True)
    done = installation.call("manage.py", "backup", str(own) + "-2", "--dump", str(dump))
    assert done.returncode == 1
    assert "does not have the table tenants_team" in done.stderr


def acknowledged(path: Path) -> dict[str, int]:
    """Training -> transactions that were committed so far; of all writers, or nothing."""
    found: dict[str, int] = {}
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n"):
            job, number = line.split()
            found[job] = int(number)
    return found if len(found) == 3 else {}


def without_epoch(found: dict[str, Any]) -> dict[str, Any]:
    left_out = {"epochs", "jobs_reconcilerlease"}
    return {table: rows for table, rows in found.items() if table not in left_out}
