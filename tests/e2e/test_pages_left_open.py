"""Pages that stay open for long, in a real browser: what they missed, how they come back, where the keyboard is. There
is no cluster: rows are seeded (tests/e2e/seed.py) and these tests are the other end of the websockets.
"""

import contextlib
import re
from typing import Any

import pytest
from playwright.sync_api import Error, Page, Route, expect

from tests.e2e.screens import open_page, sign_in
from tests.e2e.scripted import Seeded, Server

pytestmark = pytest.mark.e2e

STALE = """element => {
  if ("revision" in element.dataset) element.dataset.revision = "old";
  element.append("as it was");
}"""


@pytest.fixture(scope="module")
def of_root(seeded: Seeded) -> Any:
    return sign_in(seeded.browser, seeded.url, "root")


def open_left(page: Page, path: str) -> Server:
    """Opens a page whose clock is the test's, and waits until what it asks at first is answered."""
    live = Server()
    page.clock.install()
    page.route_web_socket("**/ws/live/", live.take)
    page.goto(path)
    while not live.sockets:
        page.wait_for_timeout(50)
    page.wait_for_timeout(1000)
    page.wait_for_load_state("networkidle")
    return live


def test_a_socket_that_is_ended_at_once_comes_back_less_and_less_often(seeded: Seeded) -> None:
    """A portal that is full accepts and closes: who came every half second kept it full, and looked connected."""
    page = seeded.page()
    live = open_left(page, f"/trainings/{seeded.jobs['failed']}/")
    sign = page.locator("[data-live-state]")
    ended = 0
    for _ in range(600):
        if ended < len(live.sockets):
            live.sockets[ended].close(code=1013)
            ended += 1
        if sign.is_visible():
            break
        page.wait_for_timeout(50)
    expect(sign).to_be_visible(timeout=1)
    assert 3 <= ended <= 8
    page.clock.fast_forward(30_000)
    expect(sign).to_be_hidden()
    assert len(live.sockets) == ended + 1
    page.clock.fast_forward(20_000)  # it lasted: its end is the first of its own
    live.sockets[-1].close(code=1011)
    for _ in range(100):  # half a second by the page's clock; as often as ended before it takes 8 s
        page.wait_for_timeout(50)
        if len(live.sockets) == ended + 2:
            break
        page.clock.fast_forward(20)
    assert len(live.sockets) == ended + 2
    page.context.close()


