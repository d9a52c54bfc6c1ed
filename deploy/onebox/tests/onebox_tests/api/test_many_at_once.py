"""A gang of pods that is posted at once: each is taken, once."""

from __future__ import annotations

import asyncio

import aiohttp

from .conftest import Process, pod

PODS = 50


async def test_a_gang_of_pods_is_posted_at_once(process: Process) -> None:
    address, token, context = process.credentials()
    headers = {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(ssl=context)
    path = f"{address}/api/v1/namespaces/default/pods"

    async def post(session: aiohttp.ClientSession, name: str) -> int:
        async with session.post(path, json=pod(name)) as reply:
            return reply.status

    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        names = [f"gang-{number}" for number in range(PODS)]
        statuses = await asyncio.gather(*(post(session, name) for name in names))
        async with session.get(path) as reply:
            found = [item["metadata"]["name"] for item in (await reply.json())["items"]]
    assert set(statuses) == {201}
    assert sorted(name for name in found if name.startswith("gang-")) == sorted(names)
