"""`manage.py migrate` keeps a way back, and no version runs on a database that is not for it."""

import io
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.utils import timezone

from jobs.leader.holder import find_holder
from jobs.leader.lease import TTL_S, holder_name
from jobs.models import ReconcilerLease
from portal.database import schema
from tests.factories import make_job, make_tenant
from tests.portal.databases import ALIAS, code_with, migrate, sqlite
from tests.portal.programs import program

HARMLESS = {"0002_harmless": True}
BREAKING = {**HARMLESS, "0003_breaking": False}


@pytest.fixture
def here(migrated: Path, tmp_path: Path, django_db_blocker) -> Iterator[Path]:
    """A migrated database of this code under ALIAS; its path."""
    path = tmp_path / "homeport.sqlite3"
    shutil.copy(migrated, path)
    with django_db_blocker.unblock(), sqlite(path):
        yield path


def tables(path: Path) -> set[str]:
    with sqlite3.connect(path) as opened:
        found = {name for (name,) in opened.execute("SELECT name FROM sqlite_master")}
    opened.close()
    return {name for name in found if name.startswith("later_")}


@pytest.mark.parametrize(
    ("of_database", "of_code", "refusal"),
    [
        ({}, {}, ""),
        ({}, HARMLESS, "lacks the migration portal.0002_harmless. Run: manage.py migrate"),
        ({}, BREAKING, "lacks the migration portal.0002_harmless, portal.0003_breaking."),
        (HARMLESS, {}, ""),
        (BREAKING, {}, "does not know the migration portal.0003_breaking."),
        (BREAKING, HARMLESS, "does not know the migration portal.0003_breaking."),
        # Not the same history: what that version did nobody here can judge.
        ({"0002_other": False}, HARMLESS, "does not know the migration portal.0002_other."),
    ],
)
def test_only_the_right_version_serves(here, tmp_path, of_database, of_code, refusal):
    (made := tmp_path / "made").mkdir()
    (now := tmp_path / "now").mkdir()
    with code_with(made, of_database):
        migrate()
    with code_with(now, of_code):
        problem = schema.problem(ALIAS)
        assert problem is not None
        assert refusal in problem
        assert bool(problem) == bool(refusal)


def test_a_database_of_a_newer_version_is_not_migrated(here, tmp_path):
    (made := tmp_path / "made").mkdir()
    (now := tmp_path / "now").mkdir()
    with code_with(made, {"0002_newer": True}):
        migrate()
    migrate()  # older code that may run on it has nothing to do
    before = here.read_bytes()
    with (
        code_with(now, HARMLESS),
        pytest.raises(CommandError, match=r"does not know the migration portal\.0002_newer"),
    ):
        migrate()
    assert here.read_bytes() == before


def test_tables_of_sign_in_by_a_provider_may_stay(here):
    """They are missing when OIDC_ISSUER is set first, and nobody's when it is unset again."""
    with connections[ALIAS].cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES (%s, %s, %s)",
            ["socialaccount", "0001_initial", timezone.now()],
        )
    assert schema.problem(ALIAS) == ""


class Elsewhere:
    """A reconciler of another machine, which renews its lease in a thread."""

    def __init__(self, *, renews: bool) -> None:
        self._renews, self._stop = renews, threading.Event()
        self._rows = ReconcilerLease.objects.using(ALIAS)
        self._rows.create(pk=1, holder="elsewhere/1/2", epoch=7, renewed_at=timezone.now())
        self._thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        while self._renews and not self._stop.wait(0.1):
            self._rows.update(renewed_at=timezone.now())
        connections[ALIAS].close()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.parametrize(
    ("later", "refusal"),
    [
        (HARMLESS, ""),
        (BREAKING, r"a reconciler is at work \(elsewhere/1/2\).*portal\.0003_breaking"),
    ],
)
def test_nothing_changes_under_a_reconciler_that_could_not_go_on(here, tmp_path, later, refusal):
    (now := tmp_path / "now").mkdir()
    with Elsewhere(renews=True), code_with(now, later):
        if refusal:
            with pytest.raises(CommandError, match=refusal):
                migrate()
        else:
            migrate()
    assert tables(here) == (set() if refusal else {"later_0002_harmless"})
    assert len(list(here.parent.glob("*Z.sqlite3"))) == (0 if refusal else 1)


