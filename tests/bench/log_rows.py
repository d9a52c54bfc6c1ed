"""Rows about logs, with real pods or with an API server of our own: M1 to M8 of performance.md."""

import asyncio
import statistics
from dataclasses import dataclass

from tests.bench.fakelogs import Work
from tests.bench.kubectl_side import kubectl_logs
from tests.bench.ledger import Ledger
from tests.bench.processes import rss_bytes
from tests.bench.results import Result, Sides, at_least, at_most, figure
from tests.bench.runs import Crowd, Run, none_left, open_at, run, settled, stats
from tests.bench.viewers import arrive
from tests.bench.world import Relay, World

# One pod writes 15,000 lines: a viewer of it who does not read has soon filled every buffer.
LOUD = Work(250, per_s=50.0, loud=60)
WARM_UP_SHARE = 10  # of idle viewers: one in ten comes before it is measured
MIB = 2**20


@dataclass
class Turns:
    """Sets of pods, each used once: a tail that lingers must not meet the next repeat."""

    used: int = 0

    def next(self) -> int:
        self.used += 1
        return self.used - 1


@dataclass(frozen=True)
class Bench:
    """What every workload is given."""

    world: World
    ledger: Ledger
    turns: Turns
    repeats: int

    async def turn(self, pods: int) -> int:
        """The next set, whose first `pods` pods are there."""
        turn = self.turns.next()
        await asyncio.to_thread(self.world.begin, turn, pods)
        return turn

    async def portal(self, crowd: Crowd, *, with_stalled: bool = False) -> Run:
        api, portal, turn = self.world.api, self.world.portal, await self.turn(crowd.pods)
        return self.ledger.enter(await run(api, portal, turn, crowd, with_stalled=with_stalled))

    async def relay(self, side: Relay, crowd: Crowd) -> Run:
        return await run(self.world.api, side, await self.turn(crowd.pods), crowd)

    async def in_turn(self, side: Relay, crowd: Crowd) -> list[tuple[Run, Run]]:
        """Ours and theirs, as often as there are repeats, each first every other time."""
        pairs = []
        for number in range(self.repeats):
            if number % 2:
                theirs = await self.relay(side, crowd)
                pairs.append((await self.portal(crowd), theirs))
            else:
                ours = await self.portal(crowd)
                pairs.append((ours, await self.relay(side, crowd)))
        return pairs


async def flood(bench: Bench) -> list[Result]:
    """M1 and M2: all viewers of all pods, as fast as it goes."""
    size = bench.world.size
    speed, cost = Sides(), Sides()
    skipped = delivered = 0
    for ours, theirs in await bench.in_turn(
        bench.world.batch, Crowd(size.pods, size.viewers, size.flood)
    ):
        speed.add(ours.got.lines_per_s, theirs.got.lines_per_s)
        cost.add(ours.cpu_ms_per_mb, theirs.cpu_ms_per_mb)
        skipped += ours.got.skipped
        delivered += ours.got.lines
    share = skipped / (skipped + delivered) * 100
    return [
        Result(
            "M1",
            "lines/s delivered, portal / raw relay",
            speed.ratio,
            at_least(0.7),
            sides=f"{speed.words('million/s', 'raw', 1e-6)}; {share:.1f} % announced as skipped",
            void=speed.void,
        ),
        cost.result("M2", "CPU per delivered MB, portal / raw relay", at_most(1.5), "ms/MB", "raw"),
    ]


async def paced(bench: Bench) -> list[Result]:
    """M4: 10,000 deliveries each second."""
    size = bench.world.size
    late, cost = Sides(), Sides()
    for ours, theirs in await bench.in_turn(
        bench.world.line, Crowd(size.pods, size.viewers, size.paced)
    ):
        late.add(ours.got.oldest_p99_ms(), theirs.got.oldest_p99_ms())
        cost.add(ours.cpu_s, theirs.cpu_s)
    return [
        late.result(
            "M4", "emit to receive p99, portal / raw relay by line", at_most(2), "ms", "raw"
        ),
        cost.result("M4", "CPU at that, portal / raw relay by line", at_most(0.65), "s", "raw"),
    ]


async def stalled(bench: Bench) -> list[Result]:
    """M6: one of all viewers does not read."""
    size = bench.world.size
    late, grown = Sides(), []
    crowd = Crowd(size.pods, size.viewers, LOUD)
    for number in range(bench.repeats):
        runs = {}
        for with_stalled in (False, True) if number % 2 else (True, False):
            runs[with_stalled] = await bench.portal(crowd, with_stalled=with_stalled)
        late.add(runs[True].got.oldest_p99_ms(), runs[False].got.oldest_p99_ms())
        grown.append((runs[True].grown_bytes - runs[False].grown_bytes) / MIB)
    return [
        late.result(
            "M6",
            f"p99 of {size.viewers - 1} healthy viewers, one stalled / none",
            at_most(1.2),
            "ms",
            "without",
        ),
        Result(
            "M6",
            "memory of the stalled viewer",
            max(0.0, statistics.median(grown)),
            at_most(1),
            "MiB",
            f"repeats: {', '.join(f'{mib:.1f}' for mib in grown)}",
        ),
    ]


async def idle(bench: Bench) -> list[Result]:
    """M8: what a viewer costs to whom nothing is sent. Wants processes that did nothing before."""
    kib, size = {}, bench.world.size
    warm_up = max(size.pods, size.viewers // WARM_UP_SHARE)  # no pod is new to the others
    for side in (bench.world.portal, bench.world.batch):
        targets = side.targets(await bench.turn(size.pods), size.pods, size.viewers)
        seen = side.shows_the_past
        first = await arrive(targets[:warm_up])
        await settled(bench.world.api, size.pods, first if seen else ())
        before = rss_bytes(side.pid)
        others = await arrive(targets[warm_up:])
        await settled(bench.world.api, size.pods, others if seen else ())
        kib[side.title] = (rss_bytes(side.pid) - before) / 1024 / len(others)
        for viewer in (*first, *others):
            viewer.leave()
        await none_left(open_at(bench.world.api))
        await stats(bench.world.api, "close")
    ours, theirs = kib.values()
    return [
        Result(
            "M8",
            "memory of an idle viewer, portal / raw relay",
            ours / theirs,
            at_most(4),
            sides=f"{figure(ours)} KiB to raw's {figure(theirs)}",
        ),
        Result("M8", "memory of an idle viewer of the portal", ours, at_most(48), "KiB"),
    ]


async def single(bench: Bench) -> list[Result]:
    """M3: one viewer of one pod, as fast as it goes, and `kubectl logs -f` of the same."""
    cost, speed = Sides(), Sides()
    work = bench.world.size.single
    crowd = Crowd(1, 1, work)
    for number in range(bench.repeats):
        if number % 2:
            theirs = await kubectl_logs(bench.world, await bench.turn(1), work)
        ours = await bench.portal(crowd)
        if not number % 2:
            theirs = await kubectl_logs(bench.world, await bench.turn(1), work)
        cost.add(ours.cpu_ms_per_mb, theirs.cpu_ms_per_mb)
        speed.add(ours.got.lines_per_s, theirs.lines_per_s)
    return [
        Result(
            "M3",
            "CPU per MB, portal with one viewer / kubectl logs -f",
            cost.ratio,
            at_most(1.0),
            sides=(
                f"{cost.words('ms/MB', 'kubectl')}; {speed.words('million lines/s', 'it', 1e-6)}"
            ),
            void=cost.void,
        )
    ]
