"""A backup that the version before the one table took is restored into this one, and migrated."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connections

from portal.backup.restoring import restore
from portal.backup.taking import take
from portal.database import schema
from tests.e2e.portal import ROOT
from tests.portal.databases import ALIAS
from tests.upgrade.old import TWO_TABLES, Old
from tests.upgrade.old_rows import OldTables
from tests.upgrade.places import compare, rows_of


def quiet(line: str) -> None:
    """Nobody reads it."""


def wipe() -> None:
    """Leaves an empty database."""
    connection = connections[ALIAS]
    if connection.vendor == "sqlite":
        connection.close()
        Path(str(connection.settings_dict["NAME"])).unlink()
        return
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA public CASCADE")
        cursor.execute("CREATE SCHEMA public")


def test_a_backup_of_before_is_restored_and_migrated(
    tables: OldTables, tmp_path: Path, settings: Any
) -> None:
    settings.HOMEPORT_HOME, settings.S3_BUCKET = tmp_path, ""
    before, kept = rows_of(tables), tmp_path / "kept"
    take(kept, with_store=False, using=ALIAS, say=quiet)
    for has_tables in (False, True):
        wipe()
        if has_tables:  # an installation of that version in which nobody has been yet
            OldTables(ALIAS)
        restore(kept, find_holder=lambda: "", using=ALIAS, say=quiet)
        compare(before)
        assert schema.problem(ALIAS) == ""


@pytest.mark.e2e
@pytest.mark.parametrize("old", [TWO_TABLES], ids=str, indirect=True)
def test_its_own_command_took_it(old: Old, database: dict[str, str], tmp_path: Path) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings", **database}

    def run(where: Path, python: str, home: str, *words: str) -> str:
        (tmp_path / home).mkdir(exist_ok=True)
        done = subprocess.run(
            [python, *words],
            cwd=where,
            env={**environment, "HOMEPORT_HOME": str(tmp_path / home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    theirs, ours = (old.checkout, old.python, "theirs"), (ROOT, sys.executable, "ours")
    kept = str(tmp_path / "kept")
    run(*theirs, "manage.py", "migrate")
    run(*theirs, "-m", "tests.portal.busy", "seed")
    before = json.loads(run(*theirs, "-m", "tests.portal.busy", "rows"))
    run(*theirs, "manage.py", "backup", kept)
    if url := database.get("DATABASE_URL"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
    run(*ours, "manage.py", "migrate")  # with tables of today, but nobody in it
    run(*ours, "manage.py", "restore", kept)
    after = json.loads(run(*ours, "-m", "tests.portal.busy", "rows"))
    trainings, services = before["jobs_job"][0], before["jobs_service"][0]
    assert min(trainings, services) > 0
    assert after["jobs_workload"][0] == trainings + services
    for table in ("tenants_user", "jobs_bundle", "jobs_usageinterval"):
        assert after[table] == before[table]
    for table in ("tenants_tenant", "jobs_artifact", "jobs_replica"):  # with columns of later
        assert after[table][0] == before[table][0]
