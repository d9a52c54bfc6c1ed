"""Rows about logs against an API server of our own: M1 to M8 of performance.md."""

from dataclasses import dataclass

from tests.bench.fakelogs import Work
from tests.bench.ledger import Ledger
from tests.bench.results import Result, Sides, at_least, at_most
from tests.bench.runs import Crowd, Run, run
from tests.bench.world import Relay, World

VIEWERS, PODS = 200, 20
FLOOD = Work(15_000)
PACED = Work(250, per_s=50.0)  # 10,000 deliveries each second


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

    async def portal(self, crowd: Crowd) -> Run:
        made = await run(self.world.api, self.world.portal, self.turns.next(), crowd)
        return self.ledger.enter(made)

    async def relay(self, side: Relay, crowd: Crowd) -> Run:
        return await run(self.world.api, side, self.turns.next(), crowd)

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
    """M1 and M2: 200 viewers of 20 pods, as fast as it goes."""
    speed, cost = Sides(), Sides()
    skipped = delivered = 0
    for ours, theirs in await bench.in_turn(bench.world.batch, Crowd(PODS, VIEWERS, FLOOD)):
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
        Result(
            "M2",
            "CPU per delivered MB, portal / raw relay",
            cost.ratio,
            at_most(1.5),
            sides=cost.words("ms/MB", "raw"),
            void=cost.void,
        ),
    ]


async def paced(bench: Bench) -> list[Result]:
    """M4: 10,000 deliveries each second."""
    late, cost = Sides(), Sides()
    for ours, theirs in await bench.in_turn(bench.world.line, Crowd(PODS, VIEWERS, PACED)):
        late.add(ours.got.oldest_p99_ms(), theirs.got.oldest_p99_ms())
        cost.add(ours.cpu_s, theirs.cpu_s)
    return [
        Result(
            "M4",
            "emit to receive p99, portal / raw relay by line",
            late.ratio,
            at_most(2),
            sides=late.words("ms", "raw"),
            void=late.void,
        ),
        Result(
            "M4",
            "CPU at that, portal / raw relay by line",
            cost.ratio,
            at_most(0.65),
            sides=cost.words("s", "raw"),
            void=cost.void,
        ),
    ]
