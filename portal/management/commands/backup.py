"""Keeps everything that an installation knows in one file, while it runs or when it is stopped."""

import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone

from portal.backup import BackupError
from portal.backup.dumped import PG_DUMP
from portal.backup.taking import take

_NAMES = "homeport-*.backup"  # in a folder
# None is written for longer, as the component's activeDeadlineSeconds says.
_UNFINISHED_S = 6 * 3600


class Command(BaseCommand):
    """`manage.py backup FILE [--store] [--dump FILE]`, or a folder, of which the latest are kept."""

    help = __doc__ or ""
    # It is made whatever is wrong besides, and where files that serving needs are not at hand.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "file",
            type=Path,
            help="a name that nothing has yet, or a folder for homeport-TIME.backup",
        )
        parser.add_argument(
            "--store", action="store_true", help="also uploads, archived logs and artifacts"
        )
        parser.add_argument(
            "--dump", type=Path, help=f"take the rows from what `{PG_DUMP}` has written"
        )
        parser.add_argument(
            "--keep", type=int, default=0, help="remove older ones of the folder; 0: none"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path, keep = options["file"], options["keep"]
        folder = path if path.is_dir() else None
        if keep < 0 or (keep and folder is None):
            raise CommandError("--keep takes how many of a folder stay; name the folder")
        if folder is not None:
            path = folder / f"homeport-{timezone.now():%Y-%m-%dT%H%M%SZ}.backup"
            if keep:
                self._remove_killed(folder)
        try:
            take(
                path,
                with_store=options["store"],
                using="default",
                say=self.stdout.write,
                dump=options["dump"],
            )
        except BackupError as error:
            raise CommandError(f"No backup was made: {error}") from error
        self._note(path.name)
        if folder is not None and keep:
            for old in sorted(folder.glob(_NAMES))[:-keep]:
                old.unlink()
                self.stdout.write(f"Removed {old}.")

    def _remove_killed(self, folder: Path) -> None:
        """What one that was killed has left would fill the folder in time."""
        for left in folder.glob(f"{_NAMES}.unfinished"):
            if time.time() - left.stat().st_mtime > _UNFINISHED_S:
                left.unlink()
                self.stdout.write(f"Removed {left}, which was never finished.")

    def _note(self, name: str) -> None:
        """In the audit trail, by which the newest one's age is known."""
        from tenants.audit.record import BACKUP, AuditTarget, record  # below, nothing needs it

        try:
            record(by=None, verb="create", target=AuditTarget(BACKUP, name))
        except DatabaseError as error:
            self.stderr.write(f"It is not in the audit trail, so its age is not known: {error}")
