"""One run of viewers against one side: what came, what it cost, how many upstreams it took."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.bench.fakelogs import Stats, Work
from tests.bench.processes import cpu_s
from tests.bench.viewers import Delivered, Viewer, arrive, delivered
from tests.bench.world import FakeLogs, Portal, Relay

SETTLE_S = 1.5  # a tail takes a log that gives nothing for a second for an empty one
LEAVE_S = 10.0  # after the last viewer no upstream may be left
_POLL_S = 0.05


@dataclass(frozen=True)
class Crowd:
    """How many watch how much."""

    pods: int
    viewers: int
    work: Work

    @property
    def longest_s(self) -> float:
        paced = self.work.lines / self.work.per_s if self.work.per_s else 0.0
        return 60.0 + 2 * paced


@dataclass(frozen=True)
class Run:
    """What became of a crowd.

    Attributes:
        cpu_s: of the side's process, from the first line to the last.
        upstreams: log streams that were opened, and how many at once at most.
        left_s: until no upstream was left after the last viewer; None: one was left.
    """

    got: Delivered
    cpu_s: float
    upstreams: int
    pods: int
    left_s: float | None
    stalled: Delivered | None = None
    stalled_growth_bytes: int = 0

    @property
    def cpu_ms_per_mb(self) -> float:
        return self.cpu_s * 1000 / self.got.mb if self.got.mb else float("inf")

    @property
    def silently_lost(self) -> int:
        lost = self.got.silently_lost
        return lost + (self.stalled.silently_lost if self.stalled is not None else 0)

    @property
    def wrong(self) -> tuple[str, ...]:
        return self.got.wrong + (self.stalled.wrong if self.stalled is not None else ())

    @property
    def upstream_error(self) -> str:
        """Why this run breaks the rule of one upstream for each pod; empty when it does not."""
        if self.upstreams != self.pods:
            return f"{self.upstreams} upstreams for {self.pods} pods"
        if self.left_s is None:
            return f"an upstream was left {LEAVE_S:.0f} s after the last viewer"
        return ""


async def stats(api: FakeLogs, what: str = "stats") -> Stats:
    return Stats(**await asyncio.to_thread(api.control, what))


async def settled(api: FakeLogs, pods: int) -> None:
    """All upstreams are there, and nothing is expected of them any more."""
    async with asyncio.timeout(30):
        while (await stats(api)).open < pods:
            await asyncio.sleep(_POLL_S)
    await asyncio.sleep(SETTLE_S)


async def all_done(viewers: Sequence[Viewer], longest_s: float) -> None:
    """Until every viewer has its account full; who has not in time is found by the account."""
    try:
        async with asyncio.timeout(longest_s):
            for viewer in viewers:
                await viewer.done.wait()
    except TimeoutError:
        pass


async def none_left(api: FakeLogs) -> float | None:
    """Seconds until no upstream is open; None when one still is after `LEAVE_S`."""
    began = time.monotonic()
    while (await stats(api)).open:
        if time.monotonic() - began > LEAVE_S:
            return None
        await asyncio.sleep(_POLL_S)
    return time.monotonic() - began


def open_of(work: Work) -> str:
    return f"open?lines={work.lines}&per_s={work.per_s}"


async def run(api: FakeLogs, side: Portal | Relay, turn: int, crowd: Crowd) -> Run:
    """The crowd comes, everything is written, the crowd leaves."""
    before = await stats(api)
    viewers = await arrive(side.targets(turn, crowd.pods, crowd.viewers), crowd.work.lines)
    await settled(api, crowd.pods)
    began_cpu_s = cpu_s(side.pid)
    await stats(api, open_of(crowd.work))
    await all_done(viewers, crowd.longest_s)
    used_s = cpu_s(side.pid) - began_cpu_s
    after = await stats(api)
    for viewer in viewers:
        viewer.leave()
    left_s = await none_left(api)
    await stats(api, "close")
    return Run(
        got=delivered(viewers, crowd.work.lines),
        cpu_s=used_s,
        upstreams=after.follows - before.follows,
        pods=crowd.pods,
        left_s=left_s,
    )