@pytest.mark.parametrize(
    ("holder", "found"),
    [("", False), (holder_name()[:-1] + "x", False), ("elsewhere/1/2", False)],
    ids=["nobody", "here", "elsewhere"],  # this process's own name is another in each run
)
def test_a_lease_that_nobody_renews_holds_nothing_up(here, holder, found):
    """Free, of a process that is no more, and of one elsewhere that was silent for a whole term."""
    ReconcilerLease.objects.using(ALIAS).create(pk=1, holder=holder, renewed_at=timezone.now())
    now, said = [0.0], []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    name = find_holder(using=ALIAS, say=said.append, monotonic=lambda: now[0], sleep=sleep)
    assert bool(name) == found
    assert now[0] == (TTL_S if holder.startswith("elsewhere") else 0)
    assert len(said) == bool(now[0])


def test_each_migrate_keeps_a_copy_and_the_last_three_stay(here, tmp_path, monkeypatch):
    later: dict[str, bool] = {}
    for number in range(2, 7):
        later[f"000{number}_later"] = False
        (folder := tmp_path / f"code{number}").mkdir()
        when = timezone.now().replace(2027, 1, number, 10, 30, 0)
        monkeypatch.setattr(
            "portal.management.commands.migrate.timezone", SimpleNamespace(now=lambda now=when: now)
        )
        with code_with(folder, later):
            said = io.StringIO()
            call_command("migrate", database=ALIAS, stdout=said)
    kept = sorted(here.parent.glob("*Z.sqlite3"))
    assert [path.name for path in kept] == [
        "homeport-portal.0003_later-20270104T103000Z.sqlite3",
        "homeport-portal.0004_later-20270105T103000Z.sqlite3",
        "homeport-portal.0005_later-20270106T103000Z.sqlite3",
    ]
    assert f"kept in {kept[-1]}" in said.getvalue()
    # Each is the database as it was, in one file, for its owner alone.
    assert tables(kept[0]) == {"later_0002_later", "later_0003_later"}
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    assert not list(here.parent.glob("*unfinished*"))
    # With nothing to do there is nothing to keep.
    (again := tmp_path / "again").mkdir()
    with code_with(again, later):
        migrate()
    assert sorted(here.parent.glob("*Z.sqlite3")) == kept


def test_without_room_for_the_copy_nothing_is_migrated(here, tmp_path, monkeypatch):
    (now := tmp_path / "now").mkdir()
    usage = SimpleNamespace(free=1_000_000)
    monkeypatch.setattr("portal.database.sqlite_copy.shutil.disk_usage", lambda _: usage)
    with (
        code_with(now, HARMLESS),
        pytest.raises(CommandError, match=r"needs 3\d\.\d MB in .*1\.0 MB are free.*Nothing was"),
    ):
        migrate()
    assert tables(here) == set()
    assert [path.name for path in here.parent.glob("*Z.sqlite3*")] == []


def test_serve_migrates_nothing_and_says_what_is_missing(tmp_path):
    done = program(tmp_path, "manage.py", "serve")
    assert done.returncode == 1
    assert "lacks the migration" in done.stderr
    assert "jobs.0002_initial" in done.stderr
    assert "Traceback" not in done.stderr
    # The first time there is nothing to keep and nothing to tell.
    done = program(tmp_path, "-m", "deploy.prepare")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.glob("*Z.sqlite3"))


@pytest.mark.skipif(connection.vendor != "postgresql", reason="runs in the lane `servers`")
@pytest.mark.django_db(transaction=True)
def test_pages_of_a_version_whose_tables_went_on_say_so() -> None:
    """A mistake of ours stays one: only where the database is of another version it is that."""
    client = Client(raise_request_exception=False, headers={"host": "localhost"})
    client.force_login(make_job(make_tenant("alice")).owner)
    newer = MigrationRecorder(connection)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_workload RENAME COLUMN state TO phase")
        try:
            assert client.get("/trainings/").status_code == 500
            newer.record_applied("jobs", "9999_newer")
            page, rest = client.get("/trainings/"), client.get("/api/v1/jobs/")
        finally:
            newer.record_unapplied("jobs", "9999_newer")
            cursor.execute("ALTER TABLE jobs_workload RENAME COLUMN phase TO state")
    assert page.status_code == rest.status_code == 503
    assert "Homeport is being upgraded" in page.content.decode()
    assert rest.json()["errors"][0]["code"] == "upgrading"
    assert client.get("/trainings/").status_code == 200
