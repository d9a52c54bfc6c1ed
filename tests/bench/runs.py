"""One run of viewers against one side: what came, what it cost, how many upstreams it took."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from tests.bench.fakelogs import Stats, Work
from tests.bench.processes import cpu_s, rss_bytes, slowness
from tests.bench.viewers import Delivered, Viewer, arrive, delivered
from tests.bench.world import Logs, Side

LEAVE_S = 10.0  # after the last viewer no upstream may be left
STILL_S = 8.0
_SMALL = 32 * 1024  # what a system keeps for somebody who does not read, instead of megabytes
_POLL_S = 0.01


@dataclass(frozen=True)
class Crowd:
    """How many watch how much."""

    pods: int
    viewers: int
    work: Work

    def lines_of(self, viewer: int) -> int:
        """How many lines are written for the viewer of this number."""
        return self.work.of(f"pod-{viewer % self.pods}").lines


@dataclass(frozen=True)
class Run:
    """What became of a crowd.

    Attributes:
        cpu_s: of the side's process, from the first line to the last.
        upstreams: log streams that were opened, and how many at once at most.
        left_s: until no upstream was left after the last viewer; None: one was left.
        stalled: what the one got who did not read; None: all read.
        grown_bytes: by which the side's resident memory grew meanwhile.
    """

    got: Delivered
    cpu_s: float
    upstreams: int
    pods: int
    left_s: float | None
    stalled: Delivered | None = None
    grown_bytes: int = 0

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


async def stats(api: Logs, what: str = "stats") -> Stats:
    return Stats(**await asyncio.to_thread(api.control, what))


def open_at(api: Logs) -> Callable[[], Awaitable[int]]:
    """How many upstreams are open there, whenever it is asked."""

    async def count() -> int:
        return (await stats(api)).open

    return count


async def settled(api: Logs, pods: int, viewers: Sequence[Viewer] = ()) -> None:
    """All upstreams are there, and these viewers have been shown the line that was there before."""
    async with asyncio.timeout(60):
        while (await stats(api)).open < pods or not all(v.account.is_ready for v in viewers):
            await asyncio.sleep(_POLL_S)


async def all_done(viewers: Sequence[Viewer]) -> None:
    """Until every viewer has its account full, or nothing has come to any for `STILL_S`.

    A busy machine makes everything late, and late is not lost.
    """
    seen, moved_at = -1, time.monotonic()
    while not all(viewer.done.is_set() for viewer in viewers):
        came = sum(viewer.account.lines + viewer.account.skipped for viewer in viewers)
        if came != seen:
            seen, moved_at = came, time.monotonic()
        elif time.monotonic() - moved_at > STILL_S:
            return
        await asyncio.sleep(_POLL_S)


async def none_left(upstreams: Callable[[], Awaitable[int]]) -> float | None:
    """Seconds until no upstream is open; None when one still is after `LEAVE_S`.

    A machine that is shared with others gets as much longer as it is slower.
    """
    began, longest_s = time.monotonic(), LEAVE_S
    while await upstreams():
        if time.monotonic() - began > longest_s:
            longest_s = LEAVE_S * await asyncio.to_thread(slowness)
            if time.monotonic() - began > longest_s:
                return None
        await asyncio.sleep(_POLL_S)
    return time.monotonic() - began


def open_of(work: Work) -> str:
    return f"open?lines={work.lines}&per_s={work.per_s}&loud={work.loud}"


async def run(api: Logs, side: Side, turn: int, crowd: Crowd, *, with_stalled: bool = False) -> Run:
    """The crowd comes, everything is written, the crowd leaves.

    Args:
        with_stalled: the first viewer, who watches the loud pod, reads nothing until all others have
            everything, and then the rest.
    """
    before = await stats(api)
    targets = side.targets(turn, crowd.pods, crowd.viewers)
    if with_stalled:
        targets[0] = replace(targets[0], buffer_bytes=_SMALL)
    viewers = await arrive(targets)
    for number, viewer in enumerate(viewers):
        viewer.expected = crowd.lines_of(number)
    await settled(api, crowd.pods, viewers if side.shows_the_past else ())
    stalled, healthy = (viewers[:1], viewers[1:]) if with_stalled else ([], viewers)
    for viewer in stalled:
        viewer.stall()
    began_bytes, began_cpu_s = rss_bytes(side.pid), cpu_s(side.pid)
    await stats(api, open_of(crowd.work))
    await all_done(healthy)
    used_s = cpu_s(side.pid) - began_cpu_s
    grown_bytes = rss_bytes(side.pid) - began_bytes
    for viewer in stalled:
        viewer.go_on()
    await all_done(stalled)
    after = await stats(api)
    for viewer in viewers:
        viewer.leave()
    left_s = await none_left(open_at(api))
    await stats(api, "close")
    return Run(
        got=delivered(healthy),
        cpu_s=used_s,
        upstreams=after.follows - before.follows,
        pods=crowd.pods,
        left_s=left_s,
        stalled=delivered(stalled) if stalled else None,
        grown_bytes=grown_bytes,
    )
