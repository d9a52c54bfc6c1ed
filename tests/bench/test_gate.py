"""Real pods write when the gate opens, and who reads them is counted at its port."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from deploy.testcluster.ports import free_port
from tests.bench import fakelogs, gate
from tests.bench.relay import Api, upstream
from tests.bench.world import Logs
from tests.tools.servers import answers


@pytest.fixture
async def ports() -> AsyncIterator[tuple[int, int]]:
    """The gate's own port, and the one behind which is an API server."""
    api, own, forward = free_port(), free_port(), free_port()
    tasks = [
        asyncio.create_task(fakelogs.serve(api)),
        asyncio.create_task(gate.main("127.0.0.1", own, forward, "127.0.0.1", api)),
    ]
    while not await asyncio.to_thread(answers, own):
        await asyncio.sleep(0.01)
    yield own, forward
    for task in tasks:
        task.cancel()


async def test_a_pod_waits_for_its_work(ports: tuple[int, int]) -> None:
    control = Logs(ports[0], 0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{ports[0]}") as pods:
        asking = [asyncio.create_task(pods.get(f"/share/{number}")) for number in range(2)]
        assert not (await asyncio.wait(asking, timeout=0.2))[0]
        await asyncio.to_thread(control.control, "open?lines=10&per_s=5&loud=3")
        works = [await (await answer).json() for answer in asking]
        assert [work["lines"] for work in works] == [30, 10]  # the first one is the loud one
        await asyncio.to_thread(control.control, "close")
        with pytest.raises(TimeoutError):
            await pods.get("/share/0", timeout=aiohttp.ClientTimeout(total=0.2))


async def test_each_reader_is_counted_until_it_leaves(ports: tuple[int, int]) -> None:
    control = Logs(ports[0], 0)
    readers = [upstream(Api(ports[1]), "x/pod-0-0") for _ in range(2)]
    for reader in readers:
        assert b"#000000000 " in await anext(reader)
    counted = await asyncio.to_thread(control.control, "stats")
    assert (counted["follows"], counted["open"]) == (2, 2)
    for reader in readers:
        await reader.aclose()
    async with asyncio.timeout(5):
        while (await asyncio.to_thread(control.control, "stats"))["open"]:
            await asyncio.sleep(0.01)
