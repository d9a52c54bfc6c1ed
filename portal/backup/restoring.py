"""`manage.py restore`: an empty installation becomes the one that a backup was taken of.

Everything is looked at before anything is changed. The database comes last and in one step, so that
a restore which was cut off can simply be done again: until then nobody is in it.
"""

import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connections
from django.db.migrations.loader import MigrationLoader

from portal import environment
from portal.backup import BackupError
from portal.backup.about import About, Target, why_not_restore
from portal.backup.file import BackupReader, unpack
from portal.backup.rows import MEMBER, load
from portal.backup.taking import CATALOG, DEMO_PASSWORD, KEY, SQLITE, STORE
from portal.database import schema, sqlite_copy
from portal.progress import Progress
from portal.storage import get_store
from portal.storage.folder import FolderStore
from portal.storage.store import check_key

Say = Callable[[str], object]

# Beyond what any reconciler can have reached that still believes to hold the lease.
EPOCH_JUMP = 1_000_000
_PEOPLE = "tenants_user"
_LEASE = "jobs_reconcilerlease"
_NOT_MODELS = {"django_migrations", "django_session"}
_OPTIONAL_TABLES = ("account_", "socialaccount_")


def restore(path: Path, *, find_holder: Callable[[], str], using: str, say: Say) -> None:
    """Puts a backup into this installation, then migrates it to this version.

    Args:
        find_holder: names the reconciler that is at work on the database; empty: none.
        using: alias of the database.
        say: takes lines about progress and the result.

    Raises:
        BackupError: it was not restored; nothing was changed.
    """
    with BackupReader(path, say) as reader:
        about = About.from_json(reader.about)
        if refusal := why_not_restore(about, _look(using, find_holder)):
            raise BackupError(f"{refusal}. Nothing was changed.")
        _need_room(reader, using)
        try:
            with _store_put_back(reader, say), _key_put_back(reader, about):
                _put_database(reader, about, using, say)
        except (OSError, sqlite3.Error, DatabaseError) as error:
            raise BackupError(f"it was not restored: {error}. Nothing was changed.") from error
        catalog = _put_catalog(reader, about)
    say(f"The database of {about.made_at} (Homeport {about.version}) is restored.")
    if catalog:
        say(f"Its catalog is not the one in use here. It was put in {catalog}: set CATALOG to it.")
    if not about.has_store:
        say("The backup holds no uploads, logs and artifacts: pages say where one is missing.")
    _migrate(using, say)


def _look(using: str, find_holder: Callable[[], str]) -> Target:
    connection = connections[using]
    with connection.cursor() as cursor:
        there = set(connection.introspection.table_names(cursor))
        people = 0
        if _PEOPLE in there:
            cursor.execute(f"SELECT count(*) FROM {_PEOPLE}")
            people = cursor.fetchone()[0]
    loader = MigrationLoader(connection)
    ours = set(connection.introspection.django_table_names()) | _NOT_MODELS | schema.made(loader)
    foreign = [name for name in there - ours if not name.startswith(_OPTIONAL_TABLES)]
    given_key = environment.read("HOMEPORT_SECRET_KEY")
    return Target(
        vendor=connection.vendor,
        known=frozenset(schema.known(loader)),
        foreign=tuple(sorted(foreign)),
        people=people,
        holder="" if people or foreign else find_holder(),
        given_key=given_key,
        key=settings.SECRET_KEY,
        older_keys=tuple(settings.SECRET_KEY_FALLBACKS),
        has_bucket=bool(settings.S3_BUCKET),
    )


def _need_room(reader: BackupReader, using: str) -> None:
    needed = sum(map(reader.size_bytes, reader.names(STORE)))
    folder = settings.HOMEPORT_HOME
    if SQLITE in reader.names():
        needed += 2 * reader.size_bytes(SQLITE)  # once unpacked, once in place
        folder = Path(str(connections[using].settings_dict["NAME"])).parent
    try:
        sqlite_copy.need_room(folder, needed, "the restored database and store")
    except sqlite_copy.CopyError as error:
        raise BackupError(f"{error}. Nothing was changed.") from error


