"""Every page for people who do not see it, or use no mouse: the rules of axe, and the keyboard.

There is no cluster: the pages are those of `tests/e2e/pages.py` on the seeded database.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.pages import PAGES
from tests.e2e.screens import open_page, seeded_portal, sign_in

pytestmark = pytest.mark.e2e

AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
# What serious and critical faults of the rules say, and where.
FAULTS = """async (rules) => {
  const options = { resultTypes: ["violations"], preload: false };
  // A theme that changes takes its old colours along for a moment.
  for (const going of document.getAnimations()) {
    if (going instanceof CSSTransition) going.finish();
  }
  if (rules) options.runOnly = { type: "rule", values: rules };
  const { violations } = await axe.run(document, options);
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map((n) => `${id} ${n.target.join(" ")}: ${n.any.map((c) => c.message)[0] ?? ""}`));
}"""
# What Tab must reach, in the order of the document: whatever can be operated and is shown. Of
# radio buttons with one name it is the chosen one, or the first; arrows lead to the others.
REACHABLE = """() => {
  const all = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  const shown = [...document.querySelectorAll(all)].filter(
    (e) => !e.disabled && e.type !== "hidden" && e.checkVisibility({ visibilityProperty: true }) &&
      e.tabIndex >= 0 && !e.closest("[inert]"));
  const groups = {};
  for (const e of shown.filter((e) => e.type === "radio")) (groups[e.name] ??= []).push(e);
  const others = Object.values(groups).flatMap((g) => g.filter((e) => e !== (g.find((r) => r.checked) ?? g[0])));
  window.reachable = shown.filter((e) => !others.includes(e));
  window.reached = [];
  window.unmarked = [];
  const isMarked = (e) => {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(e);
    return (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none";
  };
  document.addEventListener("focusin", ({ target }) => {
    window.reached.push(target);
    const near = [target, target.nextElementSibling, target.closest("label, .search, .drop")];
    if (!near.some((e) => e && isMarked(e))) window.unmarked.push(target);
  });
  // The parts of a date are stops of their own.
  return window.reachable.length + 4 * window.reachable.filter((e) => e.type === "date").length;
}"""
# Some pages begin in their first field; Tab then goes on from there.
FROM_THE_TOP = """() => {
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute("tabindex");
}"""
MISSED = """() => {
  const tell = (e) => e.outerHTML.replace(/\\s+/g, " ").slice(0, 120);
  const missed = window.reachable.filter((e) => e.isConnected && !window.reached.includes(e));
  const met = [...new Set(window.reached)].filter((e) => window.reachable.includes(e));
  const turned = met.filter((e, i) => i && met[i - 1].compareDocumentPosition(e) & Node.DOCUMENT_POSITION_PRECEDING);
  return [
    ...missed.map((e) => `not reached: ${tell(e)}`),
    ...turned.map((e) => `out of order: ${tell(e)}`),
    ...window.unmarked.map((e) => `no visible focus: ${tell(e)}`),
  ];
}"""

# How far a page can be scrolled beyond its content, px.
EMPTY_END = """() => {
  const shown = document.querySelector("main").getBoundingClientRect().bottom + scrollY;
  return document.documentElement.scrollHeight - Math.max(Math.ceil(shown), innerHeight);
}"""
IN_DIALOG = """() => document.activeElement === document.body ||
  Boolean(document.activeElement.closest("dialog"))"""


@dataclass
class Seeded:
    """A portal without a cluster, and the cookies of everybody who looks at a page."""

    url: str
    rows: dict[str, str]
    browser: Browser
    people: dict[str, Any]

    def page(self, who: str, *, width: int = 1400) -> Page:
        page = open_page(self.browser, self.url, self.people[who], width=width, is_dark=False)
        page.context.add_init_script(AXE)
        return page

    def address(self, name: str) -> str:
        return PAGES[name][1].format(**self.rows)

    def visit(self, page: Page, name: str) -> None:
        page.goto(self.address(name))
        expect(page.locator(".htmx-request")).to_have_count(0)


WHO = sorted({who for who, _path in PAGES.values()})


@pytest.fixture(scope="module")
def seeded(browser: Browser) -> Iterator[Seeded]:
    with seeded_portal() as (url, rows):
        yield Seeded(url, rows, browser, {who: sign_in(browser, url, who) for who in WHO})


def seen_by(who: str) -> list[str]:
    return [name for name, (looks, _path) in PAGES.items() if looks == who]


def one_of_a_route(names: list[str]) -> list[str]:
    """Pages by the same template once."""
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(route_of(name), name)
    return list(first.values())


def route_of(name: str) -> str:
    return re.sub(r"{[^}]*}", "ID", PAGES[name][1].partition("?")[0])


@pytest.mark.parametrize("who", WHO, ids=lambda who: who or "nobody")
def test_no_page_has_a_serious_fault(seeded: Seeded, who: str) -> None:
    """All rules in light; in dark and where it is narrow what can differ there."""
    faults = {}
    page = seeded.page(who)
    for name in seen_by(who):
        page.set_viewport_size({"width": 1400, "height": 900})
        page.emulate_media(color_scheme="light")
        seeded.visit(page, name)
        found = page.evaluate(FAULTS, None)
        page.emulate_media(color_scheme="dark")
        found += page.evaluate(FAULTS, ["color-contrast"])
        page.set_viewport_size({"width": 400, "height": 900})
        found += page.evaluate(FAULTS, ["color-contrast", "scrollable-region-focusable"])
        if page.evaluate("document.documentElement.scrollWidth") > 400:
            found.append("wider than its window of 400 px")
        if page.evaluate(EMPTY_END) > 0:
            found.append("longer than what it shows")
        if found:
            faults[name] = found
    page.context.close()
    assert not faults, told(faults)


@pytest.mark.parametrize("who", WHO, ids=lambda who: who or "nobody")
def test_tab_reaches_all_that_can_be_operated_in_order_and_shows_where_it_is(
    seeded: Seeded, who: str
) -> None:
    problems = {}
    page = seeded.page(who)
    for name in one_of_a_route(seen_by(who)):
        seeded.visit(page, name)
        page.evaluate(FROM_THE_TOP)
        for _ in range(page.evaluate(REACHABLE)):
            page.keyboard.press("Tab")
        found = page.evaluate(MISSED)
        if found:
            problems[name] = found
    page.context.close()
    assert not problems, told(problems)


def told(problems: dict[str, list[str]]) -> str:
    return "\n".join(f"{name}:\n  " + "\n  ".join(found) for name, found in problems.items())


def openers(page: Page) -> list[str]:
    """Ids of what opens a dialog here, one of each sort."""
    ids: list[str] = page.locator("[data-dialog]:not([aria-disabled]):visible").evaluate_all(
        "all => all.map(e => e.id)"
    )
    sorts = defaultdict(list)
    for identity in ids:
        assert identity, "what opens a dialog needs an id, so that the focus finds back"
        sorts[identity.split("-")[0]].append(identity)
    return [of_a_sort[0] for of_a_sort in sorts.values()]


def test_every_question_keeps_the_focus_and_gives_it_back(seeded: Seeded) -> None:
    asked: set[tuple[str, str]] = set()
    problems = {}
    for who in WHO:
        page = seeded.page(who)
        for name in seen_by(who):
            if "data-dialog" not in page.request.get(seeded.address(name)).text():
                continue
            seeded.visit(page, name)
            for identity in openers(page):
                sort = (route_of(name), identity.split("-")[0])
                if sort in asked:
                    continue
                asked.add(sort)
                found = walk_through(page, identity)
                if found:
                    problems[f"{name} #{identity}"] = found
        page.context.close()
    assert not problems, told(problems)
    assert len(asked) > 10


def walk_through(page: Page, opener: str) -> list[str]:
    """Opens a question, goes round in it, and leaves it, all by keyboard."""
    dialog = page.get_by_role("dialog")
    page.locator(f"[id='{opener}']").focus()
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    found: list[str] = page.evaluate(FAULTS, None)
    for _ in range(dialog.locator("a, button, input").count() + 2):
        page.keyboard.press("Tab")
        # Between the last and the first the browser itself has it.
        if not page.evaluate(IN_DIALOG):
            found.append("the focus left it")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    if page.evaluate("document.activeElement.id") != opener:
        found.append("the focus did not come back")
    return found


@pytest.mark.parametrize(("name", "width"), [("lead", 1400), ("namespaces", 1400), ("home", 400)])
def test_menus_are_opened_walked_and_closed_by_keyboard(
    seeded: Seeded, name: str, width: int
) -> None:
    page = seeded.page(PAGES[name][0], width=width)
    seeded.visit(page, name)
    menus = page.locator("[data-menu]:visible")
    assert menus.count() >= 1
    for menu in menus.all():
        menu.locator("summary").focus()
        page.keyboard.press("Enter")
        items = menu.locator(".menu-items :is(a, button)")
        for item in items.all():
            page.keyboard.press("Tab")
            expect(item).to_be_focused()
        page.keyboard.press("Escape")
        expect(items.first).to_be_hidden()
        expect(menu.locator("summary")).to_be_focused()
    page.context.close()
