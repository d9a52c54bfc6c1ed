"""Keeps everything that an installation knows in one file, while it runs or when it is stopped."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.backup import BackupError
from portal.backup.taking import take


class Command(BaseCommand):
    """`manage.py backup FILE [--store]`."""

    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="a name that nothing has yet")
        parser.add_argument(
            "--store", action="store_true", help="also uploads, archived logs and artifacts"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            take(
                options["file"],
                with_store=options["store"],
                using="default",
                say=self.stdout.write,
            )
        except BackupError as error:
            raise CommandError(f"No backup was made: {error}") from error
