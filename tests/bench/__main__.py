"""`python -m tests.bench [ROW ...]`: measures, prints a table, and fails when a hard gate does.

Goals that are missed are printed as missed: docs/performance.md says what holds them back.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench import cache_rows, cluster_rows, log_rows, page_rows, submit_row
from tests.bench.ledger import Ledger
from tests.bench.results import HEAD, Result, line_of, summary
from tests.bench.world import world

# Rows that are judged from what all workloads about logs did.
GATES = ("M5", "M7")
# Idle memory first: it wants processes that have done nothing yet.
LOG_WORKLOADS = {
    log_rows.idle: ("M8",),
    log_rows.flood: ("M1", "M2"),
    log_rows.single: ("M3",),
    log_rows.paced: ("M4",),
    log_rows.stalled: ("M6",),
}
REAL = ("M3", "M5", "M7")  # with real pods, too
CACHE = ("M9", "M10")
PAGES = ("M11", "M12")
SUBMIT = ("M13",)
LOGS = tuple(row for rows in LOG_WORKLOADS.values() for row in rows)
ROWS = tuple(sorted((*LOGS, *GATES, *CACHE, *PAGES, *SUBMIT), key=lambda row: int(row[1:])))
REPEATS, QUICK_REPEATS = 5, 2
REAL_REPEATS = 2
CACHE_REPEATS = 3  # each takes half a minute, nearly all of it the informer's
SPARE_TURNS = 4


def say(text: str) -> None:
    print(text, flush=True)


class Table:
    """Prints each line as soon as it is known, and keeps it for the end."""

    def __init__(self) -> None:
        self.results: list[Result] = []

    def add(self, results: Sequence[Result]) -> None:
        if results and not self.results:
            say(HEAD)
        for result in results:
            say(line_of(result))
        self.results += results


async def logs(folder: Path, wanted: set[str], repeats: int, table: Table) -> None:
    """The rows about logs; the gates of all of them come last."""
    chosen = [
        workload for workload, rows in LOG_WORKLOADS.items() if wanted.intersection({*rows, *GATES})
    ]
    if not chosen:
        return
    sets = 2 * repeats * len(chosen) + SPARE_TURNS
    with world(folder, log_rows.PODS, sets) as made:
        bench = log_rows.Bench(made, Ledger(), log_rows.Turns(), repeats)
        for workload in chosen:
            table.add(await workload(bench))
        table.add(bench.ledger.results())


async def real_pods(clusters: Sequence[str], repeats: int, table: Table) -> None:
    """The rows that make sense with real pods, on each cluster."""
    for cluster in clusters:
        try:
            table.add(await cluster_rows.real_logs(cluster, repeats))
        except cluster_rows.NoClusterError as error:
            say(f"\nNot measured with real pods on {cluster}: {error}.\n")


async def pages(folder: Path, wanted: set[str], repeats: int, table: Table) -> None:
    """The rows about pages."""
    if wanted.intersection(PAGES):
        with page_rows.world(folder) as made:
            table.add(await page_rows.pages(made, repeats))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all of them")
    parser.add_argument(
        "--cluster",
        action="append",
        choices=[*cluster_rows.CLUSTERS, "none"],
        help=f"where {', '.join(REAL)} are measured with real pods; may be given twice; all of them",
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_REPEATS} repeats of each")
    parsed = parser.parse_args(arguments)
    parsed.rows = [row.upper() for row in parsed.rows] or list(ROWS)
    parsed.cluster = parsed.cluster or list(cluster_rows.CLUSTERS)
    parsed.cluster = [name for name in parsed.cluster if name != "none"]
    for row in parsed.rows:
        if row not in ROWS:
            parser.error(f"{row} is no row (there are {', '.join(ROWS)})")
    return parsed


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 when a hard gate failed."""
    parsed = parse(arguments)
    repeats = QUICK_REPEATS if parsed.quick else REPEATS
    began = time.monotonic()
    say(f"Load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n")
    table, wanted = Table(), set(parsed.rows)
    with tempfile.TemporaryDirectory(prefix="homeport-bench-") as folder:
        asyncio.run(logs(Path(folder), wanted, repeats, table))
        if wanted.intersection(REAL):
            asyncio.run(real_pods(parsed.cluster, min(repeats, REAL_REPEATS), table))
        if wanted.intersection(CACHE):
            table.add(asyncio.run(cache_rows.cache(Path(folder), min(repeats, CACHE_REPEATS))))
        asyncio.run(pages(Path(folder), wanted, repeats, table))
        if wanted.intersection(SUBMIT):
            table.add(submit_row.submit(repeats))
    say(f"\n{summary(table.results)}")
    say(
        f"Took {time.monotonic() - began:.0f} s; load at the end {os.getloadavg()[0]:.1f}. "
        "Ratios of both sides in one run; docs/performance.md tells what each row is."
    )
    return int(any(result.fails_the_run for result in table.results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
