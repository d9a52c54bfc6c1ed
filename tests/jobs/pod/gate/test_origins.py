"""Requests that a page of another origin makes a browser send, with the cookie of somebody inside."""

import aiohttp
import pytest
from aiohttp import web

from jobs.pod.gatekeeper.origin import is_allowed, is_own_origin
from tests.jobs.pod.gate.world import PREFIX, World, ticket


def foreign(host: str, port: int) -> list[str]:
    """Origins that resemble `http://host:port`, none of which is it."""
    return [
        "null",
        "",
        f"http://{host}",
        f"http://{host}:{port + 1}",
        f"https://{host}:{port}",
        f"http://{host}:{port}0",
        f"http://{host}:{port}.evil.example",
        f"http://x{host}:{port}",
        f"http://{host}:{port}/",
        f"HTTP://{host}:{port}",
        f"http://localhost:{port}",
        f"http://[::1]:{port}",
        f"http://{host}:{port}, http://{host}:{port}",
        f"{host}:{port}",
    ]


async def open_websocket(w: World, cookie: str, *origins: str) -> int:
    """The status of a handshake with these Origin headers."""
    headers = [("Cookie", cookie), *(("Origin", origin) for origin in origins)]
    try:
        async with w.session.ws_connect(w.url + PREFIX + "ws", headers=headers):
            return 101
    except aiohttp.WSServerHandshakeError as error:
        return error.status


async def test_a_websocket_opens_for_exactly_our_own_origin(w: World) -> None:
    @w.behind
    async def app(request: web.Request) -> web.StreamResponse:
        response = web.WebSocketResponse()
        await response.prepare(request)
        await response.close()
        return response

    cookie = await w.cookie()
    for origin in foreign("127.0.0.1", w.gate.port):
        assert await open_websocket(w, cookie, origin) == 403, origin
    assert await open_websocket(w, cookie) == 403
    assert await open_websocket(w, cookie, w.url, w.url) == 403
    assert await open_websocket(w, "", w.url) == 401
    assert w.seen == []
    assert await open_websocket(w, cookie, w.url) == 101


async def test_an_unsafe_method_passes_for_exactly_our_own_origin(w: World, cookie: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for origin in foreign("127.0.0.1", w.gate.port):
            headers = {"Origin": origin}
            answer = await w.call("x", method=method, cookie=cookie, headers=headers)
            assert answer.status == 403, (method, origin)
        bare = {"Host": f"127.0.0.1:{w.gate.port}", "Cookie": cookie}
        async with w.session.request(method, w.url + PREFIX + "x", headers=bare) as response:
            assert response.status == 403
        assert (await w.call("x", method=method, cookie=cookie)).status == 200
    assert len(w.seen) == 4


async def test_a_ticket_is_taken_from_exactly_our_own_page(w: World) -> None:
    good = ticket()
    for origin in foreign("127.0.0.1", w.gate.port):
        assert (await w.login(good, Origin=origin)).status == 403, origin
    assert (await w.login(good)).status == 200


OTHER_PORT = {"Sec-Fetch-Site": "same-site"}
READS = [
    ({}, 200),
    ({"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200),
    ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
    ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 200),
    # A link that is followed, from the portal or anywhere.
    ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
    # A page on another port that loads or frames ours: the cookie comes along.
    ({**OTHER_PORT, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, 403),
    ({**OTHER_PORT, "Sec-Fetch-Mode": "cors", "Origin": "http://127.0.0.1:9"}, 403),
    ({**OTHER_PORT, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
    ({**OTHER_PORT}, 403),
    ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
    ({"Origin": "http://127.0.0.1:9"}, 403),
    ({"Origin": "null"}, 403),
]  # fmt: skip


async def test_other_pages_may_link_to_the_app_but_not_load_or_frame_it(
    w: World, cookie: str
) -> None:
    for headers, status in READS:
        answer = await w.call("x", cookie=cookie, headers=headers)
        assert answer.status == status, headers
    assert len(w.seen) == sum(status == 200 for _, status in READS)


@pytest.mark.parametrize("host", ["node7", "node7:31000", "10.0.0.7:31000", "[::1]:31000"])
def test_the_origin_is_compared_with_what_the_browser_was_told_to_open(host: str) -> None:
    assert is_own_origin([f"http://{host}"], scheme="http", host=host)
    assert not is_own_origin([f"http://{host}"], scheme="https", host=host)
    assert not is_own_origin([f"http://{host}"], scheme="http", host="")
    assert not is_own_origin([], scheme="http", host=host)
    # What fetch metadata says can never stand in for the origin.
    claims = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "no-cors"}
    assert not is_allowed("POST", [], claims, scheme="http", host=host)
