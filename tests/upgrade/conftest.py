"""The earlier versions, and the databases that they may have had."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.portal.databases import ALIAS, postgresql, sqlite
from tests.tools import servers
from tests.upgrade.old import FIRST, TWO_TABLES, NoHistoryError, Old, old_version
from tests.upgrade.old_rows import OldTables, write_odd


def or_skip(error: Exception) -> None:
    """Skips with the reason; where everything must be there, that is a failure."""
    if os.environ.get("CI"):
        pytest.fail(str(error))
    pytest.skip(str(error))


@pytest.fixture(scope="session", params=[FIRST, TWO_TABLES], ids=str)
def old(request: pytest.FixtureRequest) -> Iterator[Old]:
    try:
        with old_version(request.param) as made:
            yield made
    except NoHistoryError as error:
        or_skip(error)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def database(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Settings of the database: none for SQLite, DATABASE_URL of a PostgreSQL of its own."""
    if request.param == "sqlite":
        yield {}
        return
    # Not pytest's own folder: the next pytest closes that to other users, and PostgreSQL is one.
    with tempfile.TemporaryDirectory(prefix="homeport-upgrade-postgres-") as folder:
        os.chmod(folder, 0o755)
        try:
            with servers.postgres(Path(folder, "postgres")) as url:
                yield {"DATABASE_URL": url}
        except servers.NoServerError as error:
            or_skip(error)


@pytest.fixture
def tables(database: dict[str, str], tmp_path: Path, django_db_blocker) -> Iterator[OldTables]:
    """The tables of before, with odd rows in them, on a database of either kind."""
    url = database.get("DATABASE_URL")
    alias = postgresql(url) if url else sqlite(tmp_path / "homeport.sqlite3")
    with django_db_blocker.unblock(), alias:
        made = OldTables(ALIAS)
        write_odd(made)
        yield made
