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

# Neither the name nor the table that it is in is cut off by its card.
IS_INSIDE = """element => {
  const end = element.closest(".card, main").getBoundingClientRect().right + 0.5;
  return [element, element.closest("table") ?? element]
    .every(each => each.getBoundingClientRect().right <= end);
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


# path -> who looks, and where names of workloads, people and teams stand there
NAMES = {
    "/team/?team={lead-team}": (
        "lee",
        ("h1 .one-line", ".person-name", ".person code", ".job-name", "#work td > .one-line"),
    ),
    "/queue/": ("root", (".job-name", "td[data-label=Owner] .one-line")),
    "/trainings/": ("root", (".job-name", "td[data-label=Owner] .one-line")),
    "/notebooks/": ("root", (".job-name", "td[data-label=Owner] .one-line")),
    "/trainings/{running}/": ("root", ("h1 .one-line", ".job-meta .one-line")),
    "/notebooks/{nb-running}/": ("root", ("h1 .one-line", ".job-meta .one-line")),
    "/": ("ada", (".job-item-head a", ".service-item-head a")),
    "/nodes/": ("root", (".gpu-user-name .one-line", ".gpu-user > .soft .one-line")),
    "/admin/teams/": ("root", (".job-name", "td[data-label=Leads] .one-line")),
    "/admin/teams/{team-vision}/": ("root", ("h1 .one-line", ".job-name")),
    "/admin/namespaces/": ("root", (".job-name", "code", "td[data-label=Team] .one-line")),
    "/admin/namespaces/{ns-over}/": ("root", ("h1 .one-line", ".job-meta .one-line")),
}


@pytest.fixture(scope="module")
def signed_in(seeded: Seeded) -> Any:
    return {
        name: sign_in(seeded.browser, seeded.url, name)
        for name in {who for who, _ in NAMES.values()}
    }


@pytest.mark.parametrize("width", [390, 1440, 2560])
@pytest.mark.parametrize("path", NAMES)
def test_names_of_workloads_people_and_teams_are_one_line(
    seeded: Seeded, signed_in: Any, path: str, width: int
) -> None:
    who, places = NAMES[path]
    page = open_page(seeded.browser, seeded.url, signed_in[who], width=width, is_dark=False)
    page.goto(path.format(**seeded.jobs))
    main = page.locator("main")
    for where in places:
        name = main.locator(where).first
        title = name.get_attribute("title")
        assert title, where
        assert name.inner_text().endswith(title), where
        main.evaluate(
            "(main, [where, name]) => main.querySelectorAll(where)"
            ".forEach(each => { each.textContent = name; })",
            [where, NAME],
        )
        assert name.evaluate(IS_ONE_LINE), where
        assert name.evaluate("e => e.scrollWidth > e.clientWidth"), where
        assert name.evaluate(IS_INSIDE), where
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
