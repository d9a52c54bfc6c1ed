"""What a backup holds, and everything that keeps one from being put somewhere."""

import contextlib
import os
import random
import re
import shutil
import sqlite3
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test import override_settings

from portal.backup import BackupError
from portal.backup.about import About, Target, fingerprint, why_not_restore
from portal.backup.dumped import read_dump
from portal.backup.file import ABOUT, BackupReader, BackupWriter
from portal.backup.restoring import EPOCH_JUMP, restore
from portal.backup.taking import take
from portal.database import schema
from portal.progress import Progress
from portal.storage import get_store
from tenants.models import User
from tests.portal.databases import ALIAS, code_with, sqlite
from tests.portal.programs import program

KNOWN = (("tenants", "0001_initial"), ("jobs", "0001_initial"))
ABOUT_ONE = About(
    version="0.1.0",
    made_at="2026-11-23T00:45:00+00:00",
    vendor="sqlite",
    migrations=KNOWN,
    fingerprint=fingerprint("the key"),
    has_key=True,
    has_store=True,
    catalog="built-in",
)
EMPTY = Target(
    vendor="sqlite",
    known=frozenset(KNOWN),
    foreign=(),
    people=0,
    holder="",
    given_key="",
    key="a generated one",
    has_bucket=False,
)
NEWER = (*KNOWN, ("jobs", "0009_newer"))
OIDC = (*KNOWN, ("socialaccount", "0001_initial"))


@pytest.mark.parametrize(
    ("about", "target", "refusal"),
    [
        ({}, {}, ""),
        ({}, {"known": frozenset(NEWER)}, ""),  # an older schema is migrated
        ({}, {"given_key": "the key", "key": "the key"}, ""),
        ({"has_key": False}, {"given_key": "the key", "key": "the key"}, ""),
        ({"has_store": False}, {"has_bucket": True}, ""),
        ({"migrations": NEWER}, {}, r"newer version \(0\.1\.0\).*jobs\.0009_newer"),
        ({"migrations": OIDC}, {}, "need OIDC_ISSUER to be set"),
        (
            {"vendor": "postgresql"},
            {},
            "of a postgresql database, and DATABASE_URL leads to sqlite",
        ),
        ({}, {"foreign": ("shop_orders",)}, r"not Homeport's \(shop_orders\)"),
        ({}, {"people": 3}, "has 3 people; a backup goes into an empty one only"),
        ({}, {"holder": "host/1/2"}, r"reconciler is at work on this database \(host/1/2\)"),
        (
            {},
            {"given_key": "other", "key": "other"},
            "HOMEPORT_SECRET_KEY is not the key.*take the key in the backup",
        ),
        ({"has_key": False}, {"given_key": "other", "key": "other"}, "set it to that one$"),
        ({}, {"given_key": "other", "key": "other", "older_keys": ("x", "the key")}, ""),
        ({"has_key": False}, {}, "does not hold the secret key.*set that as it was"),
        ({}, {"has_bucket": True}, "here S3_BUCKET is set"),
    ],
)
def test_a_backup_goes_only_where_it_belongs(about, target, refusal):
    said = why_not_restore(replace(ABOUT_ONE, **about), replace(EMPTY, **target))
    assert bool(said) == bool(refusal)
    assert re.search(refusal, said), said


def quiet(line: str) -> None:
    """Nobody reads it."""


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    path = tmp_path / "a.backup"
    writer = BackupWriter(path)
    for name in ("rows/a", "rows/b"):
        with writer.member(name) as write:
            write(random.Random(name).randbytes(5_000))
    writer.finish(ABOUT_ONE.as_json(), quiet)
    writer.close()
    return path


def test_a_file_with_a_byte_less_or_another_one_is_refused(backup: Path, tmp_path: Path):
    whole = backup.read_bytes()
    with BackupReader(backup, quiet) as reader:
        assert About.from_json(reader.about) == ABOUT_ONE
        reader.check_members(quiet)
    assert sorted(zipfile.ZipFile(backup).namelist()) == [ABOUT, "rows/a", "rows/b"]
    chosen = random.Random(7)
    places = [0, len(whole) - 1, *(chosen.randrange(len(whole)) for _ in range(60))]
    damaged = [whole[:place] for place in places]
    damaged += [
        whole[:place] + bytes([whole[place] ^ 1 << chosen.randrange(8)]) + whole[place + 1 :]
        for place in places
    ]
    for data in (*damaged, whole + b"\n", b"PK\5\6" + bytes(18)):
        (other := tmp_path / "other").write_bytes(data)
        with pytest.raises(BackupError, match=r"not (a backup of|as it was)"):
            BackupReader(other, quiet)


def test_a_format_of_later_is_named():
    with pytest.raises(BackupError, match=r"format 2, made by Homeport 0\.1\.0"):
        About.from_json({**ABOUT_ONE.as_json(), "format": 2})


def test_progress_is_told_of_what_takes_longer_than_a_second():
    now, said = [0.0], []
    told = Progress("Copying", 4_000_000_000, said.append, monotonic=lambda: now[0])
    for _ in range(8):
        now[0] += 0.5
        told.add(500_000_000)
    assert said == ["Copying: 25 % (1.0 GB of 4.0 GB)", "Copying: 75 % (3.0 GB of 4.0 GB)"]


