"""The navigation in a browser: everything within reach of the keyboard, on phones in one menu."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.portal import Rest

pytestmark = pytest.mark.e2e


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim()"))


def test_on_a_phone_one_menu_has_all_pages_and_works_by_keyboard(
    page_of: Callable[..., Page],
) -> None:
    page = page_of("root", width=400)
    menu = page.locator("nav:visible summary")
    expect(menu).to_have_text("Overview")
    menu.focus()
    page.keyboard.press("Enter")
    links = page.locator("nav:visible .menu-items a")
    titles = [title.strip() for title in links.all_inner_texts()]
    assert titles[0] == "Overview"
    assert {"Nodes", "Queue", "Health"} <= set(titles)
    for title in titles:
        page.keyboard.press("Tab")
        assert focused(page) == title
    page.keyboard.press("Escape")
    expect(links.first).to_be_hidden()
    assert focused(page) == "Overview"
    page.keyboard.press("Enter")
    links.filter(has_text="Nodes").press("Enter")
    page.wait_for_url("**/nodes/")
    expect(page.locator("nav:visible summary")).to_have_accessible_name("Menu, current page: Nodes")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_the_admin_menu_is_for_admins_and_opens_by_keyboard(page_of: Callable[..., Page]) -> None:
    page = page_of("root")
    page.locator("nav:visible summary").press("Enter")
    health = page.get_by_role("link", name="Health")
    expect(health).to_be_visible()
    health.press("Enter")
    page.wait_for_url("**/admin/health/")
    expect(page.get_by_role("heading", name="Reconciler")).to_be_visible()
    researcher = page_of("ada")
    expect(researcher.get_by_role("link", name="Nodes")).to_be_visible()
    expect(researcher.locator("nav:visible summary")).to_have_count(0)


def test_nodes_and_health_of_a_real_cluster(page_of: Callable[..., Page], ada: Rest) -> None:
    page = page_of("root")
    page.goto("/nodes/")
    expect(page.locator(".fleet-number")).to_contain_text("GPUs")
    expect(page.locator("article.node")).to_have_count(1)
    expect(page.get_by_text("Ready", exact=True).first).to_be_visible()
    page.goto("/admin/health/")
    # Pod Security can be tried only where somebody has a namespace: ada has.
    row = page.locator(".health-grid .check-line")
    expect(row.filter(has_text="Object store")).to_contain_text("Responding")
    expect(row.filter(has_text="Messages to browsers")).to_contain_text("Responding")
    expect(row.filter(has_text="StorageClass")).to_contain_text("Available")
    expect(row.filter(has_text="Kubernetes")).to_contain_text("v1.")
    expect(row.filter(has_text="Pod Security")).to_contain_text("refused", timeout=60_000)
    expect(page.locator(".watch-table tbody tr")).to_have_count(14)
    expect(row.filter(has_text="Watches")).to_contain_text("all 14 open")


def test_who_holds_a_gpu_is_shown_as_it_happens(page_of: Callable[..., Page], ada: Rest) -> None:
    mine, theirs = page_of("ada"), page_of("lin")
    for page in (mine, theirs):
        page.goto("/nodes/")
        expect(page.locator(".gpu-user")).to_have_count(0)
    each = {"count": 1, "cpu": "100m", "memory": "128Mi", "gpu": 1}
    sleep = ["python", "-c", "import time; time.sleep(600)"]
    job = ada.submit(name="holds a GPU", command=sleep, replicas={"worker": each})
    expect(mine.get_by_role("link", name="holds a GPU")).to_be_visible(timeout=60_000)
    expect(mine.locator(".fleet-number")).to_contain_text("1/")
    expect(theirs.locator(".gpu-user")).to_contain_text("a teammate's", timeout=10_000)
    expect(theirs.get_by_text("holds a GPU")).to_have_count(0)
    assert ada.call("POST", f"jobs/{job['id']}/stop/").ok
    for page in (mine, theirs):
        expect(page.locator(".gpu-user")).to_have_count(0, timeout=60_000)
