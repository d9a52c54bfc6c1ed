"""What reaches the app and what comes back: headers, cookies, bodies, and words when nothing does."""

import asyncio
import gzip
import zlib
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.jobs.pod.gate.world import COOKIE, PREFIX, SECRETS, World, in_world, serving, until


async def test_the_app_gets_its_token_and_not_what_the_browser_claims(
    w: World, cookie: str
) -> None:
    given = {
        "Authorization": "token stolen",
        "X-Forwarded-For": "6.6.6.6",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-User": "root",
        "X-Real-Ip": "6.6.6.6",
        "Forwarded": "for=6.6.6.6",
        "Proxy-Authorization": "Basic eDp5",
        "Connection": "close, X-Secret-Hop",
        "X-Secret-Hop": "1",
        "TE": "trailers",
        "X-Kept": "kept",
        "X-XSRFToken": "2|abc",
    }
    assert (await w.call("api/x?a=%20%2f&b", cookie=cookie, headers=given)).status == 200
    [seen] = w.seen
    assert seen.raw_path == f"{PREFIX}api/x?a=%20%2f&b"
    assert seen.headers.getall("Authorization") == [f"token {SECRETS['app_token']}"]
    assert seen.headers.getall("X-Forwarded-For") == ["127.0.0.1"]
    assert seen.headers["X-Forwarded-Proto"] == "http"
    assert seen.headers["X-Forwarded-Host"] == f"127.0.0.1:{w.gate.port}"
    assert seen.headers["Host"] == f"127.0.0.1:{w.gate.port}"
    assert (seen.headers["X-Kept"], seen.headers["X-XSRFToken"]) == ("kept", "2|abc")
    gone = {"X-Forwarded-User", "X-Real-Ip", "Forwarded", "Proxy-Authorization", "TE"}
    assert not gone & set(seen.headers)
    assert "X-Secret-Hop" not in seen.headers


@in_world(GATE_KIND="tensorboard")
async def test_tensorboard_is_given_no_authorization_at_all(w: World, cookie: str) -> None:
    assert (await w.call("x", cookie=cookie, headers={"Authorization": "x"})).status == 200
    assert "Authorization" not in w.seen[0].headers
    assert "TensorBoard" in (await w.call("x")).text


async def test_only_cookies_of_the_app_itself_reach_it(w: World) -> None:
    own = await w.cookie()

    @w.behind
    async def app(_: web.Request) -> web.Response:
        response = web.Response(text="-")
        response.headers.add("Set-Cookie", "username-a=alice; Path=/s/0123abcd/; HttpOnly")
        response.headers.add("Set-Cookie", "homeport_session=mine; Path=/")
        return response

    foreign = (
        "homeport_session=SECRET; homeport_csrf=SECRET; __Host-homeport_session=SECRET; "
        "sessionid=SECRET; messages=SECRET; gate_99999999=SECRET; other-app=SECRET; _xsrf=2|x"
    )
    await w.call("a", cookie=f"{own}; username-a=early; {foreign}")
    assert w.seen[-1].headers["Cookie"] == "_xsrf=2|x"
    # From here on the app has set it.
    await w.call("b", cookie=f"{foreign}; username-a=alice; {own}")
    assert w.seen[-1].headers["Cookie"] == "_xsrf=2|x; username-a=alice"
    await w.call("c", cookie=own)
    assert "Cookie" not in w.seen[-1].headers
    assert not any("SECRET" in str(seen.headers) for seen in w.seen)


