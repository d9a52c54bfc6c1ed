"""What the pointer is pressed on stays until it is let go: forms over lists, forms with a part that follows typing, and
live parts. There is no cluster; answers are held by the tests until a button is down.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.screens import open_page, sign_in
from tests.e2e.scripted import Seeded, Server

pytestmark = pytest.mark.e2e

PageOf = Callable[[str], Page]
FIT_MS = 400  # what a panel waits for after typing
# page -> who, where, what is typed into, the word, what is asked for then
LISTS = {
    "trainings": ("ada", "/trainings/", "#q", "resnet", "/trainings/?"),
    "notebooks": ("ada", "/notebooks/", "#q", "e", "/notebooks/?"),
    "people": ("root", "/admin/people/", "#q", "i", "/admin/people/?"),
    "namespaces": ("root", "/admin/namespaces/", "#q", "a", "/admin/namespaces/?"),
    "audit": ("root", "/admin/audit/", "#q", "a", "/admin/audit/?"),
}
PANELS = {
    "training": ("ada", "/trainings/new/", "#name", "/trainings/new/fit/"),
    "training-count": ("ada", "/trainings/new/", "#command", "/trainings/new/fit/"),
    "training-yaml": ("ada", "/trainings/new/", "#yaml", "/trainings/new/fit/"),
    "notebook": ("ada", "/notebooks/new/", "#name", "/notebooks/new/fit/"),
    "tensorboard": ("ada", "/tensorboards/new/", "#name", "/tensorboards/new/fit/"),
}


@pytest.fixture(scope="module")
def of_root(seeded: Seeded) -> Any:
    return sign_in(seeded.browser, seeded.url, "root")


@pytest.fixture
def page_of(seeded: Seeded, of_root: Any) -> Iterator[PageOf]:
    """`page_of("root")`: a page of that person."""
    opened: list[Page] = []

    def make(name: str) -> Page:
        state = {"ada": seeded.state, "root": of_root}[name]
        page = open_page(seeded.browser, seeded.url, state, width=1400, is_dark=False)
        opened.append(page)
        return page

    yield make
    for page in opened:
        page.context.close()


class Held:
    """Requests to an address whose answers wait until the test lets them go."""

    def __init__(self, page: Page, path: str) -> None:
        self.page = page
        self.routes: list[Route] = []
        page.route(lambda url: path in url, self._hold)

    def _hold(self, route: Route) -> None:
        if route.request.headers.get("hx-request") == "true":
            self.routes.append(route)
        else:
            route.continue_()

    def wait(self, count: int = 1) -> None:
        for _ in range(200):
            if len(self.routes) >= count:
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"{len(self.routes)} of {count} were asked for")

    def let_go(self) -> None:
        """Answers all, and waits until the page has had the time to show them."""
        for route in self.routes:
            with self.page.expect_response(route.request.url):
                route.continue_()
        self.routes.clear()
        self.page.wait_for_timeout(300)


def mark_link(page: Page, place: str) -> str:
    """Makes the first link of a place known by a mark that only this element has; its address."""
    link = page.locator(f"{place} a[href]:visible").first
    link.evaluate("element => element.setAttribute('data-pressed-on', '')")
    return link.get_attribute("href") or ""


@pytest.mark.parametrize("at", ["before-the-button", "while-it-is-down"])
@pytest.mark.parametrize("name", LISTS)
def test_a_link_opens_although_its_list_is_asked_for_by_typing(
    page_of: PageOf, name: str, at: str
) -> None:
    who, path, field, word, asked = LISTS[name]
    page = page_of(who)
    page.goto(path)
    page.wait_for_load_state("networkidle")
    held = Held(page, asked)
    page.locator(field).press_sequentially(word)
    if at == "before-the-button":
        held.wait()
    href = mark_link(page, "#list tbody")
    page.locator("[data-pressed-on]").hover()
    page.mouse.down()
    held.wait()
    held.let_go()
    expect(page.locator("[data-pressed-on]")).to_have_count(1)
    page.mouse.up()
    page.wait_for_url(re.compile(re.escape(href) + "$"))


def test_a_file_is_exported_by_the_click_that_ends_typing(page_of: PageOf) -> None:
    page = page_of("root")
    page.goto("/admin/audit/")
    page.wait_for_load_state("networkidle")
    page.locator("#q").press_sequentially("a")
    as_csv = page.get_by_role("link", name="Export CSV")
    expect(as_csv).to_have_attribute("href", re.compile("q=a"))
    as_csv.hover()
    with page.expect_download():
        page.mouse.down()
        page.wait_for_timeout(FIT_MS)
        page.mouse.up()


@pytest.mark.parametrize("name", LISTS)
def test_what_was_typed_is_asked_for_once_and_shown_at_the_release(
    page_of: PageOf, name: str
) -> None:
    who, path, field, word, asked = LISTS[name]
    page = page_of(who)
    page.goto(path)
    page.wait_for_load_state("networkidle")
    held = Held(page, asked)
    page.locator(field).press_sequentially(word)
    held.wait()
    mark_link(page, "#list")
    page.locator("#list").hover(position={"x": 2, "y": 2})
    page.mouse.down()
    held.let_go()
    expect(page.locator("[data-pressed-on]")).to_have_count(1)
    page.mouse.up()
    expect(page.locator("[data-pressed-on]")).to_have_count(0)
    page.wait_for_url(re.compile(f"q={word}"))
    page.locator(field).blur()
    page.wait_for_timeout(FIT_MS + 300)
    assert held.routes == []


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_that_follows_typing_moves_no_button_under_the_pointer(
    page_of: PageOf, name: str
) -> None:
    who, path, field, asked = PANELS[name]
    page = page_of(who)
    page.goto(path)
    if field == "#yaml":
        page.get_by_role("button", name="YAML").click()
    page.wait_for_load_state("networkidle")
    page.locator("#fit").evaluate("element => element.firstElementChild.classList.add('as-was')")
    held = Held(page, asked)
    page.locator(field).press("End")
    page.keyboard.type("x")
    page.get_by_role("button", name=re.compile("^(Start|Create|Open)")).last.hover()
    page.mouse.down()  # the field loses the focus
    held.wait()
    held.let_go()
    expect(page.locator("#fit > .as-was")).to_have_count(1)
    page.locator("h1").hover()
    page.mouse.up()  # elsewhere: it was no click
    expect(page.locator("#fit > .as-was")).to_have_count(0)
    page.wait_for_timeout(FIT_MS + 300)
    assert held.routes == []


def test_a_choice_of_a_form_is_asked_for_at_once_also_from_a_menu_of_the_browser(
    page_of: PageOf,
) -> None:
    page = page_of("root")
    page.goto("/admin/audit/")
    page.wait_for_load_state("networkidle")
    menu = page.locator("#result")
    # The release over the menu of a browser is the menu's.
    menu.dispatch_event("pointerdown", {"button": 0, "buttons": 1})
    menu.select_option("refused")
    page.wait_for_url(re.compile("result=refused"))
    expect(page.locator("#list .badge").first).to_have_text("Refused")
    page.locator("#since").fill("2020-01-01")
    page.wait_for_url(re.compile("since=2020-01-01"))


def test_a_button_let_go_outside_the_window_holds_nothing_back(page_of: PageOf) -> None:
    page = page_of("ada")
    page.goto("/trainings/")
    page.wait_for_load_state("networkidle")
    page.locator("#list").dispatch_event("pointerdown", {"button": 0, "buttons": 1})
    page.locator("#q").press_sequentially("resnet")
    page.wait_for_timeout(FIT_MS)
    page.mouse.move(300, 300)  # with no button down
    page.wait_for_url(re.compile("q=resnet"))


def test_an_answer_to_another_form_waits_for_the_release(page_of: PageOf, seeded: Seeded) -> None:
    page = page_of("ada")
    page.goto(f"/trainings/{seeded.jobs['queued']}/")
    page.wait_for_load_state("networkidle")
    held = Held(page, "/delete/")
    page.locator("#delete").click()
    held.wait()
    page.locator("#job-header h1").hover()
    page.mouse.down()
    held.let_go()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.mouse.up()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_an_answer_finds_its_place_though_that_was_read_again_meanwhile(page_of: PageOf) -> None:
    page, live = page_of("ada"), Server()
    page.route_web_socket("**/ws/live/", live.take)
    page.goto("/trainings/")
    page.wait_for_load_state("networkidle")
    held = Held(page, "q=resnet")
    page.locator("#q").press_sequentially("resnet")
    held.wait()
    page.locator("#list").evaluate(
        "element => { element.classList.add('as-was'); element.removeAttribute('data-revision'); }"
    )
    live.send(type="changed", kind="job", id="0", revision=99)
    expect(page.locator("#list.as-was")).to_have_count(0)
    assert page.locator("#list tbody tr").count() > 1
    held.let_go()
    expect(page.locator("#list tbody tr")).to_have_count(1)


def test_a_tap_meets_what_was_under_the_finger(seeded: Seeded) -> None:
    context = seeded.browser.new_context(
        viewport={"width": 800, "height": 900},
        has_touch=True,
        base_url=seeded.url,
        storage_state=seeded.state,
    )
    page = context.new_page()
    page.route_web_socket("**/ws/live/", lambda socket: None)
    page.goto("/trainings/")
    page.wait_for_load_state("networkidle")
    held = Held(page, "/trainings/?")
    page.locator("#q").press_sequentially("no such training")
    held.wait()
    href = mark_link(page, "#list")
    at = page.locator("[data-pressed-on]").bounding_box()
    assert at is not None
    finger: Any = context.new_cdp_session(page)
    point = {"x": at["x"] + at["width"] / 2, "y": at["y"] + at["height"] / 2}
    finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    held.let_go()
    expect(page.locator("[data-pressed-on]")).to_have_count(1)
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_url(re.compile(re.escape(href) + "$"))
    context.close()