@pytest.mark.parametrize("moment", ["now and then", "seen again", "a form went nowhere"])
def test_what_was_missed_on_a_connection_that_stayed_is_looked_for(
    seeded: Seeded, moment: str
) -> None:
    page = seeded.page()
    live = open_left(page, f"/trainings/{seeded.jobs['failed']}/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    if moment == "now and then":
        page.clock.fast_forward(301_000)
    elif moment == "seen again":
        page.clock.fast_forward(40_000)
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    else:
        page.evaluate(
            """() => {
              const form = document.createElement("form");
              document.body.append(form);
              form.dispatchEvent(new Event("submit", { bubbles: true }));
            }"""
        )
        live.send(type="changed", kind="job", id=seeded.jobs["failed"], revision=99)
        page.wait_for_timeout(500)
        page.clock.fast_forward(31_000)
    for _ in range(3):
        page.wait_for_timeout(500)
        page.clock.fast_forward(1000)
    assert [url for url in asked if "/part/header/" in url]
    page.context.close()


@pytest.mark.parametrize(("path", "part"), [("/", "#banner"), ("/admin/teams/", "#teams")])
def test_what_every_page_has_is_read_again_after_a_lost_connection(
    seeded: Seeded, of_root: Any, path: str, part: str
) -> None:
    page = open_page(seeded.browser, seeded.url, of_root, width=1400, is_dark=False)
    live = open_left(page, path)
    element = page.locator(part)
    element.evaluate(STALE)
    live.sockets[-1].close(code=1011)
    expect(element).not_to_contain_text("as it was", timeout=10_000)
    page.context.close()


def test_the_page_that_back_leads_to_is_whole(seeded: Seeded) -> None:
    page = seeded.page()
    open_left(page, "/notebooks/")
    page.locator("#q").press_sequentially("e")
    page.wait_for_url("**/notebooks/?*q=e*")
    with page.expect_event("load"):  # of the whole page, which the step back leads to
        page.go_back()
    page.wait_for_url("**/notebooks/")
    page.wait_for_load_state("networkidle")
    page.locator("#stop-all").click()
    expect(page.get_by_role("dialog")).to_be_visible(timeout=10_000)
    page.context.close()


def test_a_late_answer_does_not_take_the_place_of_a_question(seeded: Seeded, of_root: Any) -> None:
    page = open_page(seeded.browser, seeded.url, of_root, width=1400, is_dark=False)
    page.goto("/admin/people/?q=ada")
    page.locator("#list tbody a").first.click()
    page.wait_for_load_state("networkidle")
    slow: list[Route] = []
    page.route("**/reset/", lambda route: slow.append(route))
    page.locator("#reset").click()
    while not slow:
        page.wait_for_timeout(50)
    page.locator("#disable").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    words = dialog.inner_text()
    with contextlib.suppress(Error):  # not waited for any more
        slow[0].fulfill(body="<h2 id='dialog-title'>late</h2>", content_type="text/html")
    page.wait_for_timeout(500)
    assert dialog.inner_text() == words
    page.context.close()


def test_the_keyboard_stays_where_it_was_when_its_part_is_read_again(seeded: Seeded) -> None:
    page = seeded.page()
    live = open_left(page, f"/trainings/{seeded.jobs['queued']}/")
    where = "document.activeElement.textContent.trim()"
    fold = page.locator("summary", has_text="Priority:")
    fold.focus()
    page.keyboard.press("Enter")
    said = page.evaluate(where)
    for press in ("", "Tab"):
        if press:
            page.keyboard.press(press)
            said = page.evaluate(where)
        part = fold.locator("xpath=ancestor::*[@data-live][1]")
        part.evaluate(STALE)
        live.send(type="changed", kind="job", id=seeded.jobs["queued"], revision=99)
        expect(part).not_to_contain_text("as it was")
        page.clock.fast_forward(1000)
        assert page.evaluate(where) == said
    page.context.close()


def test_the_keyboard_is_taken_to_no_other_row_of_a_list(seeded: Seeded) -> None:
    """Its button may be gone with its row: Enter on that of the next one would do something else."""
    page = seeded.page()
    live = open_left(page, f"/trainings/{seeded.jobs['queued']}/")
    part = page.locator("#priority").locator("xpath=ancestor-or-self::*[@data-live][1]")
    served = str(part.evaluate("element => element.outerHTML"))
    rows = {name: f'<form action="/{name}/"><button>Release</button></form>' for name in "ab"}
    inner = "(element, rows) => element.insertAdjacentHTML('beforeend', rows)"
    part.evaluate(inner, "".join(rows.values()))
    page.get_by_role("button", name="Release").first.focus()
    end = served.rindex("</")
    later = f"{served[:end]}{rows['b']}{served[end:]}"
    page.route("**/part/header/", lambda route: route.fulfill(body=later, content_type="text/html"))
    live.send(type="changed", kind="job", id=seeded.jobs["queued"], revision=99)
    expect(page.get_by_role("button", name="Release")).to_have_count(1)
    page.clock.fast_forward(1000)
    assert page.evaluate("document.activeElement === document.body")
    page.context.close()


def test_a_clock_of_yesterday_says_its_day_and_an_old_age_its_date(seeded: Seeded) -> None:
    page = seeded.page()
    open_left(page, "/")
    page.evaluate(
        """() => {
          const at = (ms) => new Date(Date.now() - ms).toISOString();
          document.getElementById("main").insertAdjacentHTML("beforeend", `<p id="times">
            <time datetime="${at(0)}" data-clock></time>
            <time datetime="${at(6.5 * 86400000)}" title="20 Nov 2026, 10:02:03 UTC" data-age></time>
          </p>`);
          const elt = document.getElementById("times");
          document.dispatchEvent(new CustomEvent("htmx:load", { detail: { elt } }));
        }"""
    )
    clock, age = page.locator("#times [data-clock]"), page.locator("#times [data-age]")
    expect(clock).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    expect(age).to_have_text("6 d ago")
    page.clock.fast_forward("25:00:00")
    expect(age).to_have_text("20 Nov 2026", timeout=5_000)
    expect(clock).to_have_text(re.compile(r"^\w+ \w+, \d\d:\d\d:\d\d$"), timeout=5_000)
    page.context.close()
