"""`manage.py prune [--dry-run]`: removes what is past its time, or says what would go."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobs.retention import prune
from portal.web.format import bytes_text


class Command(BaseCommand):
    """The reconciler does the same every night."""

    help = "Remove trainings, uploads, audit entries, tokens and sessions that are past their time."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only say what would go")

    def handle(self, *args: Any, **options: Any) -> None:
        for row in prune(is_dry=options["dry_run"]):
            size = f"  {bytes_text(row.size_bytes)}" if row.size_bytes else ""
            self.stdout.write(f"{row.count:>8}  {row.what}{size}")
        if options["dry_run"]:
            self.stdout.write("Nothing was removed.")
