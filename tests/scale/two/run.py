"""Measures two web servers and two reconcilers behind a proxy: `python -m tests.scale.two`.

Prints what docs/scale.md tells of with the bound of each, and ends with 1 when one is missed. The figures
need a machine with nothing else to do; with `--viewers 20 --uploads 3` it says in a minute whether anything
is lost. The parts are `restart` (all processes replaced under load), `kill` (the active reconciler, under 50
trainings that are being made), `cost` (processor time and delay of 500 viewers at two web servers and of 250 at
one, in turn) and `servers` (PostgreSQL and Redis away under load).
"""

import argparse
import asyncio
import contextlib
import json
import math
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from onebox.testing.processes import descendants
from tests.bench.fakelogs import LINE_BYTES
from tests.bench.processes import cpu_s
from tests.bench.viewers import percentile
from tests.scale.two.crowd import Crowd
from tests.scale.two.lab import RECONCILER, Lab, training
from tests.scale.two.load import Load
from tests.tools import servers
from tests.tools.waiting import wait_for

TRAININGS = 50
AWAY_S, HEALED_S = 5.0, 15.0
_TRIES, _MOST_OTHERS = 2, 0.05
PARTS = ("restart", "kill", "cost", "servers")


class Table:
    """Rows as they are found, each with its bound, if it has one."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.missed: list[str] = []
        self._began_s = time.monotonic()

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began_s:5.0f} s] {text}", flush=True)

    def add(self, what: str, figure: Any, most: float | None = None) -> None:
        """A figure that should be `most` at the highest."""
        self.found[what] = figure
        shown = f"{figure:.3g}" if isinstance(figure, float) else figure
        verdict = ""
        if most is not None:
            verdict = f"at most {most:g}: " + ("pass" if figure <= most else "FAIL")
            if not figure <= most:
                self.missed.append(what)
        print(f"| {what} | {shown} | {verdict} |", flush=True)


def lines(table: Table, load: Load, behind: int) -> None:
    """Whether each viewer got each line once."""
    wrong = [text for place in load.places for text in place.wrong]
    table.add("lines", sum(place.lines for place in load.places))
    table.add("lines lost or doubled, places", len(wrong) + behind, 0)
    table.add("lines skipped", sum(place.skipped for place in load.places), 0)
    table.add("connections of viewers", sum(place.connects for place in load.places))
    for text in wrong[:5]:
        table.say(f"  {text}")


def acknowledged(table: Table, load: Load) -> None:
    """Whether what was acknowledged is there, once."""
    from jobs.models import Bundle, Workload

    kept = Counter(Bundle.objects.values_list("sha256", flat=True))
    rows = Counter(Workload.objects.values_list("name", flat=True))
    table.add("uploads", len(load.uploaded))
    table.add("submits", len(load.submitted))
    doubled = [name for name, often in kept.items() if often > 1]
    doubled += [name for name in load.submitted if rows[name] > 1]
    missing = [name for name in load.uploaded if not kept[name]]
    missing += [name for name in load.submitted if not rows[name]]
    table.add("acknowledged and missing", len(missing), 0)
    table.add("done twice", len(doubled), 0)


async def restart(lab: Lab, table: Table, given: argparse.Namespace) -> None:
    load = Load(lab)
    await load.come(given.viewers)
    table.say(f"{given.viewers} viewers see lines; all processes are replaced")
    load.begin(given.uploads, given.upload_s)
    await asyncio.sleep(given.upload_s / 2)
    for place in load.places:
        place.begin()
    await lab.replace_all()
    table.say("all are replaced")
    await load.finish()
    behind = await load.catch_up()
    await load.leave()
    gaps = [place.gap_s for place in load.places]
    lines(table, load, behind)
    if given.viewers >= 100:  # else they say nothing
        table.add("gap of half of the viewers, s", percentile(gaps, 0.5))
        table.add("gap of 99 of 100 viewers, s", percentile(gaps, 0.99 - 1 / len(gaps)), 3)
        table.add("longest gap, s", max(gaps), 10)
    bad = [one for one in load.answers if not one.is_done]
    later = [one for one in bad if "too_many_uploads" in one.text]
    table.add("answers", len(load.answers))
    table.add("uploads told to come later", len(later))
    table.add("answers lost or refused", len(bad) - len(later), 0)
    for one in [one for one in bad if one not in later][:5]:
        table.say(f"  {one}")
    await asyncio.to_thread(acknowledged, table, load)


async def servers_away(lab: Lab, table: Table, given: argparse.Namespace) -> None:
    load = Load(lab)
    await load.come(given.viewers)
    load.begin(given.uploads, given.upload_s)
    await asyncio.sleep(given.upload_s / 2)
    table.say(f"PostgreSQL, then Redis are away for {AWAY_S:g} s each")
    gone = time.monotonic()
    await asyncio.to_thread(lab.postgres_stack.close)
    await asyncio.sleep(AWAY_S)
    lab.postgres_stack.enter_context(lab.postgres.running())
    await asyncio.to_thread(lab.redis_stack.close)
    await asyncio.sleep(AWAY_S)
    folder = lab.folder / f"redis-{time.monotonic_ns()}"
    lab.redis_stack.enter_context(servers.redis(folder, lab.redis_port))
    back = time.monotonic()
    await asyncio.sleep(HEALED_S)
    healed = len(load.answers)
    for place in load.places:
        place.begin()
    await asyncio.sleep(given.upload_s)
    await load.finish()
    status = await load.call(lab.owners[0], "GET", "../../status")
    behind = await load.catch_up()
    lines(table, load, behind)
    gap_s = max(place.gap_s for place in load.places)
    await load.leave()
    table.add("longest gap once healed, s", gap_s, 3 if given.viewers >= 100 else None)
    meanwhile = [one for one in load.answers[:healed] if one.at > gone and not one.is_done]
    odd = [one for one in meanwhile if not one.is_refused_in_words]
    table.add("refused in words meanwhile", len(meanwhile) - len(odd))
    table.add("lost, or refused otherwise", len(odd), 0)
    late = [one for one in load.answers[healed:] if not one.is_done]
    later = [one for one in late if "too_many_uploads" in one.text]
    table.add(f"not answered as usual {HEALED_S:g} s after", len(late) - len(later), 0)
    for one in (*odd[:5], *late[:5]):
        table.say(f"  {one.at - back:.1f} s after: {one}")
    table.add("parts that are not well", int(not status.is_done), 0)
    await asyncio.to_thread(acknowledged, table, load)


def kill(lab: Lab, table: Table) -> None:
    """Under trainings that are being made."""
    from django.db.models import Count

    from jobs.models import ReconcilerLease, Workload
    from tenants.models import Tenant

    rest = lab.owners[0]
    namespace = Tenant.objects.get(owner__username="person-0").namespace
    since, before = len(lab.journal), ReconcilerLease.objects.get().epoch
    sleeps = training("killed", "import time; time.sleep(9999)")
    ids = [rest.submit(**sleeps)["id"] for _ in range(TRAININGS)]
    rows = Workload.objects.filter(pk__in=ids)

    def made() -> int:
        return rows.exclude(state="queued").count()

    wait_for("some are made", lambda: made() >= TRAININGS // 3)
    active = lab.active()
    active.child.kill()
    began_s, at_kill = time.monotonic(), made()
    lab.reconcilers[lab.reconcilers.index(active)] = lab.reconciler()
    table.say(f"the active reconciler is killed; {at_kill} of {TRAININGS} trainings are made")
    wait_for("the lease is taken", lambda: ReconcilerLease.objects.get().epoch > before)
    table.add("lease taken after, s", time.monotonic() - began_s)
    wait_for("one more is made", lambda: made() > at_kill or at_kill == TRAININGS)
    table.add("taken over (one more training made) after, s", time.monotonic() - began_s, 30)
    wait_for("all are made", lambda: made() == TRAININGS, timeout_s=300)
    table.add("all trainings made after, s", time.monotonic() - began_s)
    wait_for("all run", lambda: rows.filter(state="running").count() == TRAININGS, timeout_s=300)
    table.add("all trainings running after, s", time.monotonic() - began_s)
    found = lab.journal.made(RECONCILER, namespace, since)
    table.add("objects and pods made", sum(found.values()))
    table.add("made twice", sum(often > 1 for often in found.values()), 0)
    table.add("attempts beyond the first", rows.filter(attempt__gt=1).count(), 0)
    states = rows.values_list("state").annotate(Count("pk"))
    table.say(f"{dict(states)}")
    for job in ids:
        assert rest.call("POST", f"jobs/{job}/stop/").ok


@dataclass(frozen=True)
class Watched:
    """What one measurement found; shares are of the whole machine."""

    cpu_ms_per_mb: float
    p99_ms: float
    others: float


def cost(lab: Lab, table: Table, given: argparse.Namespace) -> None:
    """One web server with half of the viewers and two with all of them in turn, in crowds of the same size.

    At a line rate of its own, that of a machine at work: where hardly anything comes, what p99 tells of two web servers
    is how long a machine with few cores takes to send one line to twice as many.
    Rounds beside which other programs used the machine are shown and not counted.
    """
    lab.write_lines(given.cost_rate)
    ratios = []
    for number in range(1, given.rounds * _TRIES + 1):
        one, two = (_watched(lab, table, given, count) for count in (1, 2))
        found = (two.cpu_ms_per_mb / one.cpu_ms_per_mb, two.p99_ms / one.p99_ms)
        is_quiet = max(one.others, two.others) <= _MOST_OTHERS
        shown = ", ".join(f"{ratio:.2f}" for ratio in found)
        table.say(f"round {number}, ratios: {shown}" + ("" if is_quiet else "; not counted"))
        ratios += [found] if is_quiet else []
        if len(ratios) == given.rounds:
            break
    table.add("rounds that a quiet machine was missing for", given.rounds - len(ratios), 0)
    middle = [median(one) for one in zip(*ratios, strict=True)] or [math.nan] * 2
    table.add("processor time per MB, two / one, median", middle[0], 1.15)
    table.add("p99, two / one, median", middle[1], 1.15)
    lab.write_lines(given.rate)


def _watched(lab: Lab, table: Table, given: argparse.Namespace, count: int) -> Watched:
    """So many web servers, each with half of the viewers."""
    lab.lead(count)
    pids, half = [one.pid for one in lab.webs[:count]], given.viewers // 2
    seats = lab.seats(half * count)
    crowds = [Crowd(lab.proxy.port, seats[n * half : (n + 1) * half]) for n in range(count)]
    time.sleep(given.warm_s)
    for crowd in crowds:
        crowd.begin()
    began_s, idle_s, own_s = time.monotonic(), _idle_s(), _own_s()
    used_s = sum(map(cpu_s, pids))
    time.sleep(given.watch_s)
    whole_s = (time.monotonic() - began_s) * _cores()
    used_s = sum(map(cpu_s, pids)) - used_s
    idle, own = (_idle_s() - idle_s) / whole_s, (_own_s() - own_s) / whole_s
    seen = [crowd.end() for crowd in crowds]
    mb = sum(one.lines for one in seen) * LINE_BYTES / 1e6
    lags_ms = [ms for one in seen for ms in one.oldest_ms]
    found = Watched(used_s * 1000 / mb, percentile(lags_ms, 0.99), 1 - idle - own)
    name = f"{count} web, {len(seats)} viewers: "
    table.add(name + "MB/s", mb * _cores() / whole_s)
    table.add(name + "processor ms per MB", found.cpu_ms_per_mb)
    table.add(name + "median, ms", percentile(lags_ms, 0.5))
    table.add(name + "p90, ms", percentile(lags_ms, 0.9))
    table.add(name + "p99, ms", found.p99_ms)
    table.add(name + "idle, share of the machine", idle)
    table.add(name + "busy with all of this, share of the machine", own, 0.8)
    wrong = sum(len(one.wrong) + one.skipped for one in seen)
    table.add(name + "lines lost, doubled or skipped", wrong, 0)
    again = sum(one.connects for one in seen) - len(seats)
    table.add(name + "viewers that had to come again", again, 0)
    return found


def _own_s() -> float:
    """Processor time of us and of all that we have started and that runs."""
    total_s = 0.0
    for pid in (os.getpid(), *descendants(os.getpid())):
        with contextlib.suppress(OSError):  # it has ended
            total_s += cpu_s(pid)
    return total_s


def _idle_s() -> float:
    """Of all processors together, since the machine began."""
    ticks = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return (int(ticks[4]) + int(ticks[5])) / 100


def _cores() -> int:
    return Path("/proc/stat").read_text().count("\ncpu")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.scale.two", description=__doc__)
    parser.add_argument("--proxy", choices=("nginx", "caddy"), default="nginx")
    parser.add_argument("--viewers", type=int, default=500)
    parser.add_argument("--uploads", type=int, default=20, help="at once")
    parser.add_argument("--upload-s", type=float, default=20.0, help="how long one takes")
    parser.add_argument("--pods", type=int, default=10, help="that write lines; two uploads each")
    parser.add_argument("--rate", type=float, default=4.0, help="lines a second of each pod")
    parser.add_argument("--cost-rate", type=float, default=20.0, help="likewise, for costs")
    parser.add_argument("--pause-s", type=float, default=5.0, help="before a SIGTERM, as preStop")
    parser.add_argument("--rounds", type=int, default=3, help="in which costs are measured")
    parser.add_argument("--warm-s", type=float, default=10.0, help="before each measurement")
    parser.add_argument("--watch-s", type=float, default=30.0, help="how long one takes")
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    """See the module."""
    given, table = options(), Table()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    parts: dict[str, Callable[[Lab], None]] = {
        "cost": lambda lab: cost(lab, table, given),
        "restart": lambda lab: asyncio.run(restart(lab, table, given)),
        "servers": lambda lab: asyncio.run(servers_away(lab, table, given)),
        "kill": lambda lab: kill(lab, table),
    }
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="homeport-two-")))
        folder.chmod(0o755)  # pods and PostgreSQL run as other users
        lab = stack.enter_context(Lab(folder, given.proxy, given.pause_s, table.say))
        table.say(f"two webs and two reconcilers behind {given.proxy}")
        lab.fill(given.pods, given.viewers, given.rate)
        from django.db import connections

        for name, part in parts.items():
            if name in (given.only or PARTS):
                table.say(f"--- {name}")
                connections.close_all()  # the server may have been away
                part(lab)
    if given.json:
        given.json.write_text(json.dumps(table.found, indent=1))
    sys.exit(f"missed: {', '.join(table.missed)}" if table.missed else 0)
