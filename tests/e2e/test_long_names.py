"""Long names and addresses: one line each, the whole of it in a tooltip, at every width; and the bar above the page."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.screens import open_page, sign_in
from tests.e2e.scripted import Seeded

pytestmark = pytest.mark.e2e

# 98 characters
NAME = "bartholomew.featherstonehaugh-cholmondeley.department.of.computational.linguistics.abc@example.com"
PLACES = {
    "people": ("/admin/people/?q=bartholomew", "#list .job-name"),
    "team": ("/admin/teams/{team-vision}/", f'.job-name[title="{NAME}"]'),
    "person": ("", "h1 .one-line"),
}
IS_ONE_LINE = """element => {
  const style = getComputedStyle(element);
  const lines = element.getBoundingClientRect().height / parseFloat(style.lineHeight);
  return lines < 1.6 && style.textOverflow === "ellipsis";
}"""


@pytest.fixture(scope="module")
def of_root(seeded: Seeded) -> Any:
    state = sign_in(seeded.browser, seeded.url, "root")
    page = open_page(seeded.browser, seeded.url, state, width=1440, is_dark=False)
    page.goto("/admin/people/invite/")
    page.get_by_label("User name").fill(NAME)
    page.get_by_label("Team").select_option("vision")
    page.get_by_role("button", name="Invite").click()
    expect(page.get_by_role("heading", name="is invited")).to_be_visible()
    page.context.close()
    return state


def shown(page: Page, place: str, jobs: dict[str, str]) -> str:
    """Opens a page with the name; where the name stands in it."""
    path, where = PLACES[place]
    page.goto((path or PLACES["people"][0]).format(**jobs))
    if not path:
        page.locator(PLACES["people"][1]).click()
    return where


@pytest.mark.parametrize("width", [390, 1440, 2560])
@pytest.mark.parametrize("place", PLACES)
def test_a_long_name_ends_in_an_ellipsis_and_stands_once(
    seeded: Seeded, of_root: Any, place: str, width: int
) -> None:
    page = open_page(seeded.browser, seeded.url, of_root, width=width, is_dark=False)
    name = page.locator(shown(page, place, seeded.jobs))
    expect(name).to_have_attribute("title", NAME)
    assert name.evaluate(IS_ONE_LINE)
    # The history of a person names them in each of its lines.
    page.evaluate("document.querySelector('main section[aria-labelledby=entries-title]')?.remove()")
    assert page.locator("main").get_by_text(NAME, exact=True).count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()


@pytest.mark.parametrize("width", [390, 1440, 2560])
def test_names_of_a_teams_page_are_one_line(seeded: Seeded, width: int) -> None:
    state = sign_in(seeded.browser, seeded.url, "lee")
    page = open_page(seeded.browser, seeded.url, state, width=width, is_dark=False)
    page.goto("/team/?team={lead-team}".format(**seeded.jobs))
    for where in (".person-name", ".person code"):
        name = page.locator(where).first
        assert name.get_attribute("title") == name.inner_text()
        name.evaluate("(element, name) => { element.textContent = name; }", NAME)
        assert name.evaluate(IS_ONE_LINE)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_nothing_is_seen_through_the_bar(seeded: Seeded, is_dark: bool) -> None:
    page = open_page(seeded.browser, seeded.url, seeded.state, width=1440, is_dark=is_dark)
    page.goto(f"/trainings/{seeded.jobs['running']}/")
    colour = page.locator(".topbar").evaluate("e => getComputedStyle(e).backgroundColor")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour.startswith("rgb(") or colour.endswith("/ 1)"), (colour, paper)
    assert page.locator(".topbar").evaluate("e => getComputedStyle(e).backdropFilter") == "none"
    page.context.close()
