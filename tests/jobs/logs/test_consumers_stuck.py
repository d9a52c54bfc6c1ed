"""Viewers that do not read, or come and go, cost little and disturb nobody."""

import asyncio
import socket as socket_module

import pytest

from jobs.logs import viewer as viewer_module
from tenants import sockets
from tests.jobs.logs.fakes import until
from tests.jobs.logs.served import (
    World,
    a_job,
    close_code,
    cookie,
    frame,
    lines,
)

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_viewer_that_never_reads_costs_little_and_disturbs_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewer_module, "STUCK_S", 1.0)
    monkeypatch.setattr(sockets, "ABORT_S", 0.3)
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    path = f"/ws/jobs/{job.pk}/logs/?replica=worker-0"
    raw = socket_module.create_connection(("127.0.0.1", world.port))
    raw.setsockopt(socket_module.SOL_SOCKET, socket_module.SO_RCVBUF, 4096)
    reader, writer = await asyncio.open_connection(sock=raw, limit=1024)
    request = (
        f"GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Origin: {world.origin}\r\nCookie: {await cookie(job.owner)}\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    writer.write(request.encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()
    async with world.open(path, job.owner) as healthy:
        log.lines(b"begin")
        assert await lines(healthy, 1) == ["begin"]
        counts = {"lines": 0, "skipped": 0}

        async def read_on() -> None:
            while True:
                found = await frame(healthy)
                counts["lines"] += len(found.get("lines", ()))
                counts["skipped"] += found.get("count", 0)

        reading = asyncio.create_task(read_on())
        total = 0
        async with asyncio.timeout(20):
            while sockets._open[job.owner.pk] == 2:  # until the stuck one is put out
                rows = (b"%07d" % (total + number) + b"x" * 993 for number in range(100))
                log.lines(*rows, at=total + 1)
                total += 100
                await asyncio.sleep(0.005)
            while sum(counts.values()) < total:
                await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert sum(counts.values()) == total
        log.lines(b"still here", at=10**9)
        assert (await lines(healthy, 1)) == ["still here"]
    writer.close()


async def test_a_stuck_viewer_that_reads_again_learns_why_it_was_closed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert viewer_module.STUCK_S == 60
    monkeypatch.setattr(viewer_module, "STUCK_S", 0.5)
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    path = f"/ws/jobs/{job.pk}/logs/?replica=worker-0"
    async with world.open(path, job.owner) as socket:
        log.lines(b"begin")
        assert await lines(socket, 1) == ["begin"]
        socket.transport.pause_reading()
        log.lines(*(b"x" * 1000 for _ in range(30_000)), at=1)
        await until(lambda: not sockets._open)
        socket.transport.resume_reading()
        assert await close_code(socket) == 1013


async def test_connections_that_come_and_go_leave_nothing(world: World) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(b"a")
    path = f"/ws/jobs/{job.pk}/logs/"
    text = await cookie(job.owner)
    for _ in range(3):
        async with world.open(path, Cookie=text) as socket:
            await frame(socket, "lines")
    await until(lambda: log.open_count == 0 and not sockets._open)
    before = len(asyncio.all_tasks())
    for _ in range(40):
        async with world.open(path, Cookie=text) as socket:
            await frame(socket)
    await until(lambda: log.open_count == 0 and not sockets._open)
    await until(lambda: len(asyncio.all_tasks()) <= before)
