"""Compares the migrations that a database has with those that this code knows.

A migration whose class says `older_code_may_run = True` (a new table, a new column that may be
null or has a default in the database) leaves a schema on which the version before goes on working;
without that line it does not. What each one said is kept in the database, for that older version,
which does not have its file. Everything here blocks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, Error, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

Key = tuple[str, str]  # app label and name of a migration

# Their tables stay when OIDC_ISSUER is unset, and are nobody's then.
_OPTIONAL_APPS = {"account", "socialaccount"}
_FLAG = "older_code_may_run"
_NOTES = "portal_migrationnote"


def shown(keys: Iterable[Key]) -> str:
    """The migrations as people know them: `jobs.0002_initial`, with commas between."""
    return ", ".join(f"{app}.{name}" for app, name in keys)


@dataclass(frozen=True)
class Schema:
    """What one look at a database found.

    Attributes:
        missing: migrations of this code that did not run, in the order in which they would.
        breaking: those of `missing` on whose result older code may not run.
        unknown: migrations that ran, but that this code does not have, sorted.
        refused: those of `unknown` on whose result this code may not run.
        newest: the one that ran last; None: none did.
        has_tables: whether there is any table at all.
    """

    missing: tuple[Key, ...] = ()
    breaking: tuple[Key, ...] = ()
    unknown: tuple[Key, ...] = ()
    refused: tuple[Key, ...] = ()
    newest: Key | None = None
    has_tables: bool = True

    def why_not_serve(self) -> str:
        """Why this code may not run on it, and what to do; empty: it may."""
        if self.refused:
            return (
                f"the database is of a newer version: this one does not know the migration "
                f"{shown(self.refused)}. Start that version, or restore a backup from before it."
            )
        if self.missing:
            return (
                f"the database lacks the migration {shown(self.missing)}. "
                "Run: manage.py migrate (docs/operations.md says what it keeps for the way back)"
            )
        return ""

    def why_not_migrate(self) -> str:
        """Why this code may not change it, whoever runs; empty: it may."""
        if self.unknown and (self.missing or self.refused):
            return (
                f"the database is of a newer version: this one does not know the migration "
                f"{shown(self.unknown)}. Migrate with that version. Nothing was changed."
            )
        return ""

    def why_not_migrate_beside(self, holder: str) -> str:
        """Why it may not be changed while a reconciler works; empty: it may."""
        if not self.breaking or not holder:
            return ""
        return (
            f"a reconciler is at work ({holder}), and its version may not run on the result of "
            f"{shown(self.breaking)}. Stop every `manage.py serve`, then migrate. "
            "Nothing was changed; what runs in the cluster goes on meanwhile."
        )


def look(using: str = DEFAULT_DB_ALIAS) -> Schema:
    """One look.

    Raises:
        django.db.DatabaseError: the database cannot be read.
    """
    connection = connections[using]
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    pending = [migration for migration, _is_backwards in plan]
    unknown = sorted(set(applied(connection)) - known(executor.loader))
    unknown = [key for key in unknown if not is_optional(key)]
    harmless = _harmless(connection) if _NOTES in tables else set()
    return Schema(
        missing=tuple((one.app_label, one.name) for one in pending),
        breaking=tuple(
            (one.app_label, one.name) for one in pending if not getattr(one, _FLAG, False)
        ),
        unknown=tuple(unknown),
        refused=tuple(key for key in unknown if key not in harmless),
        newest=next(reversed(applied(connection)), None),
        has_tables=bool(tables),
    )


def applied(connection: BaseDatabaseWrapper) -> list[Key]:
    """The migrations that ran, the last one last."""
    recorder = MigrationRecorder(connection)
    if not recorder.has_table():
        return []
    return list(recorder.migration_qs.order_by("id").values_list("app", "name"))


def known(loader: MigrationLoader) -> set[Key]:
    """All migrations that this code has, also those that others replaced."""
    keys: set[Key] = set(loader.disk_migrations)
    for migration in loader.disk_migrations.values():
        keys |= {(app, name) for app, name in migration.replaces}
    return keys


def made(loader: MigrationLoader) -> set[str]:
    """Tables that the migrations which ran have made, also those that later ones rename or drop."""
    ran = [key for key in loader.applied_migrations if key in loader.graph.nodes]
    models = loader.project_state(ran).apps.get_models(include_auto_created=True)
    return {model._meta.db_table for model in models}


def is_optional(key: Key) -> bool:
    """Whether it is of an application that the settings leave out now."""
    return key[0] in _OPTIONAL_APPS and key[0] not in apps.app_configs


def _harmless(connection: BaseDatabaseWrapper) -> set[Key]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT app, name FROM {_NOTES} WHERE older_code_may_run")
        return {(app, name) for app, name in cursor.fetchall()}


def keep_notes(using: str = DEFAULT_DB_ALIAS) -> None:
    """Writes down what the migrations that ran say of older code, and forgets those taken back.

    What this code does not know it leaves as it is.
    """
    connection = connections[using]
    with connection.cursor() as cursor:
        if _NOTES not in connection.introspection.table_names(cursor):
            return
    note: Any = apps.get_model("portal", "MigrationNote")
    ran = set(applied(connection))
    wanted = {
        key: bool(getattr(migration, _FLAG, False))
        for key, migration in MigrationLoader(connection).disk_migrations.items()
        if key in ran
    }
    with transaction.atomic(using=using):
        for row in note.objects.using(using).all():
            key = (row.app, row.name)
            if key not in ran:
                row.delete()
            elif key in wanted and wanted.pop(key) != row.older_code_may_run:
                note.objects.using(using).filter(pk=row.pk).update(
                    older_code_may_run=not row.older_code_may_run
                )
        note.objects.using(using).bulk_create(
            note(app=app, name=name, older_code_may_run=flag)
            for (app, name), flag in wanted.items()
        )


def differs() -> bool:
    """Whether the database is of another version by now than this code, as far as it can be asked."""
    try:
        return bool(look().why_not_serve())
    except Error:
        return False


def problem(using: str = DEFAULT_DB_ALIAS) -> str | None:
    """See `Schema.why_not_serve`; None: the database cannot be asked now."""
    try:
        return look(using).why_not_serve()
    except Error:
        return None
    finally:
        connections[using].close()
