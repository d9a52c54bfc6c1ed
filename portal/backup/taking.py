"""`manage.py backup`: everything of one installation into one file, while it runs."""

import io
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connections
from django.utils import timezone

from portal import environment
from portal.backup import BackupError
from portal.backup.about import About, fingerprint
from portal.backup.dumped import read_dump
from portal.backup.file import BackupWriter
from portal.backup.rows import SEALED, SECRETS
from portal.backup.rows import dump as rows_of_now
from portal.database import schema, sqlite_copy
from portal.progress import Progress, in_units
from portal.storage import get_store
from portal.storage.folder import FolderStore
from portal.storage.store import ObjectMissingError
from portal.version import VERSION

Say = Callable[[str], object]

SQLITE = "database.sqlite3"
KEY = "secret_key"
DEMO_PASSWORD = "demo_password"
CATALOG = "catalog.yaml"
STORE = "store/"


def take(path: Path, *, with_store: bool, using: str, say: Say, dump: Path | None = None) -> None:
    """A backup under this path, read back and found whole.

    Args:
        with_store: also what was uploaded and archived into the folder store.
        dump: what `pg_dump` has written of the database; None: it is read here.
        using: alias of the database.
        say: takes lines about progress and the result.

    Raises:
        BackupError: there is none; nothing is left of it.
    """
    if with_store and settings.S3_BUCKET:
        raise BackupError(
            f"uploads, logs and artifacts are in the bucket {settings.S3_BUCKET}, which --store "
            "does not read; keep it by what its server offers, after this backup was taken"
        )
    path = path.absolute()
    writer = BackupWriter(path)
    try:
        about = _fill(writer, with_store=with_store, using=using, say=say, dump=dump)
        writer.finish(about.as_json(), say)
    except OSError as error:
        raise BackupError(
            f"{path} could not be written: {error.strerror or error}; the disk has "
            f"{in_units(_free_bytes(path.parent))} free"
        ) from error
    except (sqlite_copy.CopyError, DatabaseError) as error:
        raise BackupError(f"the database could not be kept: {error}") from error
    finally:
        writer.close()
    say(_summary(writer, about))


def _fill(
    writer: BackupWriter, *, with_store: bool, using: str, say: Say, dump: Path | None
) -> About:
    # The database first: what is added to the store meanwhile does no harm, while a row whose
    # object is missing would.
    vendor = connections[using].vendor
    rows: dict[str, Any]
    if not schema.look(using).has_tables:
        raise BackupError("the database is empty: there is nothing to keep")
    if dump is not None and vendor != "postgresql":
        raise BackupError("--dump is for PostgreSQL, and DATABASE_URL names none")
    if dump is not None:
        try:
            rows = read_dump(dump, using, writer.member, say)
        except (OSError, ValueError, KeyError, IndexError) as error:
            raise BackupError(f"{dump} cannot be read: {error}") from error
    elif vendor == "sqlite":
        rows = {"migrations": _keep_sqlite(writer, using, say)}
    elif vendor == "postgresql":
        rows = rows_of_now(using, writer.member, say)
    else:
        raise BackupError(f"a {vendor} database cannot be kept, only SQLite and PostgreSQL")
    has_key = not environment.read("HOMEPORT_SECRET_KEY")
    if has_key:
        writer.add(KEY, io.BytesIO(settings.SECRET_KEY.encode()))
        demo_password = settings.HOMEPORT_HOME / DEMO_PASSWORD
        if demo_password.is_file():
            writer.add(DEMO_PASSWORD, io.BytesIO(demo_password.read_bytes()))
    writer.add(CATALOG, io.BytesIO(Path(settings.CATALOG).read_bytes()))
    if with_store:
        _keep_store(writer, say)
    return About(
        version=VERSION,
        made_at=timezone.now().isoformat(timespec="seconds"),
        vendor=vendor,
        fingerprint=fingerprint(settings.SECRET_KEY),
        has_key=has_key,
        has_store=with_store,
        catalog="own" if environment.read("CATALOG") else "built-in",
        **rows,
    )


def _keep_sqlite(writer: BackupWriter, using: str, say: Say) -> tuple[schema.Key, ...]:
    source = Path(str(connections[using].settings_dict["NAME"]))
    copied = writer.path.with_name(writer.path.name + ".database")
    copied.unlink(missing_ok=True)
    try:
        sqlite_copy.copy(source, copied, say)
        with closing(sqlite3.connect(copied)) as database:
            ran = database.execute("SELECT app, name FROM django_migrations ORDER BY id").fetchall()
            known = "SELECT 1 FROM sqlite_master WHERE name = ?"
            if database.execute(known, [SECRETS]).fetchone():
                database.execute("PRAGMA secure_delete = ON")
                database.execute(f"UPDATE {SECRETS} SET {SEALED} = ''")
                database.commit()
        with copied.open("rb") as file:
            told = Progress("Packing the database", copied.stat().st_size, say)
            writer.add(SQLITE, file, told)
    finally:
        copied.unlink(missing_ok=True)
    return tuple((app, name) for app, name in ran)


def _keep_store(writer: BackupWriter, say: Say) -> None:
    store = get_store()
    assert isinstance(store, FolderStore)  # checked before
    sizes = {key: store.find_size(key) or 0 for key in store.list_keys()}
    told = Progress("Keeping uploads, logs and artifacts", sum(sizes.values()), say)
    for key in sorted(sizes):
        try:
            chunks = store.open(key)
        except ObjectMissingError:  # deleted meanwhile
            continue
        with writer.member(STORE + key) as write:
            for chunk in chunks:
                write(chunk)
                told.add(len(chunk))


def _free_bytes(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def _summary(writer: BackupWriter, about: About) -> str:
    parts = ["database", "catalog", "secret key" if about.has_key else "mark of the secret key"]
    if about.has_store:
        parts.append(f"{writer.count(STORE)} objects of the store")
    return (
        f"{writer.path} ({in_units(writer.path.stat().st_size)}) holds {', '.join(parts)}; "
        "it was read back and is whole."
        + (" Whoever has the file has the secret key: keep it as you keep that." * about.has_key)
        + ("" if about.has_store else " It holds no uploads, logs and artifacts (see --store).")
    )
