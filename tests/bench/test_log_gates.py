"""The bench sees what it is there to see: relays that lose lines, or follow a pod twice."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import ServerConnection, serve

from deploy.testcluster.ports import free_port
from tests.bench import fakelogs, relay
from tests.bench.fakelogs import Work
from tests.bench.ledger import Ledger
from tests.bench.relay import Api
from tests.bench.results import Result
from tests.bench.runs import Crowd, run
from tests.bench.viewers import Target, Viewer, arrive, delivered
from tests.bench.world import Logs, Relay, fake_pod
from tests.tools.servers import answers

Bend = Callable[[bytes], list[bytes]]


@asynccontextmanager
async def api() -> AsyncIterator[Logs]:
    port = free_port()
    task = asyncio.create_task(fakelogs.serve(port))
    while not await asyncio.to_thread(answers, port):
        await asyncio.sleep(0.01)
    try:
        yield Logs(port, 0)
    finally:
        task.cancel()


@asynccontextmanager
async def bent_relay(logs: Logs, bend: Bend, upstreams: int = 1) -> AsyncIterator[Relay]:
    """A relay that does to each batch what `bend` says, with so many upstreams for each viewer."""

    async def show(socket: ServerConnection) -> None:
        assert socket.request is not None
        pod = socket.request.path.strip("/")
        more = [asyncio.create_task(drain(pod)) for _ in range(upstreams - 1)]
        sending = asyncio.create_task(send(socket, pod))
        try:
            await socket.wait_closed()
        finally:
            for task in (sending, *more):
                task.cancel()

    async def send(socket: ServerConnection, pod: str) -> None:
        async for data in relay.upstream(Api(logs.port), pod):
            for message in bend(data):
                await socket.send(message, text=True)

    async def drain(pod: str) -> None:
        async for _ in relay.upstream(Api(logs.port), pod):
            pass

    port = free_port()
    async with serve(show, "127.0.0.1", port, compression=None):
        yield Relay("bent", 1, port, fake_pod)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bench.runs.STILL_S", 1.0)


async def gates(bend: Bend, upstreams: int = 1, viewers: int = 1) -> dict[str, Result]:
    """M5 and M7 of a relay that is bent so."""
    ledger = Ledger()
    crowd = Crowd(pods=1, viewers=viewers, work=Work(500))
    async with api() as logs, bent_relay(logs, bend, upstreams) as side:
        ledger.enter(await run(logs, side, 0, crowd))
    return {result.row: result for result in ledger.results()}


def whole(data: bytes) -> list[bytes]:
    return [data]


def without(*numbers: bytes) -> Bend:
    """Drops the lines with these in them."""

    def drop(data: bytes) -> list[bytes]:
        lines = data.splitlines(keepends=True)
        return [b"".join(line for line in lines if not any(number in line for number in numbers))]

    return drop


def announced(rest: Callable[[list[bytes]], list[bytes]]) -> Bend:
    """Says in place of line 250 that one line is missing; `rest` is what comes of those from it on."""

    def drop(data: bytes) -> list[bytes]:
        lines = data.splitlines(keepends=True)
        at = next((n for n, line in enumerate(lines) if b"#000000250" in line), None)
        if at is None:
            return [data]
        marker = b'{"type":"skipped","replica":"worker-0","count":1}'
        parts = (b"".join(lines[:at]), marker, b"".join(rest(lines[at:])))
        return [part for part in parts if part]

    return drop


# What is done to 500 lines -> how many of them are lost; None: some, by how they came in batches.
BENDS: dict[str, tuple[Bend, int | None]] = {
    "nothing": (whole, 0),
    "a line is dropped": (without(b"#000000250"), 1),
    "the last lines are dropped": (without(b"#0000004", b"#0000005"), 101),  # 400 to 500
    "one is missing and announced": (announced(lambda lines: lines[1:]), 0),
    # A duplicate further on would hide the second one in a sum.
    "two are missing, one is announced": (announced(lambda lines: [*lines[2:], lines[-1]]), None),
    "lines come twice": (lambda data: [data, data] if b"#000000001" in data else [data], None),
}


@pytest.mark.parametrize("case", BENDS)
async def test_lines_that_are_lost_without_a_word_fail(case: str) -> None:
    bend, lost = BENDS[case]
    found = await gates(bend)
    assert found["M5"].fails_the_run == (lost != 0), found["M5"].sides
    assert lost is None or found["M5"].value == lost
    assert ("1 announced as skipped" in found["M5"].sides) == ("announced" in case)
    assert not found["M7"].fails_the_run, found["M7"].sides


async def test_two_upstreams_of_a_pod_fail() -> None:
    assert (await gates(whole, upstreams=2))["M7"].fails_the_run
    assert (await gates(whole, viewers=2))["M7"].fails_the_run


async def test_an_upstream_that_stays_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bench.runs.LEAVE_S", 0.2)
    async with api() as logs:
        reader, writer = await asyncio.open_connection("127.0.0.1", logs.port)
        writer.write(b"GET /api/v1/namespaces/x/pods/p/log?follow=true HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        ledger = Ledger()
        async with bent_relay(logs, whole) as side:
            ledger.enter(await run(logs, side, 0, Crowd(pods=1, viewers=1, work=Work(10))))
        writer.close()
    assert ledger.results()[1].fails_the_run


async def test_refused_viewers_are_not_taken_for_quiet_ones() -> None:
    async with api() as logs:
        with pytest.raises(AssertionError, match=r"HTTP/1\.1 200"):
            await arrive([Target(logs.port, "/not-a-websocket")])


def test_nothing_delivered_is_everything_lost() -> None:
    viewer = Viewer(Target(0, "/"))
    viewer.expected = 10
    assert delivered([viewer]).silently_lost == 10
