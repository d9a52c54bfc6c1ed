"""What PostgreSQL's own `pg_dump` has written as text, as the rows of a backup.

So a program of the server's version reads the database, and the backup is made where there is none:
https://www.postgresql.org/docs/current/app-pgdump.html
"""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

from django.db import connections

from portal.backup import BackupError
from portal.backup.rows import MEMBER, SEALED, SECRETS, Write, columns_of
from portal.progress import Progress

PG_DUMP = "pg_dump --data-only --encoding=UTF8"
_NAME = rb'"?(\w+)"?'
_COPY = re.compile(rb'COPY (?:"?\w+"?\.)?' + _NAME + rb" \((.+)\) FROM stdin;\n")
_SETVAL = re.compile(
    rb"SELECT pg_catalog\.setval\('(?:\"?\w+\"?\.)?" + _NAME + rb"', (\d+), true\)"
)
_BEGIN = b"-- PostgreSQL database dump\n"
_END = b"-- PostgreSQL database dump complete\n"
_UTF8 = b"SET client_encoding = 'UTF8';\n"
_MIGRATIONS = "django_migrations"


def read_dump(
    path: Path,
    using: str,
    member: Callable[[str], AbstractContextManager[Write]],
    say: Callable[[str], object],
) -> dict[str, Any]:
    """Writes each table as one member, like `portal.backup.rows.dump`, and returns the same.

    Raises:
        BackupError: it is no such text, cut off, or of another database than DATABASE_URL names.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        found = _DumpReader(file, path, member, say).all()
    with connections[using].cursor() as cursor:
        there = columns_of(cursor)
    for table in sorted(there.keys() | found["tables"].keys()):
        dumped = found["tables"].get(table, {"columns": ()})["columns"]
        if set(dumped) != set(there.get(table, ())):
            raise BackupError(
                f"{path} does not have the table {table} as the database has it that DATABASE_URL "
                "names; dump that one, all of it"
            )
    return found


class _DumpReader:
    """One pass over the text."""

    def __init__(
        self,
        file: IO[bytes],
        path: Path,
        member: Callable[[str], AbstractContextManager[Write]],
        say: Callable[[str], object],
    ) -> None:
        self._file = file
        self._path = path
        self._member = member
        self._told = Progress("Reading the dump", path.stat().st_size, say)
        self._tables: dict[str, dict[str, Any]] = {}
        self._sequences: dict[str, int] = {}
        self._migrations: list[tuple[int, str, str]] = []

    def all(self) -> dict[str, Any]:
        if _BEGIN not in (self._file.readline(), self._file.readline()):
            raise BackupError(f"{self._path} is not what `{PG_DUMP}` writes; make it by that")
        is_utf8 = is_whole = False
        for line in self._file:
            is_utf8 |= line == _UTF8
            is_whole |= line == _END
            if copied := _COPY.fullmatch(line):
                self._table(copied[1].decode(), copied[2].decode())
            elif given := _SETVAL.match(line):
                self._sequences[given[1].decode()] = int(given[2])
        if not is_whole:
            raise BackupError(
                f"the end of {self._path} is missing: pg_dump did not come to its end"
            )
        if not is_utf8:
            raise BackupError(f"{self._path} is not in UTF-8; make it by `{PG_DUMP}`")
        migrations = tuple((app, name) for _, app, name in sorted(self._migrations))
        return {"tables": self._tables, "sequences": self._sequences, "migrations": migrations}

    def _table(self, table: str, listed: str) -> None:
        columns = [name.strip().strip('"') for name in listed.split(",")]
        hidden = columns.index(SEALED) if table == SECRETS else None
        rows = 0
        with self._member(MEMBER + table) as write:
            for line in self._file:
                if line == b"\\.\n":
                    break
                values = (
                    line[:-1].split(b"\t") if hidden is not None or table == _MIGRATIONS else []
                )
                if hidden is not None:
                    values[hidden] = b""
                    line = b"\t".join(values) + b"\n"
                elif values:
                    row = dict(zip(columns, values, strict=True))
                    key = (int(row["id"]), row["app"].decode(), row["name"].decode())
                    self._migrations.append(key)
                write(line)
                rows += 1
                self._told.add(len(line))
        self._tables[table] = {"columns": columns, "rows": rows}
