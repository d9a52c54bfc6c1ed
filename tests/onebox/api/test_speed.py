"""The API is fast enough that nobody waits for it. Limits are far above what is measured."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import aiohttp

from deploy.onebox.api.registry import Api
from deploy.onebox.api.store import Store

from .conftest import Process, pod

CREATES = 1_000
CREATES_PER_S = 1_500
PARALLEL_PODS = 50
PARALLEL_S = 1.0


def test_small_objects_are_created_quickly_and_durably(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    api = Api(store)
    api.create("namespaces", None, {"metadata": {"name": "lab"}})
    best = 0.0
    for run in range(3):  # the best of three: the machine has other work too
        start = time.perf_counter()
        for i in range(CREATES):
            body = {"metadata": {"name": f"c{run}-{i}"}, "data": {"a": "b"}}
            api.create("configmaps", "lab", body)
        best = max(best, CREATES / (time.perf_counter() - start))
    store.close()
    assert best > CREATES_PER_S, f"only {best:.0f} creates a second"


async def test_a_gang_of_pods_is_posted_within_a_second(process: Process) -> None:
    address, token, context = process.credentials()
    headers = {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(ssl=context)

    async def post(session: aiohttp.ClientSession, name: str) -> int:
        path = f"{address}/api/v1/namespaces/default/pods"
        async with session.post(path, json=pod(name)) as reply:
            return reply.status

    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        start = time.perf_counter()
        names = [f"gang-{i}" for i in range(PARALLEL_PODS)]
        statuses = await asyncio.gather(*(post(session, name) for name in names))
        took_s = time.perf_counter() - start
    assert set(statuses) == {201}
    assert took_s < PARALLEL_S, f"took {took_s:.2f} s"
