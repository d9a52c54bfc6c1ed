"""The rows of PostgreSQL's tables, out and in again, without programs of PostgreSQL's own.

Out: all of one moment, by COPY in one transaction, while others write. In: the tables are made by
the migrations that the backup names (which never change), and filled, all in one transaction.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper
from django.db.migrations.executor import MigrationExecutor

from portal.backup import BackupError
from portal.database import schema
from portal.progress import Progress

MEMBER = "rows/"
# Values of secrets on their way to the cluster: table and column, which no backup has.
SECRETS, SEALED = "jobs_usersecret", "sealed"
_MIGRATIONS = "django_migrations"

Write = Callable[[bytes], object]


def dump(
    using: str, member: Callable[[str], AbstractContextManager[Write]], say: Callable[[str], object]
) -> dict[str, Any]:
    """Writes each table as one member.

    Returns:
        `tables`, `sequences` and `migrations` of `About`, of the moment of the rows.
    """
    connection = connections[using]
    tables: dict[str, dict[str, Any]] = {}
    with (
        connection.wrap_database_errors,  # psycopg's own, which COPY raises
        transaction.atomic(using=using),
        connection.cursor() as cursor,
    ):
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        _take_time(cursor)
        cursor.execute("SELECT pg_database_size(current_database())")
        told = Progress("Keeping the database", cursor.fetchone()[0], say)
        for table, columns in columns_of(cursor).items():
            rows = 0
            hidden = {SEALED} if table == SECRETS else set()
            listed = ", ".join("''" if one in hidden else _quoted(one) for one in columns)
            query = f"COPY (SELECT {listed} FROM {_quoted(table)}) TO STDOUT"
            with (
                member(MEMBER + table) as write,
                cursor.copy(query) as copy,
            ):
                for data in copy:
                    block = bytes(data)
                    rows += block.count(b"\n")  # one within a value is written as \n
                    write(block)
                    told.add(len(block))
            tables[table] = {"columns": columns, "rows": rows}
        cursor.execute(
            "SELECT sequencename, last_value FROM pg_sequences"
            " WHERE schemaname = current_schema() AND last_value IS NOT NULL"
        )
        sequences = dict(cursor.fetchall())
        migrations = schema.applied(connection)
    return {"tables": tables, "sequences": sequences, "migrations": tuple(migrations)}


def load(
    using: str,
    about: Any,
    chunks: Callable[[str], Iterator[bytes]],
    told: Progress,
    then: Callable[[CursorWrapper], object],
) -> None:
    """Puts the tables of a backup in place of those that are there.

    Args:
        about: an `About` of PostgreSQL.
        chunks: the bytes of a member.
        then: is called within the transaction when all rows are there.

    Raises:
        BackupError: the tables do not fit, or the rows are not all there; nothing was changed.
        django.db.DatabaseError: likewise.
    """
    connection = connections[using]
    with (
        connection.wrap_database_errors,  # psycopg's own, which COPY raises
        transaction.atomic(using=using),
        connection.cursor() as cursor,
    ):
        _take_time(cursor)
        there = connection.introspection.table_names(cursor)
        if there:
            cursor.execute(f"DROP TABLE {', '.join(map(_quoted, there))} CASCADE")
        _make_tables(connection, about.migrations)
        made = columns_of(cursor)
        _check_fit(made, about.tables)
        cursor.execute(f"TRUNCATE {', '.join(map(_quoted, made))}")
        # Some migrations made them immediate; rows may come before those that they refer to.
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
        for table, kept in about.tables.items():
            listed = ", ".join(map(_quoted, kept["columns"]))
            with cursor.copy(f"COPY {_quoted(table)} ({listed}) FROM STDIN") as copy:
                for data in chunks(MEMBER + table):
                    copy.write(data)
                    told.add(len(data))
            cursor.execute(f"SELECT count(*) FROM {_quoted(table)}")
            if (count := cursor.fetchone()[0]) != kept["rows"]:
                raise BackupError(f"{count} of {kept['rows']} rows of {table} came back")
        for sequence, number in about.sequences.items():
            cursor.execute("SELECT setval(quote_ident(%s)::regclass, %s)", [sequence, number])
        then(cursor)


def _make_tables(connection: Any, migrations: tuple[schema.Key, ...]) -> None:
    executor = MigrationExecutor(connection)
    leaves = executor.loader.graph.leaf_nodes()
    wanted = set(migrations)
    plan = [
        (migration, is_backwards)
        for migration, is_backwards in executor.migration_plan(leaves, clean_start=True)
        if (migration.app_label, migration.name) in wanted
    ]
    executor.migrate(leaves, plan=plan)


def _check_fit(made: dict[str, list[str]], kept: dict[str, dict[str, Any]]) -> None:
    for table, about in kept.items():
        if set(made.get(table, ())) != set(about["columns"]):
            raise BackupError(
                f"the table {table} of the backup does not fit the migrations that it names"
            )


def columns_of(cursor: CursorWrapper) -> dict[str, list[str]]:
    """Every table -> its columns in order."""
    cursor.execute(
        "SELECT table_name, column_name FROM information_schema.columns"
        " JOIN information_schema.tables USING (table_schema, table_name)"
        " WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
        " AND is_generated = 'NEVER' ORDER BY table_name, ordinal_position"
    )
    found: dict[str, list[str]] = {}
    for table, column in cursor.fetchall():
        found.setdefault(table, []).append(column)
    return found


def _take_time(cursor: CursorWrapper) -> None:
    """The limits of time that are right for pages are wrong for this."""
    cursor.execute("SET LOCAL statement_timeout = 0")
    cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
