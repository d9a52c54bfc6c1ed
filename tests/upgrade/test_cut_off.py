"""The migrations to one table, killed anywhere or without room on the disk: no row is lost."""

import os
import signal
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connections

from portal.database import schema
from tests.portal.databases import ALIAS, migrate, postgresql, sqlite
from tests.portal.postgres_server import postgres_server
from tests.tools.small_disk import SmallDisk, mounts_a_small_disk, small_disk
from tests.upgrade.old_rows import BEFORE, OldTables, write_odd
from tests.upgrade.places import compare, rows_of

# Migration -> where it is killed, in this order: before the so-maniest statement that has such a text in
# it. What writes down that a migration ran is the last before its commit.
RAN = 'INSERT INTO "django_migrations"'
CUTS = {
    "0005_one_table": (('RENAME TO "jobs_workload"', 1), ("one_artifact_per_path", 2), (RAN, 1)),
    "0006_move_services": (
        ('UPDATE "jobs_workload"', 1),
        ('UPDATE "jobs_workload"', 9),
        ('INSERT INTO "jobs_workload"', 1),
        ('INSERT INTO "jobs_workloadevent"', 1),
        (RAN, 1),
    ),
    "0007_old_columns_go": (
        ('DROP TABLE "jobs_service', 2),
        ('"cluster_flags"', 1),
        ("workloads_with_work", 1),
        (RAN, 1),
    ),
}


def migrate_until(text: str, number: int, act: Callable[[], object]) -> None:
    """Migrates, and does something before the so-maniest statement that has this text in it."""
    left = number

    def look(execute: Any, sql: str, *rest: Any) -> Any:
        nonlocal left
        left -= text in sql
        if not left:
            act()
        return execute(sql, *rest)

    with connections[ALIAS].execute_wrapper(look):
        migrate()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def newest_of_jobs() -> str:
    """The migration that ran last."""
    return [name for app, name in schema.applied(connections[ALIAS]) if app == "jobs"][-1]


def killed(text: str, number: int) -> bool:
    """Migrates in a process of its own; whether that was killed."""
    connections[ALIAS].close()
    child = os.fork()
    if not child:
        try:
            migrate_until(text, number, die)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def test_killed_anywhere_it_ends_at_the_same_rows(tables: OldTables) -> None:
    before = rows_of(tables)
    newest = BEFORE[1]
    for migration, cuts in CUTS.items():
        for text, number in cuts:
            assert killed(text, number), (migration, text)
            assert newest_of_jobs() == newest
            if newest == BEFORE[1]:
                assert rows_of(tables) == before
        newest = migration
    migrate()
    compare(before)
    assert schema.problem(ALIAS) == ""


def empty_journal() -> None:
    """What SQLite has reserved there would be room for a small migration."""
    if connections[ALIAS].vendor == "sqlite":
        with connections[ALIAS].cursor() as cursor:
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def fill_in_each(tables: OldTables, disk: SmallDisk, mend: Callable[[], object]) -> None:
    """The disk is full within each migration: it is as before that, and is migrated when there is room.

    Args:
        mend: makes the database work again when there is room.
    """
    before, newest = rows_of(tables), BEFORE[1]
    for migration, cuts in CUTS.items():
        call_command("migrate", "jobs", newest, database=ALIAS, verbosity=0)
        empty_journal()
        with pytest.raises(DatabaseError):
            migrate_until(*cuts[0], disk.fill)
        connections[ALIAS].close()
        disk.make_room()
        mend()
        assert newest_of_jobs() == newest
        if migration == "0006_move_services":  # the one before is taken back, and nothing lost
            call_command("migrate", *BEFORE, database=ALIAS, verbosity=0)
        if migration != "0007_old_columns_go":
            assert rows_of(tables) == before
        newest = migration
    migrate()
    compare(before)


@mounts_a_small_disk
def test_a_full_disk_leaves_the_database_usable(tmp_path: Path, django_db_blocker: Any) -> None:
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / "disk", 200 * 2**20))
        stack.enter_context(sqlite(disk.folder / "homeport.sqlite3"))
        stack.enter_context(django_db_blocker.unblock())
        write_odd(tables := OldTables(ALIAS))
        trainings = len(tables.rows("Job"))
        fill_in_each(tables, disk, lambda: None)
        # However often it was tried, the copy from before all of it is there.
        copies = sorted(disk.folder.glob("*Z.sqlite3"))
        assert len(copies) == 3, copies
        with closing(sqlite3.connect(copies[-1])) as copy:
            assert copy.execute("SELECT count(*) FROM jobs_job").fetchone() == (trainings,)


@mounts_a_small_disk
def test_a_full_disk_of_postgresql_leaves_it_usable(django_db_blocker: Any) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        disk = stack.enter_context(small_disk(folder / "disk", 400 * 2**20))
        server = stack.enter_context(postgres_server(disk.folder))
        stack.enter_context(postgresql(server.url))
        stack.enter_context(django_db_blocker.unblock())
        write_odd(tables := OldTables(ALIAS))

        def mend() -> None:
            if server.has_ended:
                server.start()

        fill_in_each(tables, disk, mend)
