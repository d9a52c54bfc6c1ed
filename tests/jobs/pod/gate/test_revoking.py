"""Access that ends while somebody is inside: withdrawn, over, or unknown for too long.

The intervals of the real program are shortened; tests/e2e takes them as they are.
"""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from jobs.pod.gatekeeper import access_list
from tests.jobs.pod.gate.world import ALICE, BOB, World, in_world, ticket, until

QUICK = "s.POLL_S = 0.3; s.RETRY_S = 0.1; s.TICK_S = 0.05"
CLOSED_SOON = f"{QUICK}; s.FAIL_CLOSED_S = 4"


async def silent(request: web.Request) -> web.StreamResponse:
    """A websocket, or an answer that never ends."""
    if request.headers.get("Upgrade"):
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        async for _ in ws:
            pass
        return ws
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x")
        await asyncio.sleep(0.02)


async def closed(ws: aiohttp.ClientWebSocketResponse, timeout_s: float = 20) -> int:
    """The code that it is closed with."""
    message = await asyncio.wait_for(ws.receive(), timeout_s)
    assert message.type == aiohttp.WSMsgType.CLOSE, message
    return int(message.data)


async def status(w: World, cookie: str) -> int:
    return (await w.call("__nothing", cookie=cookie, method="HEAD")).status


@in_world(quick=QUICK)
async def test_all_that_is_open_for_the_revoked_ends_and_nothing_of_others(w: World) -> None:
    alice, bob = await w.cookie(), await w.cookie(sub=BOB)
    w.app = silent
    sockets = [await w.websocket(alice) for _ in range(3)]
    other = await w.websocket(bob)
    download = asyncio.create_task(w.call("endless", cookie=alice))
    await until("the download runs", lambda: len(w.seen) == 5)
    w.portal.allowed.discard(ALICE)
    assert [await closed(ws) for ws in sockets] == [1008] * 3
    with pytest.raises(aiohttp.ClientError):
        await download
    w.app = None
    assert await status(w, alice) == 401
    assert await status(w, bob) == 200
    assert not other.closed
    await other.close()


@in_world(quick=QUICK)
async def test_who_may_come_back_needs_a_new_ticket(w: World) -> None:
    old = await w.cookie()
    w.portal.allowed.discard(ALICE)
    await until("out", lambda: _is(w, old, 401))
    w.portal.allowed.add(ALICE)
    asked = len(w.portal.asked)
    await until("asked again", lambda: len(w.portal.asked) > asked + 1)
    assert await status(w, old) == 401
    assert await status(w, await w.cookie()) == 200


async def _is(w: World, cookie: str, wanted: int) -> bool:
    return await status(w, cookie) == wanted


async def test_a_ticket_of_somebody_who_may_not_any_more_is_refused(w: World) -> None:
    w.portal.allowed.clear()
    answer = await w.login()
    assert (answer.status, answer.code) == (401, "access_withdrawn")
    assert not answer.cookies


@pytest.mark.parametrize("gone", [404, 410, "start"])
@in_world(quick=QUICK)
async def test_when_the_service_is_gone_everything_closes(w: World, gone: Any) -> None:
    alice, bob = await w.cookie(), await w.cookie(sub=BOB)
    w.app = silent
    sockets = [await w.websocket(alice), await w.websocket(bob)]
    if gone == "start":
        w.portal.start = 2
    else:
        w.portal.status = gone
    assert [await closed(ws) for ws in sockets] == [1008] * 2
    w.app = None
    assert [await status(w, cookie) for cookie in (alice, bob)] == [410, 410]
    answer = await w.login()
    assert (answer.status, answer.code) == (410, "gone")


@in_world(quick=QUICK)
async def test_a_proxy_that_knows_no_portal_does_not_throw_everybody_out(
    w: World, cookie: str
) -> None:
    w.app = silent
    ws = await w.websocket(cookie)
    for code, body in ((404, "<html>no such host</html>"), (502, "bad"), (200, "{}"), (200, "[")):
        w.portal.status, w.portal.body = code, body
        asked = len(w.portal.asked)
        await until("asked twice", lambda asked=asked: len(w.portal.asked) > asked + 2)
    w.app = None
    assert await status(w, cookie) == 200
    assert not ws.closed
    await ws.close()


