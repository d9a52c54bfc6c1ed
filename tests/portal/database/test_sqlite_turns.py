"""Writers of one process on SQLite: none overtakes another, and none keeps the turn it no longer needs."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError, connections, transaction
from pytest_django import DjangoDbBlocker

from tests.portal import databases
from tests.tools.waiting import wait_for

WRITERS = 8


@pytest.fixture(autouse=True)
def _unblock(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


@pytest.fixture
def table(tmp_path: Path) -> Iterator[str]:
    """The alias of a database with the table `lines`."""
    with databases.sqlite(tmp_path / "database.sqlite3") as alias:
        with connections[alias].cursor() as cursor:
            cursor.execute("CREATE TABLE lines (writer integer CHECK (writer < 1000))")
        yield alias


def write(alias: str, writer: int, *, is_atomic: bool) -> None:
    try:
        if is_atomic:
            with transaction.atomic(alias):
                insert(alias, writer)
        else:
            insert(alias, writer)
    finally:
        connections[alias].close()


def insert(alias: str, writer: int) -> None:
    with connections[alias].cursor() as cursor:
        cursor.execute("INSERT INTO lines VALUES (%s)", [writer])


def written(alias: str) -> list[int]:
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT writer FROM lines ORDER BY rowid")
        return [writer for (writer,) in cursor.fetchall()]


def waits(alias: str, count: int) -> bool:
    return waiting(alias) == count


def waiting(alias: str) -> int:
    connection: Any = connections[alias]
    return len(connection._turns._waiting)


@pytest.mark.parametrize("is_atomic", [True, False])
def test_who_came_first_writes_first(table: str, is_atomic: bool) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        with transaction.atomic(table):
            insert(table, 0)
            tasks: list[Future[None]] = []
            for writer in range(1, WRITERS):
                tasks.append(pool.submit(write, table, writer, is_atomic=is_atomic))
                wait_for("it waits", partial(waits, table, writer))
        write(table, WRITERS, is_atomic=is_atomic)  # comes last, at the moment the lock is free
        for task in tasks:
            task.result()
    assert written(table) == list(range(WRITERS + 1))


def fail_in_statement(alias: str) -> None:
    with pytest.raises(DatabaseError), transaction.atomic(alias):
        insert(alias, 1000)


def fail_alone(alias: str) -> None:
    with pytest.raises(DatabaseError):
        insert(alias, 1000)


def fail_to_begin(alias: str) -> None:
    connection: Any = connections[alias]
    connection.transaction_mode = "NONSENSE"
    with pytest.raises(DatabaseError), transaction.atomic(alias):
        pass
    connection.transaction_mode = "IMMEDIATE"


def lose_the_connection(alias: str) -> None:
    with transaction.atomic(alias):
        insert(alias, 1)
        connections[alias].close()


@pytest.mark.parametrize(
    "fail", [fail_in_statement, fail_alone, fail_to_begin, lose_the_connection]
)
def test_who_fails_keeps_no_turn(table: str, fail: Callable[[str], None]) -> None:
    fail(table)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(write, table, 7, is_atomic=True).result()
    assert written(table) == [7]


def test_a_writer_that_does_not_end_is_waited_for_as_long_as_sqlite_would(tmp_path: Path) -> None:
    with databases.sqlite(tmp_path / "database.sqlite3") as alias:
        connections[alias].settings_dict["OPTIONS"]["timeout"] = 0.2
        errors: list[str | None] = []

        def ask() -> None:
            try:
                write(alias, 1, is_atomic=True)
            except OperationalError as error:
                errors.append(getattr(error.__cause__, "sqlite_errorname", None))

        with transaction.atomic(alias):
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
        assert errors == ["SQLITE_BUSY"]
        assert not waiting(alias)
