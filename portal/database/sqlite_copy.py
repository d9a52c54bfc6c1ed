"""Copies an SQLite database while others write to it: all of one moment, or nothing."""

import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from portal import progress

_STEP_BYTES = 8 * 1024**2
_SPARE_BYTES = 32 * 1024**2  # for what others write meanwhile
_KEPT = 3
_BUSY_S = 20.0
_TIME = re.compile(r"-(\d{8}T\d{6}Z)$")

Say = Callable[[str], object]


class CopyError(Exception):
    """There is no copy; the text says why, and what it needs."""


def size_bytes(path: Path) -> int:
    """Of the database, what still waits in its write-ahead log included (at most)."""
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def need_room(folder: Path, needed_bytes: int, what: str) -> None:
    """Raises CopyError: the disk of a folder has less."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise CopyError(
            f"{what} needs {progress.in_units(needed_bytes)} in {folder}, where "
            f"{progress.in_units(free)} are free; make room and try again"
        )


def copy(source: Path, target: Path, say: Say, what: str = "Copying the database") -> None:
    """A copy in one file of mode 0600, read back and found whole.

    Args:
        source: a database; others may read and write it.
        target: must not exist.
        say: takes a line of progress.

    Raises:
        CopyError: no room, or the source is damaged; nothing is left of the target.
    """
    total = size_bytes(source)
    need_room(target.parent, total + _SPARE_BYTES, "a copy of the database")
    unfinished = target.with_name(target.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with closing(connect(source)) as old, closing(connect(unfinished)) as new:
            pour(old, new, progress.Progress(what, total, say))
            new.execute("PRAGMA journal_mode=DELETE")
            check_whole(new)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except (sqlite3.Error, OSError) as error:
        raise CopyError(
            f"the database could not be copied to {target}: {error}; "
            f"{progress.in_units(total + _SPARE_BYTES)} are needed there"
        ) from error
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            unfinished.with_name(unfinished.name + suffix).unlink(missing_ok=True)


def connect(path: Path) -> sqlite3.Connection:
    """Opens a database that exists, without beginning transactions by itself.

    Raises:
        sqlite3.Error: it is not there or cannot be opened.
    """
    url = f"{path.resolve().as_uri()}?mode=rw"
    return sqlite3.connect(url, uri=True, isolation_level=None, timeout=_BUSY_S)


def pour(old: sqlite3.Connection, new: sqlite3.Connection, told: progress.Progress) -> None:
    """Everything of one database into another, which has all of it at the end or is unchanged.

    Raises:
        sqlite3.Error: it did not work.
    """
    page_bytes = int(old.execute("PRAGMA page_size").fetchone()[0])
    # While this transaction reads, the copy is of its moment and need not begin again whenever
    # somebody writes.
    old.execute("BEGIN")
    old.execute("SELECT count(*) FROM sqlite_master").fetchone()
    try:
        old.backup(
            new,
            pages=max(1, _STEP_BYTES // page_bytes),
            progress=lambda _status, left, total: told.reached((total - left) * page_bytes),
        )
    finally:
        with suppress(sqlite3.Error):
            old.execute("ROLLBACK")


def check_whole(database: sqlite3.Connection) -> None:
    """Raises sqlite3.Error: it is damaged."""
    found = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(f"it is damaged: {found}")


def keep_copy(database: Path, newest: str, at: str, say: Say) -> Path:
    """A copy beside the database, for the way back; of the copies made here the last three stay.

    A try that failed leaves the database as it was: the next one's copy takes the place of its copy,
    so that any number of tries leaves the copy from before the first.

    Args:
        newest: the migration that ran last, for the name.
        at: the time for the name, as 20261123T004500Z.

    Returns:
        `homeport-<newest>-<at>.sqlite3`.

    Raises:
        CopyError: see `copy`.
    """
    begin = f"{database.stem}-{newest}-"
    target = database.with_name(f"{begin}{at}{database.suffix}")
    copy(database, target, say, f"Keeping a copy of the database in {target}")
    kept = [path for path in _copies(database) if path != target]
    replaced = [path for path in kept if path.name.startswith(begin)]
    others = [path for path in kept if path not in replaced]
    for path in (*replaced, *others[: max(0, len(others) - _KEPT + 1)]):
        path.unlink(missing_ok=True)
    return target


def _copies(database: Path) -> list[Path]:
    """Those that `keep_copy` made, the oldest first."""
    found = []
    for path in database.parent.glob(f"{database.stem}-*{database.suffix}"):
        match = _TIME.search(path.stem)
        if match:
            found.append((match[1], path))
    return [path for _time, path in sorted(found)]