# --- the database ---
def _put_database(reader: BackupReader, about: About, using: str, say: Say) -> None:
    if about.vendor == "sqlite":
        _put_sqlite(reader, using, say)
        return
    sizes = map(reader.size_bytes, reader.names(MEMBER))
    told = Progress("Restoring the database", sum(sizes), say)

    def then(cursor: Any) -> None:
        if _LEASE in about.tables:
            cursor.execute(f"UPDATE {_LEASE} SET epoch = epoch + {EPOCH_JUMP}, holder = ''")

    load(using, about, reader.chunks, told, then)


def _put_sqlite(reader: BackupReader, using: str, say: Say) -> None:
    target = Path(str(connections[using].settings_dict["NAME"]))
    unpacked = target.with_name(f"{target.name}.restoring")
    unpacked.unlink(missing_ok=True)
    try:
        size = reader.size_bytes(SQLITE)
        unpack(reader, SQLITE, unpacked, Progress("Unpacking the database", size, say))
        with closing(sqlite_copy.connect(unpacked)) as kept:
            sqlite_copy.check_whole(kept)
            if kept.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [_LEASE]).fetchone():
                kept.execute(f"UPDATE {_LEASE} SET epoch = epoch + {EPOCH_JUMP}, holder = ''")
            # Into the file that is there, since others may have it open: one transaction of theirs.
            connections[using].close()
            with closing(sqlite3.connect(target, isolation_level=None, timeout=20)) as opened:
                sqlite_copy.pour(kept, opened, Progress("Restoring the database", size, say))
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            unpacked.with_name(unpacked.name + suffix).unlink(missing_ok=True)


# --- what lies beside it; put back as it was when the database cannot be restored ---
@contextmanager
def _store_put_back(reader: BackupReader, say: Say) -> Iterator[None]:
    names, written = reader.names(STORE), []
    store = get_store() if names else None
    told = Progress("Restoring the store", sum(map(reader.size_bytes, names)), say)
    try:
        for name in names:
            assert isinstance(store, FolderStore)  # `why_not_restore` has looked
            key = check_key(name.removeprefix(STORE))
            is_new = not store.exists(key)
            incoming = store.incoming(key)
            try:
                for chunk in reader.chunks(name):
                    incoming.write(chunk)
                    told.add(len(chunk))
                incoming.commit()
            finally:
                incoming.abort()
            if is_new:
                written.append(key)
        yield
    except BaseException:
        for key in written:
            assert store is not None
            store.delete(key)
        raise


@contextmanager
def _key_put_back(reader: BackupReader, about: About) -> Iterator[None]:
    before: dict[Path, bytes | None] = {}
    if about.has_key and not environment.read("HOMEPORT_SECRET_KEY"):
        for name in (KEY, DEMO_PASSWORD):
            if name in reader.names():
                path = settings.HOMEPORT_HOME / name
                before[path] = path.read_bytes() if path.exists() else None
                _write_secret(path, reader.read(name).strip() + b"\n")
    try:
        yield
    except BaseException:
        for path, text in before.items():
            if text is None:
                path.unlink(missing_ok=True)
            else:
                _write_secret(path, text)
        raise


def _write_secret(path: Path, text: bytes) -> None:
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def _put_catalog(reader: BackupReader, about: About) -> Path | None:
    """Where their own catalog was put; None: it is in use here already, or was the built-in one."""
    text = reader.read(CATALOG)
    in_use = Path(settings.CATALOG)
    if about.catalog == "built-in" or (in_use.is_file() and in_use.read_bytes() == text):
        return None
    path: Path = settings.HOMEPORT_HOME / "catalog-restored.yaml"
    _write_secret(path, text)
    return path


def _migrate(using: str, say: Say) -> None:
    found = schema.look(using)
    if not found.missing:
        return
    say(f"It is of an older version. Migrating: {schema.shown(found.missing)} ...")
    try:
        call_command("migrate", database=using, interactive=False, verbosity=0)
    except (CommandError, DatabaseError) as error:
        raise BackupError(
            f"the backup is restored as it was, but it could not be migrated: {error}. "
            "Run `manage.py migrate` again when that is mended, or start the version it is of"
        ) from error