class Place:
    """A folder of an installation; entered, it is the one of the settings."""

    def __init__(self, home: Path, key: str = "", *, given: bool = False, **settings: Any) -> None:
        home.mkdir()
        self.home, self.database = home, home / "homeport.sqlite3"
        self.key = key or f"generated for {home.name}"
        if not given:
            (home / "secret_key").write_text(f"{self.key}\n")
        self._given = self.key if given else ""
        self._settings = settings

    @contextlib.contextmanager
    def entered(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with (
            sqlite(self.database),
            override_settings(
                HOMEPORT_HOME=self.home, SECRET_KEY=self.key, S3_BUCKET="", **self._settings
            ),
            monkeypatch.context() as patched,
        ):
            patched.setenv("HOMEPORT_SECRET_KEY", self._given)
            yield

    def rows(self, query: str) -> list[Any]:
        with contextlib.closing(sqlite3.connect(self.database)) as opened:
            return opened.execute(query).fetchall()

    def files(self) -> set[str]:
        """Of everything but the database's own."""
        found = (path.relative_to(self.home).as_posix() for path in self.home.rglob("*"))
        return {name for name in found if not name.startswith(("homeport", "store/.incoming"))}


OBJECT = "tenant/jobs/job/log-0"


@pytest.fixture
def old(migrated: Path, tmp_path: Path, monkeypatch, django_db_blocker) -> Iterator[Place]:
    """An installation with somebody in it, an object in its store, and a lease."""
    place = Place(tmp_path / "old")
    shutil.copy(migrated, place.database)
    with django_db_blocker.unblock():
        with place.entered(monkeypatch), connections[ALIAS].cursor() as cursor:
            cursor.execute(
                "INSERT INTO jobs_reconcilerlease VALUES (1, 'x/1/2', 7, NULL, NULL, '', '{}')"
            )
            User(username="alice", password="!").save(using=ALIAS)
            store = get_store()
            incoming = store.incoming(OBJECT)  # type: ignore[attr-defined]
            incoming.write(b"a line\n" * 1000)
            incoming.commit()
        yield place


def keep(place: Place, path: Path, monkeypatch, *, with_store: bool = True) -> list[str]:
    said: list[str] = []
    with place.entered(monkeypatch):
        take(path, with_store=with_store, using=ALIAS, say=said.append)
    return said


def put(place: Place, path: Path, monkeypatch) -> list[str]:
    said: list[str] = []
    with place.entered(monkeypatch):
        restore(path, find_holder=lambda: "", using=ALIAS, say=said.append)
    return said


def test_everything_comes_back_with_the_key(old: Place, tmp_path: Path, monkeypatch):
    path = tmp_path / "kept"
    said = keep(old, path, monkeypatch)
    assert path.stat().st_mode & 0o777 == 0o600
    assert "1 objects of the store" in said[-1]
    assert {other.name for other in tmp_path.iterdir() if other.is_file()} == {"kept"}
    with pytest.raises(BackupError, match="exists; name a file that does not"):
        keep(old, path, monkeypatch)
    new = Place(tmp_path / "new")
    put(new, path, monkeypatch)
    assert new.rows("SELECT username FROM tenants_user") == [("alice",)]
    assert new.rows("SELECT holder, epoch FROM jobs_reconcilerlease") == [("", 7 + EPOCH_JUMP)]
    assert (new.home / "secret_key").read_text() == f"{old.key}\n"
    assert (new.home / "secret_key").stat().st_mode & 0o777 == 0o600
    assert (new.home / "store" / OBJECT).read_bytes() == b"a line\n" * 1000
    with pytest.raises(BackupError, match="has 1 people"):
        put(new, path, monkeypatch)


def test_a_key_from_the_environment_is_not_kept(tmp_path: Path, monkeypatch, old: Place):
    given = Place(tmp_path / "given", "a key of theirs", given=True)
    shutil.copy(old.database, given.database)
    path = tmp_path / "kept"
    keep(given, path, monkeypatch, with_store=False)
    assert given.key.encode() not in b"".join(
        zipfile.ZipFile(path).read(name) for name in zipfile.ZipFile(path).namelist()
    )
    with pytest.raises(BackupError, match="does not hold the secret key"):
        put(Place(tmp_path / "generated"), path, monkeypatch)
    with pytest.raises(BackupError, match="is not the key that the backup was made with"):
        put(Place(tmp_path / "other", "another", given=True), path, monkeypatch)
    right = Place(tmp_path / "right", "a key of theirs", given=True)
    assert "holds no uploads, logs and artifacts" in " ".join(put(right, path, monkeypatch))
    assert right.files() == set()


def test_an_older_schema_is_restored_and_migrated(old: Place, tmp_path: Path, monkeypatch):
    path = tmp_path / "kept"
    keep(old, path, monkeypatch)
    (later := tmp_path / "later").mkdir()
    new = Place(tmp_path / "new")
    with code_with(later, {"0009_later": False}):
        said = put(new, path, monkeypatch)
        assert any("portal.0009_later" in line for line in said)
        with new.entered(monkeypatch):
            assert schema.problem(ALIAS) == ""
            # And the other way round it is refused.
            newer = tmp_path / "newer"
            take(newer, with_store=False, using=ALIAS, say=quiet)
    assert new.rows("SELECT count(*) FROM later_0009_later") == [(0,)]
    empty = Place(tmp_path / "empty")
    with pytest.raises(BackupError, match=r"does not know the migration portal\.0009_later"):
        put(empty, newer, monkeypatch)
    assert empty.files() == {"secret_key"}


def test_their_own_catalog_is_put_beside(old: Place, tmp_path: Path, monkeypatch):
    catalog, path = tmp_path / "catalog.yaml", tmp_path / "kept"
    catalog.write_text("ours: yes\n")
    with override_settings(CATALOG=str(catalog)), monkeypatch.context() as patched:
        patched.setenv("CATALOG", str(catalog))
        keep(old, path, monkeypatch)
    new = Place(tmp_path / "new")
    said = put(new, path, monkeypatch)
    kept = new.home / "catalog-restored.yaml"
    assert kept.read_text() == "ours: yes\n"
    assert any("set CATALOG to it" in line and str(kept) in line for line in said)


def test_what_fails_on_the_way_changes_nothing(
    old: Place, migrated: Path, tmp_path: Path, monkeypatch
):
    path = tmp_path / "kept"
    keep(old, path, monkeypatch)
    new = Place(tmp_path / "new")
    shutil.copy(migrated, new.database)
    before = new.files(), (new.home / "secret_key").read_text()

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr("portal.backup.restoring.sqlite_copy.pour", fail)
        with pytest.raises(BackupError, match=r"disk I/O error\. Nothing was changed"):
            put(new, path, monkeypatch)
    files = {name for name in new.files() if (new.home / name).is_file()}
    assert (files, (new.home / "secret_key").read_text()) == before
    assert new.rows("SELECT count(*) FROM tenants_user") == [(0,)]
    put(new, path, monkeypatch)  # and it can be done again
    assert new.rows("SELECT username FROM tenants_user") == [("alice",)]


def test_with_a_bucket_the_store_is_not_ours_to_keep(old: Place, tmp_path: Path, monkeypatch):
    with (
        old.entered(monkeypatch),
        override_settings(S3_BUCKET="theirs"),
        pytest.raises(BackupError, match="in the bucket theirs, which --store does not read"),
    ):
        take(tmp_path / "kept", with_store=True, using=ALIAS, say=quiet)
    assert not list(tmp_path.glob("kept*"))


DUMP = b"""--
-- PostgreSQL database dump
--
SET client_encoding = 'UTF8';
COPY public.django_migrations (id, app, name, applied) FROM stdin;
1\tjobs\t0001_initial\tnow
\\.
-- PostgreSQL database dump complete
"""


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (b"", "is not what `pg_dump --data-only"),
        (b"PGDMP\x01\x0e", "is not what `pg_dump --data-only"),
        (DUMP[:-3], "the end of .* is missing"),
        (DUMP.replace(b"UTF8", b"LATIN1"), "is not in UTF-8"),
        (DUMP.replace(b"\tnow", b""), "shorter than"),
    ],
)
def test_a_dump_that_is_not_whole_is_refused(tmp_path: Path, text: bytes, refusal: str):
    (dump := tmp_path / "dump.sql").write_bytes(text)
    writer = BackupWriter(tmp_path / "kept")
    with pytest.raises((BackupError, ValueError), match=refusal):
        read_dump(dump, ALIAS, writer.member, quiet)
    writer.close()


