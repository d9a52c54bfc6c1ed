"""The gate in a real browser: the ticket page, its words, and pages of another port of the same host."""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.jobs.pod.gate.world import COOKIE, PREFIX, World, free_port, serving, ticket, world

pytestmark = pytest.mark.e2e

# Another notebook on the same host would try these, with the cookie of its victim.
EVIL = """<!DOCTYPE html><title>evil</title><script>
const target = TARGET, seen = {};
const tried = [
  fetch(target + "x", {credentials: "include"}).then(() => "read", () => "no").then(r => seen.fetch = r),
  fetch(target + "x", {credentials: "include", method: "POST", mode: "no-cors"}).then(() => 0, () => 0),
  new Promise(done => {
    const image = new Image();
    image.onload = () => done(seen.image = "loaded");
    image.onerror = () => done(seen.image = "no");
    image.src = target + "image.svg";
  }),
  new Promise(done => {
    const ws = new WebSocket(target.replace("http", "ws") + "ws");
    ws.onopen = () => done(seen.ws = "open");
    ws.onclose = () => done(seen.ws = "no");
  }),
  new Promise(done => {
    const frame = document.createElement("iframe");
    frame.onload = () => done();
    frame.src = target + "framed";
    document.documentElement.append(frame);
  }),
];
Promise.all(tried).then(() => { document.title = JSON.stringify(seen); });
</script>"""


class Behind:
    """A gate with its world on a loop of its own, for tests that cannot await."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._over = asyncio.Event()
        self.evil_port = free_port()
        ready: Future[World] = Future()
        self._task = asyncio.run_coroutine_threadsafe(self._run(ready), self._loop)
        self.world = ready.result(30)

    async def _run(self, ready: "Future[World]") -> None:
        async with world() as made:
            made.app = self._app

            async def evil(_: web.Request) -> web.Response:
                text = EVIL.replace("TARGET", repr(made.url + PREFIX))
                return web.Response(text=text, content_type="text/html")

            async with serving(evil, self.evil_port):
                ready.set_result(made)
                await self._over.wait()

    async def _app(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Upgrade"):
            ws = web.WebSocketResponse()
            await ws.prepare(request)
            await ws.close()
            return ws
        if request.path.endswith("svg"):
            svg = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
            return web.Response(text=svg, content_type="image/svg+xml")
        return web.Response(
            text='<!DOCTYPE html><title>lab</title><link rel="icon" href="data:,">'
            f"<h1>The app</h1><p>{request.path}</p>",
            content_type="text/html",
        )

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._task.result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def behind() -> Iterator[Behind]:
    made = Behind()
    yield made
    made.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 400, "height": 700})
    yield made
    made.close()


def link(behind: Behind, text: str) -> str:
    return f"{behind.world.url}{PREFIX}__gate#t={text}"


def shot(page: Page, name: str) -> None:
    """Kept where somebody wants to look at it."""
    folder = os.environ.get("GATE_SHOTS")
    if folder:
        page.screenshot(path=str(Path(folder) / f"{name}.png"))


def test_the_link_leads_to_the_app_and_the_ticket_is_nowhere(
    behind: Behind, context: BrowserContext
) -> None:
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    text = ticket()
    page.goto(link(behind, text))
    expect(page.get_by_role("heading", name="The app")).to_be_visible()
    assert page.url == behind.world.url + PREFIX
    assert problems == []
    # Neither the address bar nor the page's scripts have anything of what let it in.
    assert page.evaluate("document.cookie") == ""
    [cookie] = [c for c in context.cookies() if c["name"] == COOKIE]
    assert (cookie["httpOnly"], cookie["path"], cookie["sameSite"]) == (True, PREFIX, "Lax")
    page.go_back()
    assert text not in page.url
    assert not any(text in str(seen.raw_path) for seen in behind.world.seen)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_link_that_does_not_work_says_what_to_do(
    behind: Behind, browser: Browser, scheme: Any
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": 400, "height": 700})
    page = context.new_page()
    page.goto(link(behind, ticket("x" * 64)))
    expect(page.get_by_role("heading")).to_have_text("This link does not work")
    expect(page.get_by_role("status")).to_contain_text("Open the notebook again from Homeport.")
    assert "#" not in page.url
    shot(page, f"bad-{scheme}")
    # Without a ticket and without a cookie: what somebody sees who kept the address.
    page.goto(f"{behind.world.url}{PREFIX}lab")
    expect(page.get_by_role("heading")).to_have_text("Open this notebook from Homeport")
    shot(page, f"closed-{scheme}")
    page.goto(f"{behind.world.url}{PREFIX}__gate")
    expect(page.get_by_role("heading")).to_have_text("Open this notebook from Homeport")
    page.goto(f"{behind.world.url}/elsewhere")
    expect(page.get_by_role("heading")).to_have_text("Not found")
    context.close()


def test_without_javascript_there_is_a_sentence(behind: Behind, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(link(behind, ticket()))
    expect(page.get_by_text("This page needs JavaScript")).to_be_visible()
    shot(page, "no-script")
    context.close()


def test_a_page_of_another_port_gets_nothing_with_the_victims_cookie(
    behind: Behind, context: BrowserContext
) -> None:
    page = context.new_page()
    page.goto(link(behind, ticket()))
    expect(page.get_by_role("heading", name="The app")).to_be_visible()
    behind.world.seen.clear()
    page.goto(f"http://127.0.0.1:{behind.evil_port}/")
    page.wait_for_function("document.title.startsWith('{')")
    assert json.loads(page.title()) == {"fetch": "no", "image": "no", "ws": "no"}
    assert [seen.path for seen in behind.world.seen] == []
    # A link on that page may be followed, as any link.
    page.evaluate(f"location.href = {behind.world.url + PREFIX + 'lab'!r}")
    expect(page.get_by_role("heading", name="The app")).to_be_visible()


def test_an_app_that_is_not_there_yet_is_shown_when_it_is(
    behind: Behind, context: BrowserContext
) -> None:
    page = context.new_page()
    page.goto(link(behind, ticket()))
    expect(page.get_by_role("heading", name="The app")).to_be_visible()
    real = behind.world.app

    async def broken(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    behind.world.app = broken
    page.goto(f"{behind.world.url}{PREFIX}lab")
    expect(page.get_by_role("heading")).to_have_text("The notebook stopped responding")
    shot(page, "broke-off")
    behind.world.app = real
    # It loads itself again after three seconds.
    expect(page.get_by_role("heading", name="The app")).to_be_visible(timeout=15_000)