async def test_cookies_of_the_app_stay_below_its_path(w: World, cookie: str) -> None:
    lines = {
        "a=1; Path=/s/0123abcd/x; Secure": "a=1; Secure; Path=/s/0123abcd/x",
        "b=1": "b=1; Path=/s/0123abcd/",
        "c=1; Path=/; HttpOnly": "c=1; HttpOnly; Path=/s/0123abcd/",
        "d=1; path=/s/0123abcd": "d=1; Path=/s/0123abcd",
        "e=1; Path=/s/0123abcdef/": "e=1; Path=/s/0123abcd/",
        "f=1; Path=/; Domain=lab": None,
        "g=1; domain=.lab": None,
        f"{COOKIE}=forged; Path=/s/0123abcd/": None,
        "gate_99999999=forged; Path=/": None,
        "HOMEPORT_SESSION=forged; Path=/": None,
        "__Host-x=1; Secure; Path=/": None,
        "nonsense": None,
        "=x": None,
    }

    @w.behind
    async def app(_: web.Request) -> web.Response:
        response = web.Response(text="-")
        for line in lines:
            response.headers.add("Set-Cookie", line)
        return response

    answer = await w.call("a", cookie=cookie)
    passed = [line for line in lines.values() if line]
    assert answer.headers.getall("Set-Cookie") == passed


async def test_an_app_cannot_reach_beyond_its_own_path_by_headers(w: World, cookie: str) -> None:
    bad = {
        "Service-Worker-Allowed": "/",
        "Clear-Site-Data": '"*"',
        "Strict-Transport-Security": "max-age=9",
        "Alt-Svc": 'h2=":1"',
    }

    @w.behind
    async def app(_: web.Request) -> web.Response:
        kept = {"Content-Security-Policy": "default-src 'self'", "ETag": '"1"'}
        return web.Response(text="-", headers={**bad, **kept})

    answer = await w.call("a", cookie=cookie)
    assert not set(bad) & set(answer.headers)
    assert answer.headers["ETag"] == '"1"'
    assert answer.headers.getall("Content-Security-Policy") == [
        "default-src 'self'",
        "frame-ancestors 'self'",
    ]


async def test_methods_and_bodies_pass_as_they_are(w: World, cookie: str) -> None:
    @w.behind
    async def app(request: web.Request) -> web.Response:
        body = await request.read()
        headers = {"X-Length": request.headers.get("Content-Length", "-")}
        return web.Response(body=body[::-1], status=418, reason="Tea", headers=headers)

    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "REPORT"):
        for body in (b"", b"x", bytes(range(256)) * 1000):
            answer = await w.call("x", method=method, cookie=cookie, data=body or None)
            assert (answer.status, answer.reason) == (418, "Tea")
            assert answer.body == body[::-1]
            assert answer.headers["X-Length"] in {str(len(body)), "-" if not body else ""}
            assert w.seen[-1].method == method


async def test_compressed_bodies_stay_compressed_both_ways(w: World, cookie: str) -> None:
    packed = gzip.compress(b"hello" * 1000)

    @w.behind
    async def app(request: web.Request) -> web.Response:
        assert await request.read() == packed
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    headers = {"Content-Encoding": "gzip", "Accept-Encoding": "gzip"}
    answer = await w.call("x", method="POST", cookie=cookie, data=packed, headers=headers)
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.body == packed
    assert zlib.decompress(packed, 31)
    assert w.seen[0].headers["Accept-Encoding"] == "gzip"


async def test_answers_without_a_body_keep_their_headers(w: World, cookie: str) -> None:
    @w.behind
    async def app(request: web.Request) -> web.Response:
        status = int(request.path.rpartition("/")[2])
        if status == 200:
            return web.Response(text="0123456789")
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    answer = await w.call("200", method="HEAD", cookie=cookie)
    assert (answer.headers["Content-Length"], answer.body) == ("10", b"")
    for status in (204, 304, 302, 404, 500):
        answer = await w.call(str(status), cookie=cookie)
        assert answer.status == status
        assert answer.headers["Location"] == "/elsewhere"


async def test_an_answer_arrives_piece_by_piece(w: World, cookie: str) -> None:
    """Server-sent events and progress: nothing waits for the end."""
    go_on = asyncio.Event()

    @w.behind
    async def app(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"one")
        await go_on.wait()
        await response.write(b"two")
        return response

    async with w.session.get(w.url + PREFIX + "x", headers={"Cookie": cookie}) as answer:
        assert await answer.content.readany() == b"one"
        go_on.set()
        assert await answer.content.read() == b"two"


