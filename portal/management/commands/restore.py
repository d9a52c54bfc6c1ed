"""Puts a backup into an installation where nobody is yet; `manage.py backup` makes one."""

from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.backup import BackupError
from portal.backup.restoring import restore


class Command(BaseCommand):
    """`manage.py restore FILE`."""

    help = __doc__ or ""
    # As a backup is made: where files that serving needs are not at hand.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="a file of manage.py backup")

    def handle(self, *args: Any, **options: Any) -> None:
        from jobs.leader.holder import find_holder  # what is below jobs must not need it

        try:
            restore(
                options["file"],
                find_holder=partial(find_holder, say=self.stdout.write),
                using="default",
                say=self.stdout.write,
            )
        except BackupError as error:
            raise CommandError(str(error)) from error