@in_world(quick=CLOSED_SOON)
async def test_without_an_answer_of_the_portal_everything_closes_and_opens_again_by_itself(
    w: World, cookie: str
) -> None:
    w.app = silent
    ws = await w.websocket(cookie)
    w.portal.status, w.portal.body = 503, "down"
    assert await closed(ws) == 1013  # try again later
    w.app = None
    page = await w.call("lab", cookie=cookie, headers={"Accept": "text/html"})
    assert page.status == 503
    assert "Homeport does not respond" in page.text
    assert int(page.headers["Refresh"]) >= 10
    assert (await w.login()).status == 503
    w.portal.status, w.portal.body = 200, None
    await until("open again", lambda: _is(w, cookie, 200))


@in_world(quick=QUICK)
async def test_a_short_outage_of_the_portal_is_not_noticed_inside(w: World, cookie: str) -> None:
    assert access_list.FAIL_CLOSED_S == 300
    w.portal.status, w.portal.body = 503, "down"
    asked = len(w.portal.asked)
    await until("it failed five times", lambda: len(w.portal.asked) > asked + 5)
    assert await status(w, cookie) == 200


@in_world(quick=QUICK)
async def test_with_the_portal_away_nobody_new_comes_in(w: World, cookie: str) -> None:
    w.portal.status, w.portal.body = 503, "down"
    assert (await w.login(ticket(sub=BOB))).status == 503
    # And whoever is unknown after a restart is not taken at the cookie's word.
    w.gate.kill()
    await w.gate.start()
    answers = await asyncio.gather(*(w.call("x", cookie=cookie) for _ in range(30)))
    assert {answer.status for answer in answers} == {503}
    assert w.seen == []
    w.portal.status, w.portal.body = 200, None
    await until("in again", lambda: _is(w, cookie, 200))


# Twelve hours, shortened where the gate reads them.
@in_world(quick=f"{QUICK}; from jobs.pod.protocol import tickets; tickets.COOKIE_S = 4")
async def test_at_the_end_of_the_cookie_open_websockets_close(w: World, cookie: str) -> None:
    w.app = silent
    ws = await w.websocket(cookie)
    assert await closed(ws) == 1008
    w.app = None
    assert (await w.call("lab", cookie=cookie)).code == "not_let_in"
    assert await status(w, await w.cookie()) == 200


@in_world(quick=f"{QUICK}; s.FORGET_S = 0.5")
async def test_who_has_not_been_here_for_long_is_not_asked_about(w: World) -> None:
    alice, bob = await w.cookie(), await w.cookie(sub=BOB)
    w.app = silent
    ws = await w.websocket(alice)
    await until("only one is asked about", lambda: w.portal.asked[-1] == [ALICE])
    w.app = None
    before = len(w.portal.asked)
    assert await status(w, bob) == 200
    assert {ALICE, BOB} in map(set, w.portal.asked[before:])
    assert not ws.closed
    await ws.close()


@in_world(quick="gate.IDLE_S = 0.2; gate.UNREAD_S = 0.1")
async def test_an_idle_websocket_outlives_the_time_outs_of_connections(
    w: World, cookie: str
) -> None:
    talked = asyncio.Event()

    @w.behind
    async def app(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        await talked.wait()
        await ws.send_str("still here")
        await ws.receive()
        return ws

    ws = await w.websocket(cookie)
    # An idle connection without a request is closed meanwhile, many times over.
    for _ in range(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", w.gate.port)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
    talked.set()
    assert await ws.receive_str() == "still here"
    await ws.close()


@in_world(quick=f"{QUICK}; s.AccessList._sweep = None")
async def test_a_gate_whose_watch_ended_ends_itself_rather_than_trust_for_ever(w: World) -> None:
    process = w.gate.process
    assert process is not None
    assert await asyncio.to_thread(process.wait, 20) == 1
    assert "the watch ended" in w.gate.said()
    w.gate.process = None