def test_a_folder_keeps_the_latest_and_the_audit_trail_knows_of_them(
    old: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder := tmp_path / "kept").mkdir()
    for day in (1, 2, 3):
        (folder / f"homeport-2026-01-0{day}T000000Z.backup").touch()
    (folder / "notes.txt").touch()
    (killed := folder / "homeport-2026-01-04T000000Z.backup.unfinished").touch()
    os.utime(killed, (0, 0))
    absent = {"GATE_TLS_CERT_FILE": "/absent", "GATE_TLS_KEY_FILE": "/absent"}  # in a CronJob
    done = program(old.home, "manage.py", "backup", str(folder), "--keep", "2", **absent)
    assert done.returncode == 0, done.stderr
    stay = sorted(path.name for path in folder.iterdir())
    assert stay[0] == "homeport-2026-01-03T000000Z.backup"
    assert (len(stay), stay[2]) == (3, "notes.txt")
    named = old.rows("SELECT kind, object_name FROM tenants_auditentry")
    assert named == [("backup", stay[1])]
    done = program(old.home, "manage.py", "backup", str(tmp_path / "file"), "--keep", "2")
    assert "--keep takes how many of a folder stay" in done.stderr
    done = program(old.home, "manage.py", "backup", str(folder / "a"), "--dump", "dump.sql")
    assert "--dump is for PostgreSQL" in done.stderr
