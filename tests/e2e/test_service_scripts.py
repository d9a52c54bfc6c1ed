"""Our scripts on the pages of notebooks and TensorBoards, in a real browser without a cluster."""

import re
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.scripted import Seeded, Server

pytestmark = pytest.mark.e2e


@pytest.fixture
def page(seeded: Seeded) -> Iterator[Page]:
    page = seeded.page()
    yield page
    page.context.close()


@pytest.fixture
def live(page: Page) -> Server:
    """Tells the page what has changed."""
    server = Server()
    page.route_web_socket("**/ws/live/", server.take)
    return server


def test_a_part_that_changes_while_its_answer_is_slow_is_read_again(
    page: Page, seeded: Seeded, live: Server
) -> None:
    pk = seeded.jobs["nb-starting"]
    asked: list[str] = []

    def announce(revision: int) -> None:
        live.send(type="changed", kind="service", id=pk, revision=revision)

    def answer_late(route: Route) -> None:
        asked.append(route.request.headers.get("homeport-have", ""))
        if len(asked) == 1:
            announce(3)
            time.sleep(0.7)  # longer than the pause between two reads of a part
        route.continue_()

    page.goto(f"/notebooks/{pk}/")
    page.wait_for_load_state("networkidle")
    page.route("**/part/startup/", answer_late)
    # Its answer brings the header of revision 2, or the announcement does, whichever is first.
    with page.expect_response("**/stop/"):
        page.locator("#stop").click()
    announce(2)
    for _ in range(300):
        if len(asked) >= 2:
            break
        page.wait_for_timeout(100)
    assert len(asked) >= 2, asked
    announce(4)
    expect(page.locator("#service-startup")).to_have_attribute("data-revision", "2")
    page.wait_for_timeout(900)
    assert len(asked) >= 3, asked


def _header(page: Page, pk: str) -> str:
    return page.request.get(f"/notebooks/{pk}/part/header/").text()


def test_an_answer_to_an_action_that_is_older_than_the_page_is_read_anew(
    page: Page, seeded: Seeded
) -> None:
    pk = seeded.jobs["nb-queued"]
    page.goto(f"/notebooks/{pk}/")
    page.wait_for_load_state("networkidle")
    header = page.locator("#service-header")
    shown = header.get_attribute("data-revision")
    assert shown
    late = _header(page, pk).replace(f'data-revision="{shown}"', 'data-revision="0"')
    page.route("**/stop/", lambda route: route.fulfill(body=late, content_type="text/html"))
    with page.expect_response(lambda r: "part/header" in r.url):
        page.locator("#stop").click()
    expect(header).to_have_attribute("data-revision", shown)


def test_a_part_that_was_replaced_while_it_was_read_listens_again(
    page: Page, seeded: Seeded, live: Server
) -> None:
    pk = seeded.jobs["nb-queued"]
    held: list[Route] = []
    page.goto(f"/notebooks/{pk}/")
    page.wait_for_load_state("networkidle")
    answer = _header(page, pk)
    page.route("**/part/header/", lambda route: held.append(route))
    page.route("**/stop/", lambda route: route.fulfill(body=answer, content_type="text/html"))
    with page.expect_request("**/part/header/"):
        live.send(type="changed", kind="service", id=pk, revision=99)
    with page.expect_response("**/stop/"), page.expect_request("**/part/header/"):
        page.locator("#stop").click()
    for route in held:
        route.abort()


def test_ticks_survive_the_list_being_read_again(page: Page, live: Server) -> None:
    page.goto("/trainings/")
    page.wait_for_load_state("networkidle")
    button = page.get_by_role("button", name="Open in TensorBoard")
    expect(button).not_to_be_visible()
    box = page.get_by_role("checkbox", name="Select mnist for TensorBoard")
    box.check()
    expect(button).to_be_visible()
    # A page that shows an older state is read anew.
    page.locator("#list").evaluate("(list) => { list.dataset.revision = 'old' }")
    with page.expect_response(lambda r: "/trainings/?" in r.url):
        live.send(type="changed", kind="job", id="x", revision=99)
    expect(page.locator("#list")).not_to_have_attribute("data-revision", "old")
    expect(box).to_be_checked()


def test_the_form_shows_what_belongs_to_a_choice_and_tells_what_fits(page: Page) -> None:
    page.goto("/notebooks/new/")
    expect(page.get_by_label("Name")).to_be_focused()
    expect(page.get_by_label("Image reference")).not_to_be_visible()
    expect(page.get_by_label("CPU", exact=True)).not_to_be_visible()
    page.get_by_role("radio", name=re.compile("Custom")).check(force=True)
    page.get_by_role("radio", name=re.compile("Another image")).check(force=True)
    expect(page.get_by_label("Image reference")).to_be_visible()
    fit = page.locator("#fit")
    expect(fit).to_contain_text("Check the form")
    page.get_by_label("Image reference").fill("lab/jax:1")
    page.get_by_label("CPU", exact=True).fill("100")
    expect(fit).to_contain_text("Does not fit")
    page.goto("/tensorboards/new/")
    expect(page.locator("#jobs")).not_to_be_visible()
    page.get_by_role("radio", name=re.compile("Some trainings")).check(force=True)
    expect(page.locator("#jobs")).to_be_visible()


def test_what_cannot_be_opened_is_told_in_the_tab(page: Page, seeded: Seeded) -> None:
    pk = seeded.jobs["nb-running"]
    refusal = {"code": "not_running", "text": "It is still starting.", "next_step": "Wait."}

    def refuse(route: Route) -> None:
        if route.request.method == "POST":
            assert route.request.headers["x-csrftoken"]
            route.fulfill(status=409, json=refusal)
        else:
            route.continue_()

    page.route(f"**/notebooks/{pk}/open/", refuse)
    page.goto(f"/notebooks/{pk}/open/")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("It is still starting.")
    expect(alert).to_contain_text("Wait.")
    with page.expect_request(lambda r: r.method == "POST"):
        page.get_by_role("button", name="Try again").click()


def test_a_tab_that_opens_goes_to_the_gate_and_leaves_no_way_back_to_itself(
    page: Page, seeded: Seeded
) -> None:
    pk = seeded.jobs["nb-running"]
    page.route("http://127.0.0.1:31204/**", lambda route: route.fulfill(body="the gate"))
    page.goto(f"/notebooks/{pk}/")
    with page.context.expect_page() as opened:
        page.context.route("http://127.0.0.1:31204/**", lambda r: r.fulfill(body="the gate"))
        page.locator("#open").click()
    tab = opened.value
    tab.wait_for_url(re.compile(r"^http://127\.0\.0\.1:31204/s/[0-9a-f]{8}/__gate#t="))
    assert tab.evaluate("[window.opener, document.referrer, history.length]") == [None, "", 1]


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize(
    "path",
    ["/notebooks/", "/notebooks/new/", "/tensorboards/", "/tensorboards/new/",
     "/notebooks/{nb-queued}/", "/notebooks/{nb-failed}/", "/tensorboards/{tb-running}/"],
)  # fmt: skip
def test_no_page_is_wider_than_its_window(seeded: Seeded, width: int, path: str) -> None:
    page = seeded.page(width=width)
    page.goto(path.format(**seeded.jobs))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()
