"""`python -m tests.bench [ROW ...]`: measures, prints a table, and fails when a hard gate does.

Goals that are missed are printed as missed: docs/performance.md says what holds them back. What was asked
for by name and cannot be measured here fails, too.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.bench import (
    cache_rows,
    cluster_rows,
    lag_row,
    log_rows,
    page_rows,
    proof_row,
    queue_row,
    submit_row,
)
from tests.bench.ledger import Ledger
from tests.bench.results import HEAD, Result, line_of, summary
from tests.bench.world import World, world
from tests.tools.children import alone, say

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
CACHE = ("M9", "M10")
PAGES = ("M11", "M12")
SUBMIT = ("M13",)
LAG = ("M14",)
PROOFS = ("M15",)
QUEUE = ("M16",)
LOGS = (*(row for rows in LOG_WORKLOADS.values() for row in rows), *GATES)
ROWS = tuple(
    sorted((*LOGS, *CACHE, *PAGES, *SUBMIT, *LAG, *PROOFS, *QUEUE), key=lambda row: int(row[1:]))
)
REPEATS, QUICK_REPEATS = 5, 2
REAL_REPEATS = 2
CACHE_REPEATS = 3  # each takes half a minute, nearly all of it the informer's
LAG_REPEATS = 3
SPARE_TURNS = 4
EVENT_TO_BROWSER = (
    "M10's other half, from a pod's event to the page at 200 events/s, wants a cluster with so many pods: "
    "`python -m tests.scale.cluster` measures it (docs/scale.md)."
)


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


def chosen_of(wanted: set[str]) -> list[Any]:
    """The workloads about logs that these rows need; the gates are judged from all of them."""
    return [
        workload for workload, rows in LOG_WORKLOADS.items() if wanted.intersection({*rows, *GATES})
    ]


def clusters_of(names: Sequence[str], wanted: set[str]) -> list[str]:
    """Those of them on which there is something to measure."""
    has_logs, has_pages = bool(chosen_of(wanted)), "M11" in wanted
    return [name for name in names if has_logs or (has_pages and name in cluster_rows.AUDITED)]


async def logs(
    made: World, wanted: set[str], repeats: int, table: Table, cluster: str = ""
) -> None:
    """The rows about logs in one world; the gates of all of them come last."""
    bench = log_rows.Bench(made, Ledger(), log_rows.Turns(), repeats)
    for workload in chosen_of(wanted):
        table.add(_on(cluster, await workload(bench)))
    table.add(_on(cluster, bench.ledger.results()))


def _on(cluster: str, results: Sequence[Result]) -> list[Result]:
    return [result.on(cluster) if cluster else result for result in results]


def fake_logs(folder: Path, wanted: set[str], repeats: int, table: Table) -> None:
    """Many viewers, of pods that cost nothing."""
    if chosen := chosen_of(wanted):
        with world(folder, 2 * repeats * len(chosen) + SPARE_TURNS) as made:
            asyncio.run(logs(made, wanted, repeats, table))


def real_logs(cluster: str, wanted: set[str], repeats: int, table: Table) -> bool:
    """Fewer viewers, of real pods, and pages; False when there is no such cluster here."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(cluster_rows.real_world(cluster))
        except cluster_rows.NoClusterError as error:
            say(f"\nNot measured with real pods on {cluster}: {error}.\n")
            return False
        asyncio.run(logs(made, wanted, repeats, table, cluster))
        if made.pages and "M11" in wanted:
            made.begin(0, made.size.pods)
            table.add(_on(cluster, asyncio.run(page_rows.real_pages(made.pages, repeats))))
    return True


async def pages(folder: Path, wanted: set[str], repeats: int, table: Table) -> None:
    """The rows about pages, and what is measured in the same world."""
    if wanted.intersection({*PAGES, *LAG}):
        with page_rows.world(folder) as made:
            if wanted.intersection(PAGES):
                table.add(await page_rows.pages(made, repeats))
            if wanted.intersection(LAG):
                table.add(await lag_row.lag(made, min(repeats, LAG_REPEATS)))


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all of them")
    parser.add_argument(
        "--cluster",
        action="append",
        choices=[*cluster_rows.CLUSTERS, "none"],
        help="where rows about logs are measured with real pods; may be given twice; "
        f"all but {' and '.join(cluster_rows.NAMED_ALONE)}",
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_REPEATS} repeats of each")
    parsed = parser.parse_args(arguments)
    parsed.is_by_name = bool(parsed.rows or parsed.cluster)
    parsed.rows = [row.upper() for row in parsed.rows] or list(ROWS)
    parsed.cluster = parsed.cluster or [
        name for name in cluster_rows.CLUSTERS if name not in cluster_rows.NAMED_ALONE
    ]
    parsed.cluster = [name for name in parsed.cluster if name != "none"]
    for row in parsed.rows:
        if row not in ROWS:
            parser.error(f"{row} is no row (there are {', '.join(ROWS)})")
    return parsed


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 when a hard gate failed, or could not be measured and was asked for by name."""
    parsed = parse(arguments)
    repeats = QUICK_REPEATS if parsed.quick else REPEATS
    began = time.monotonic()
    say(f"Load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n")
    table, wanted, notes = Table(), set(parsed.rows), list[str]()
    with tempfile.TemporaryDirectory(prefix="homeport-bench-") as folder:
        fake_logs(Path(folder), wanted, repeats, table)
        is_all_there = True
        for cluster in clusters_of(parsed.cluster, wanted):
            is_all_there &= real_logs(cluster, wanted, min(repeats, REAL_REPEATS), table)
        if wanted.intersection(CACHE):
            table.add(asyncio.run(cache_rows.cache(Path(folder), min(repeats, CACHE_REPEATS))))
            notes.append(EVENT_TO_BROWSER)
        asyncio.run(pages(Path(folder), wanted, repeats, table))
        if wanted.intersection(SUBMIT):
            table.add(submit_row.submit(repeats))
        if wanted.intersection(QUEUE):
            table.add(queue_row.looks(repeats))
        if wanted.intersection(PROOFS):
            table.add(proof_row.proofs())
    say("\n".join(["", summary(table.results), *notes]))
    say(
        f"Took {time.monotonic() - began:.0f} s; load at the end {os.getloadavg()[0]:.1f}. "
        "Ratios of both sides in one run; docs/performance.md tells what each row is."
    )
    is_short = parsed.is_by_name and not is_all_there
    return int(is_short or any(result.fails_the_run for result in table.results))


if __name__ == "__main__":
    sys.exit(alone(lambda: main(sys.argv[1:])))
