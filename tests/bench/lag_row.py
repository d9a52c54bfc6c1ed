"""Row M14 of performance.md: how late a portal's event loop is while it has most to do at once.

A websocket is pinged all the time, which uvicorn answers without a thread. Meanwhile a person submits a
training of 100 replicas, which is admitted, rendered and created, and the cluster forgets its history, so
that the cache reads all 10,000 pods anew.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from tests.bench.page_rows import Pages
from tests.bench.results import Result, Sides, at_most
from tests.bench.submit_row import PS, WORKERS
from tests.bench.viewers import Target, Viewer, arrive, percentile

IDLE_S = 5.0
PING_EVERY_S = 0.005
_LOOK_S, _LONGEST_S = 0.1, 120.0
BODY = {
    "name": "wide and deep",
    "topology": "tf-ps",
    "image": "tensorflow/tensorflow:2.21.0",
    "command": ["python", "train.py"],
    "cluster_flags": True,
    "replicas": {
        "worker": {"count": WORKERS, "cpu": "1", "memory": "1Gi"},
        "ps": {"count": PS, "cpu": "1", "memory": "1Gi"},
    },
}


async def lags_ms(viewer: Viewer, work: Callable[[], Awaitable[object]]) -> list[float]:
    """How long each ping took while this was done.

    Who waits for an answer sends no pings: those that were due in the meantime count as late, too.
    """
    found: list[float] = []
    doing = asyncio.ensure_future(work())
    async with asyncio.timeout(2 * _LONGEST_S):
        while not doing.done():
            took_s = await viewer.ping_s()
            while took_s > 0:
                found.append(took_s * 1000)
                took_s -= PING_EVERY_S
            await asyncio.sleep(PING_EVERY_S)
    await doing
    return found


async def busy(world: Pages) -> None:
    """Submits and has the pods listed anew; until every object was created and every pod was read."""
    before = await asyncio.to_thread(world.cluster.counts)
    await asyncio.gather(
        asyncio.to_thread(world.cluster.control, "forget"), asyncio.to_thread(world.submit, **BODY)
    )
    began = time.monotonic()
    while not _is_done(before, await asyncio.to_thread(world.cluster.counts)):
        assert time.monotonic() - began < _LONGEST_S, (
            "it was not submitted, or nothing was read anew"
        )
        await asyncio.sleep(_LOOK_S)


def _is_done(before: dict[str, int], now: dict[str, int]) -> bool:
    def more(what: str) -> int:
        return now.get(what, 0) - before.get(what, 0)

    return more("POST deployments") >= PS and more("POST jobs") >= 1 and more("all pods") >= 1


async def lag(world: Pages, repeats: int) -> list[Result]:
    """M14."""
    headers = (f"Origin: http://localhost:{world.page.port}", f"Cookie: {world.page.cookie}")
    [viewer] = await arrive([Target(world.page.port, "/ws/live/", headers)])
    late = Sides()
    for _ in range(repeats):
        idle = await lags_ms(viewer, lambda: asyncio.sleep(IDLE_S))
        found = await lags_ms(viewer, lambda: busy(world))
        late.add(percentile(found, 0.99), percentile(idle, 0.99))
    viewer.leave()
    what = "event-loop lag p99 while 100 replicas are submitted and 10,000 pods listed anew"
    return [
        late.result("M14", f"{what}, / idle", at_most(3), "ms", "idle"),
        Result("M14", what, sorted(late.ours)[len(late.ours) // 2], at_most(20), "ms"),
    ]
