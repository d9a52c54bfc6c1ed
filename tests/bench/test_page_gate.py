"""A page that asks the cluster fails M11."""

import asyncio
import os
from pathlib import Path

import aiohttp
from aiohttp import web

from deploy.testcluster.ports import free_port
from tests.bench.fakecluster import FakeCluster
from tests.bench.page_rows import Cluster, calls_gate, calls_of_views
from tests.bench.requests_side import Page


async def calls_of(asks: bool) -> list[str]:
    cluster = FakeCluster(pods=0)
    await cluster.start(free_port())
    headers = {"Authorization": "Bearer of-the-web"}

    async def page(request: web.Request) -> web.Response:
        if asks:
            async with aiohttp.ClientSession() as session:
                await session.get(f"{cluster.url}/api/v1/namespaces", headers=headers)
        return web.Response(text="a page")

    app = web.Application()
    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        told = Cluster(cluster.port, os.getpid())
        return await calls_of_views(told, "of-the-web", [Page(os.getpid(), port, "/")])
    finally:
        await runner.cleanup()
        await cluster.stop()


async def test_a_page_that_asks_the_cluster_fails() -> None:
    calls = await calls_of(asks=True)
    assert set(calls) == {"GET /api/v1/namespaces"}
    assert calls_gate(calls, pages=1).fails_the_run


async def test_a_page_that_does_not_passes() -> None:
    assert not calls_gate(await calls_of(asks=False), pages=1).fails_the_run


async def test_calls_of_others_are_not_a_pages(tmp_path: Path) -> None:
    cluster = FakeCluster(pods=0)
    await cluster.start(free_port())
    try:
        async with aiohttp.ClientSession() as session:
            await session.get(f"{cluster.url}/version", headers={"Authorization": "Bearer other"})
        told = Cluster(cluster.port, os.getpid())
        assert await asyncio.to_thread(told.calls, "of-the-web") == []
        assert await asyncio.to_thread(told.calls, "other") == ["GET /version"]
    finally:
        await cluster.stop()
