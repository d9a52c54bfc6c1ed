"""Databases of tests that are about databases: in files of their own, at a migration of choice."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.test import override_settings

from portal.database.postgres import address

ALIAS = "of-a-test"


@contextmanager
def sqlite(path: Path) -> Iterator[str]:
    """An alias for an SQLite database beside the test run's own, which may be of another kind."""
    options = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL"}
    with _alias(ENGINE="portal.database.sqlite", NAME=str(path), OPTIONS=options):
        yield ALIAS


@contextmanager
def postgresql(url: str) -> Iterator[str]:
    """The alias, for a PostgreSQL database."""
    with _alias(OPTIONS={}, **address.parse(url) | {"ENGINE": "portal.database.postgres"}):
        yield ALIAS


@contextmanager
def _alias(**changes: Any) -> Iterator[None]:
    connections.databases[ALIAS] = {**settings.DATABASES["default"], **changes}
    try:
        yield
    finally:
        connections[ALIAS].close()
        del connections[ALIAS]
        del connections.databases[ALIAS]


@contextmanager
def code_with(folder: Path, later: dict[str, bool]) -> Iterator[None]:
    """The portal's code as if it had these migrations after its own.

    Args:
        folder: an empty place.
        later: name of each, in order -> whether it says that older code may run on its result.
    """
    module = f"migrations_{folder.name}"
    package = folder / module
    package.mkdir()
    (package / "__init__.py").touch()
    landed = sorted((Path(settings.BASE_DIR) / "portal" / "migrations").glob("[0-9]*.py"))
    for path in landed:
        (package / path.name).write_bytes(path.read_bytes())
    before = landed[-1].stem
    for name, older_code_may_run in later.items():
        (package / f"{name}.py").write_text(
            "from django.db import migrations\n\n\n"
            "class Migration(migrations.Migration):\n"
            + ("    older_code_may_run = True\n" if older_code_may_run else "")
            + f"    dependencies = [('portal', '{before}')]\n"
            f"    operations = [migrations.RunSQL('CREATE TABLE later_{name} (id int)')]\n"
        )
        before = name
    sys.path.insert(0, str(folder))
    try:
        with override_settings(MIGRATION_MODULES={"portal": module}):
            yield
    finally:
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.partition(".")[0] == module]:
            del sys.modules[name]


def migrate(using: str = ALIAS) -> None:
    call_command("migrate", database=using, verbosity=0)
