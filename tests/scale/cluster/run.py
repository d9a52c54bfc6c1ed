"""Measures Homeport on a large upstream cluster: `python -m tests.scale.cluster`.

1,000 nodes with GPUs, 200 tenants and 10,000 pods by default; everything smaller by options. Prints
a table of what docs/scale.md tells of, and with `--json FILE` writes it too.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.processes import rss_bytes
from tests.scale.cluster import measures
from tests.scale.cluster.events import Restarts
from tests.scale.cluster.lab import RECONCILER, WEB, Lab, Size

MIB = 2**20


class Table:
    """Rows as they are found; a figure that is a list is told by its median and its p99."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self._began_s = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began_s:5.0f} s] {text}", flush=True)

    def add(self, what: str, figure: Any) -> None:
        self.found[what] = figure
        print(f"| {what} | {shown(figure)} |", flush=True)


def shown(figure: Any) -> str:
    """A figure for people: numbers rounded, lists by median, p99 and how many they are."""
    if isinstance(figure, list) and figure:
        ordered = sorted(figure)
        p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        return f"{statistics.median(ordered):.3g} (p99 {p99:.3g}, n {len(ordered)})"
    if isinstance(figure, dict):
        return ", ".join(f"{name}: {shown(value)}" for name, value in figure.items())
    return f"{figure:.4g}" if isinstance(figure, float) else str(figure)


def at_least_one(text: str) -> int:
    """The number of an option without which there is nothing to measure."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.scale.cluster", description=__doc__)
    parser.add_argument("--nodes", type=at_least_one, default=1000)
    parser.add_argument("--tenants", type=at_least_one, default=200)
    parser.add_argument("--trainings", type=at_least_one, default=1, help="of each tenant")
    parser.add_argument(
        "--workers", type=at_least_one, default=49, help="of each training, beside one PS"
    )
    parser.add_argument("--gpu-tenants", type=int, default=150, help="so many hold GPUs")
    parser.add_argument(
        "--rounds", type=at_least_one, default=20, help="how often each page is opened"
    )
    parser.add_argument("--events", type=at_least_one, default=200, help="how many are timed")
    parser.add_argument("--watch-s", type=float, default=60.0, help="how long steady states last")
    parser.add_argument("--patience-s", type=float, default=1800.0, help="for filling")
    parser.add_argument(
        "--by-controllers",
        action="store_true",
        help="upstream's Job controller and scheduler make all pods (slow)",
    )
    parser.add_argument("--calls-only", action="store_true", help="count calls, time nothing")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def fill(lab: Lab, size: Size, table: Table, given: argparse.Namespace) -> None:
    """Everything that is to be there, through Homeport itself."""
    table.say(f"Kubernetes {lab.cluster.version}; filling: {size}")
    lab.make_nodes(size.nodes)
    lab.start(RECONCILER)
    lab.start(WEB)
    table.say("nodes are made")
    if given.by_controllers:
        lab.start_job_controller()
    if not given.calls_only:
        time.sleep(5)
        table.add("reconciler without pods, MiB", rss_bytes(lab.pid(RECONCILER)) / MIB)
    lab.make_people(size)
    began_s = time.monotonic()
    lab.wait_tenants(given.patience_s)
    table.add("tenants provisioned, s", time.monotonic() - began_s)
    began_s = time.monotonic()
    lab.submit_all(size)
    table.add("trainings submitted, s", time.monotonic() - began_s)
    if not given.by_controllers:
        lab.make_pods(size)
    lab.wait_running(size.pods, given.patience_s)
    table.add("from the first submit to all pods running, s", time.monotonic() - began_s)


def main() -> None:
    """See the module."""
    given = options()
    size = Size(given.nodes, given.tenants, given.trainings, given.workers, given.gpu_tenants)
    table = Table()
    with tempfile.TemporaryDirectory(prefix="homeport-scale-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL runs as another user
        with Lab(folder, table.say) as lab:
            fill(lab, size, table, given)
            restarts = Restarts(lab)
            measures.calls(lab, table.add, given.workers)
            if given.calls_only:
                measures.stop_reconciler(lab, table.add)
            else:
                measures.memory(lab, table.add, size.pods)
                measures.steady(lab, table.add, given.watch_s)
                measures.scrapes(lab, table.add)
                measures.events(lab, table.add, restarts, given.events)
                measures.churn(lab, table.add, restarts, given.watch_s)
                measures.pages_of(lab, table.add, given.rounds)
                measures.peers(lab, table.add, size.pods)
                measures.restarts_of(lab, table.add, restarts)
            table.add("load of the machine", f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if given.json:
        given.json.write_text(json.dumps(table.found, indent=1))