async def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one(
    w: World, cookie: str
) -> None:
    @w.behind
    async def app(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if request.path.endswith("sized"):
            response.content_length = 1000
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    for path in ("sized", "chunked"):
        with pytest.raises(aiohttp.ClientError):
            await w.call(path, cookie=cookie)


async def test_an_upload_that_breaks_off_is_not_taken_for_a_whole_one(
    w: World, cookie: str
) -> None:
    ended: list[Any] = []

    @w.behind
    async def app(request: web.Request) -> web.Response:
        try:
            ended.append(len(await request.read()))
        except BaseException as error:
            ended.append(type(error))
            raise
        return web.Response()

    for count, length in enumerate(("Content-Length: 99", "Transfer-Encoding: chunked"), 1):
        _, writer = await asyncio.open_connection("127.0.0.1", w.gate.port)
        head = [
            f"PUT {PREFIX}x HTTP/1.1",
            f"Host: 127.0.0.1:{w.gate.port}",
            f"Origin: {w.url}",
            f"Cookie: {cookie}",
            length,
        ]
        writer.write("\r\n".join([*head, "", "5\r\nhello\r\n"]).encode())
        await writer.drain()
        await until("the app has it", lambda count=count: len(w.seen) == count)
        writer.close()
        await until("it ended", lambda: ended)
        assert not isinstance(ended.pop(), int)


@in_world(app=False)
async def test_the_app_is_told_when_the_browser_has_gone(w: World, cookie: str) -> None:
    began, gone = asyncio.Event(), asyncio.Event()

    async def app(_: web.Request) -> web.Response:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            gone.set()
            raise
        return web.Response()

    async with serving(app, w.app_port, handler_cancellation=True):
        task = asyncio.create_task(w.call("poll", cookie=cookie))
        await asyncio.wait_for(began.wait(), 10)
        task.cancel()
        await asyncio.wait_for(gone.wait(), 10)


@in_world(app=False)
async def test_an_app_that_does_not_answer_yet_is_waited_for_in_words(
    w: World, cookie: str
) -> None:
    page = await w.call("lab", cookie=cookie, headers={"Accept": "text/html"})
    assert (page.status, page.headers["Refresh"]) == (503, "3")
    assert "does not respond yet" in page.text
    said = await w.call("api", cookie=cookie)
    assert said.status == 503
    assert said.code == "app_not_answering"
    assert "Refresh" not in said.headers
    async with serving(w.on_app, w.app_port):
        assert (await w.call("lab", cookie=cookie)).status == 200
    assert (await w.call("lab", cookie=cookie)).status == 503


NO_HTTP = (
    b"",
    b"SSH-2.0-OpenSSH\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nBad Header\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
)


@in_world(app=False)
async def test_an_app_that_speaks_no_http_is_a_page_in_words(w: World, cookie: str) -> None:
    for said in NO_HTTP:
        async with w.raw_app(said):
            page = await w.call("lab", cookie=cookie, headers={"Accept": "text/html"})
            assert (page.status, page.headers["Refresh"]) == (502, "3"), said[:60]
            assert "stopped responding" in page.text
            assert (await w.call("a", cookie=cookie)).json["message"]


@in_world(app=False)
async def test_bytes_that_are_no_text_pass_as_far_as_they_can(w: World, cookie: str) -> None:
    said = b"HTTP/1.1 200 \xff\r\nX-Name: caf\xe9\r\nContent-Length: 1\r\n\r\nx"
    async with w.raw_app(said):
        answer = await w.call("x", cookie=cookie)
        assert (answer.status, answer.text) == (200, "x")
        assert answer.headers["X-Name"] == "caf\ufffd"


async def test_curl_may_ask_before_it_sends(w: World, cookie: str) -> None:
    """`Expect: 100-continue`: the word to go on comes when the app is there, not before."""

    @w.behind
    async def app(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    answer = await w.call("x", method="POST", cookie=cookie, data=b"x" * 100_000, expect100=True)
    assert answer.text == "100000"
    answer = await w.call("x", method="POST", data=b"x" * 100_000, expect100=True)
    assert answer.status == 401
