"""The earlier version, and the databases that it may have had."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools import servers
from tests.upgrade.old import NoHistoryError, Old, old_version


def or_skip(error: Exception) -> None:
    """Skips with the reason; where everything must be there, that is a failure."""
    if os.environ.get("CI"):
        pytest.fail(str(error))
    pytest.skip(str(error))


@pytest.fixture(scope="session")
def old() -> Iterator[Old]:
    try:
        with old_version() as made:
            yield made
    except NoHistoryError as error:
        or_skip(error)


@pytest.fixture(params=["sqlite", "postgresql"])
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
