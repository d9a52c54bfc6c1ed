"""Server time and queries of every page of a large installation: `python -m tests.measure pages`.

500 tenants in 20 teams, 10,000 finished trainings, and what belongs to them, in a database of their
own: SQLite, or with `pages postgresql` a PostgreSQL server that is started for it. Pages are rendered
in this process, as the web server does it, without a network in between. Where the machine has other
work to do, look at the processor time: for SQLite it has everything in it.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.scale.rows import Cast

ROUNDS = 20
GOAL_MS = 150.0


@dataclass(frozen=True)
class Row:
    """One page (or file) for one role."""

    role: str
    title: str
    status: int
    is_file: bool
    queries: int
    median_ms: float
    p95_ms: float
    cpu_ms: float

    @property
    def is_late(self) -> bool:
        """A page that takes too long; a file may take as long as it is."""
        return self.p95_ms > GOAL_MS and not self.is_file

    def __str__(self) -> str:
        late = " **over**" if self.is_late else ""
        times = f"{self.median_ms:.0f} | {self.p95_ms:.0f}{late} | {self.cpu_ms:.0f}"
        return f"| {self.role} | {self.title} | {self.status} | {self.queries} | {times} |"


@contextmanager
def database(kind: str, folder: Path) -> Iterator[None]:
    """Settings of a portal of its own, on this kind of database, with its tables made."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        os.environ["HOMEPORT_HOME"] = str(folder / "home")
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
        os.environ.pop("DATABASE_URL", None)
        if kind == "postgresql":
            from tests.tools.servers import postgres

            os.environ["DATABASE_URL"] = stack.enter_context(postgres(folder / "postgresql"))
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        call_command("collectstatic", interactive=False, verbosity=0)
        yield
        from django.db import connections

        connections.close_all()


def measure(cast: "Cast") -> Iterator[Row]:
    """Every page for each role that may open it."""
    from tests.scale.addresses import addresses
    from tests.scale.visits import Visitor

    for role, user in (("researcher", cast.ada), ("lead", cast.lead), ("admin", cast.root)):
        visitor = Visitor(user)
        for address in addresses(cast):
            visit = visitor.visit(address, ROUNDS)
            if visit.status in {403, 404, 405}:
                continue
            times_ms = sorted(time_s * 1000 for time_s in visit.times_s)
            yield Row(
                role,
                address.title,
                visit.status,
                visit.is_file,
                visit.queries,
                statistics.median(times_ms),
                times_ms[int(len(times_ms) * 0.95)],
                statistics.median(visit.cpu_s) * 1000,
            )


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(kind: str = "sqlite") -> None:
    """Fills, opens everything, prints the table, and below it the slowest."""
    with tempfile.TemporaryDirectory(prefix="homeport-scale-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user
        with database(kind, Path(folder)):
            from tests.scale.rows import fill
            from tests.scale.sizes import LARGE

            began = time.monotonic()
            cast = fill(LARGE)
            say(f"{LARGE} on {kind}, filled in {time.monotonic() - began:.0f} s.")
            say(f"Load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n")
            say(
                "| role | page | status | queries | median ms | p95 ms |\n|---|---|--:|--:|--:|--:|"
            )
            rows = []
            for row in measure(cast):
                rows.append(row)
                say(str(row))
            say(f"\n{summary([row for row in rows if not row.is_file])}")


def summary(pages: list[Row]) -> str:
    """The worst of all pages in a sentence."""
    late = sum(row.is_late for row in pages)
    slowest = max(pages, key=lambda row: row.p95_ms)
    busiest = max(pages, key=lambda row: row.cpu_ms)
    return (
        f"{len(pages)} pages, {late} over {GOAL_MS:.0f} ms (p95). The slowest: {slowest.title} "
        f"({slowest.role}), {slowest.p95_ms:.0f} ms. Most processor time: {busiest.title} "
        f"({busiest.role}), {busiest.cpu_ms:.0f} ms. Most queries: "
        f"{max(row.queries for row in pages)}."
    )
