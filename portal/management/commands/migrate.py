"""Django's `migrate` with a way back: a copy of an SQLite database first, and nobody at work.

Nothing is changed before everything was looked at. The first migrate of an empty database has
nothing to keep and says one line.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connections
from django.utils import timezone

from portal.database import schema, sqlite_copy

# With these Django only looks, or tidies its own table.
_ONLY_LOOKS = ("plan", "check_unapplied", "prune")


class Command(migrate.Command):
    """`manage.py migrate`, with all of Django's arguments."""

    help = "Bring the database to this version. An SQLite database is copied beside itself first."

    def handle(self, *args: Any, **options: Any) -> None:
        using = options["database"]
        if any(options.get(name) for name in _ONLY_LOOKS):
            super().handle(*args, **options)
            return
        found = schema.look(using)
        if refusal := found.why_not_migrate():
            raise CommandError(refusal)
        if not found.has_tables:
            self._set_up(using, options)
            return
        # Part of the way, or back: what that means for a version at work nobody said.
        is_part = bool(options.get("app_label"))
        if is_part and not found.breaking and found.newest:
            found = replace(found, breaking=(found.newest,))
        if found.missing or is_part:
            self._say = self.stdout.write if options["verbosity"] else _say_nothing
            self._refuse_beside_work(using, found)
            self._keep_copy(using, found)
            _take_time(using)
        try:
            super().handle(*args, **options)
        finally:
            schema.keep_notes(using)

    def _set_up(self, using: str, options: dict[str, Any]) -> None:
        said = options["verbosity"]
        super().handle(**{**options, "verbosity": 0 if said == 1 else said})
        schema.keep_notes(using)
        if said:
            self.stdout.write("The database was empty and is set up.")

    def _refuse_beside_work(self, using: str, found: schema.Schema) -> None:
        if not found.breaking:
            return
        from jobs.leader.holder import find_holder  # what is below jobs must not need it

        holder = find_holder(using=using, say=self._say)
        if refusal := found.why_not_migrate_beside(holder):
            raise CommandError(refusal)

    def _keep_copy(self, using: str, found: schema.Schema) -> None:
        connection = connections[using]
        if connection.vendor != "sqlite" or connection.is_in_memory_db():  # type: ignore[attr-defined]
            return
        newest = schema.shown([found.newest]) if found.newest else "no-migration"
        at = timezone.now().strftime("%Y%m%dT%H%M%SZ")
        database = Path(str(connection.settings_dict["NAME"]))
        try:
            kept = sqlite_copy.keep_copy(database, newest, at, self._say)
        except sqlite_copy.CopyError as error:
            raise CommandError(f"{error}. Nothing was migrated.") from error
        self._say(f"A copy of the database as it was is kept in {kept}")


def _say_nothing(line: str) -> None:
    """With `--verbosity 0`."""


def _take_time(using: str) -> None:
    """The limits of time that are right for pages are wrong for this."""
    connection = connections[using]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")
            cursor.execute("SET idle_in_transaction_session_timeout = 0")
