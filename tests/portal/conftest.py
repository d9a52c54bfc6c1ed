"""A migrated SQLite database for tests that are about databases, made once."""

from pathlib import Path

import pytest

from tests.portal.databases import migrate, sqlite


@pytest.fixture(scope="session")
def migrated(tmp_path_factory, django_db_blocker) -> Path:
    """One of this code, to copy; nobody is in it."""
    path = tmp_path_factory.mktemp("migrated") / "homeport.sqlite3"
    with django_db_blocker.unblock(), sqlite(path):
        migrate()
    return path
