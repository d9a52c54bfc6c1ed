"""Notebooks and TensorBoards in a real browser: from the form through the gate to a kernel and back."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.portal import Portal, Rest

pytestmark = pytest.mark.e2e

PULL_MS = 600_000  # the first start installs JupyterLab and TensorFlow
LAB_MS = 120_000
LAB = "quay.io/jupyter/tensorflow-notebook:2026-11-01"
WRITES_EVENTS = """
import os
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter(os.environ["LOG_DIR"])
for step in range(20):
    value = Summary.Value(tag="harbour_loss", simple_value=1 / (step + 1))
    writer.add_event(Event(wall_time=1e9 + step, step=step, summary=Summary(value=[value])))
writer.close()
"""


def begin(page: Page, name: str) -> None:
    """A notebook asked for on the form; ends on its page."""
    page.goto("/notebooks/")
    page.get_by_role("link", name="New notebook").click()
    page.get_by_label("Name").fill(name)
    expect(page.locator("#fit")).to_contain_text(re.compile("Fits now|Will be queued"))
    page.get_by_role("button", name="Start notebook").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()


def wait_until_running(page: Page) -> None:
    expect(page.locator("#service-header .badge")).to_have_text("Running", timeout=PULL_MS)


def open_from(page: Page) -> Page:
    """The tab that the Open button of this page opens, once the gate has let it in."""
    with page.context.expect_page() as opened:
        page.locator("#open").click()
    tab = opened.value
    tab.wait_for_url(
        re.compile(r"^http://127\.0\.0\.1:\d+/s/[0-9a-f]{8}/(?!__gate)"), timeout=60_000
    )
    return tab


def test_a_notebook_from_the_form_to_a_kernel_and_back(
    portal: Portal, ada: Rest, page_of: Callable[..., Page]
) -> None:
    page = page_of("ada")
    begin(page, "e2e lab")
    expect(page.locator("li[data-step=requested]")).to_have_attribute("data-state", "done")
    wait_until_running(page)
    for step in page.locator("li[data-step]").all():
        expect(step).to_have_attribute("data-state", "done")
    expect(page.locator("#service-place")).to_contain_text("http://127.0.0.1:")

    tab = open_from(page)
    assert tab.evaluate("window.opener") is None
    assert "#t=" not in tab.url
    expect(tab.locator("#jp-main-dock-panel")).to_be_visible(timeout=LAB_MS)
    tab.locator('.jp-LauncherCard[data-category="Notebook"]').first.click()
    # Until its kernel is there JupyterLab lets a cell run into nothing.
    expect(tab.get_by_text("| Idle")).to_be_visible(timeout=LAB_MS)
    cell = tab.locator(".jp-Notebook .jp-CodeCell .cm-content").first
    cell.click(timeout=LAB_MS)
    tab.keyboard.type("print(6 * 7, 'boats')")
    tab.keyboard.press("Shift+Enter")
    expect(tab.locator(".jp-OutputArea-output").first).to_contain_text("42 boats", timeout=LAB_MS)

    # The portal's cookies stay with the portal, the gate's with the gate.
    cookies = tab.context.cookies(["http://127.0.0.1"])
    assert not [cookie for cookie in cookies if cookie["name"].startswith("homeport")]

    page.locator("#stop").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Unsaved changes")
    dialog.get_by_role("button", name="Stop notebook").click()
    expect(page.locator("#service-header .badge")).to_have_text("Stopped", timeout=90_000)
    page.get_by_role("button", name="Start again").click()
    wait_until_running(page)
    again = open_from(page)
    expect(again.locator("#jp-main-dock-panel")).to_be_visible(timeout=LAB_MS)
    again.close()

    page.locator("#delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete permanently").click()
    expect(page.get_by_role("status").filter(has_text="is deleted")).to_be_visible()
    expect(page.get_by_role("link", name="e2e lab")).to_have_count(0)


def test_a_tab_that_was_opened_early_goes_on_by_itself(
    portal: Portal, ada: Rest, page_of: Callable[..., Page]
) -> None:
    page = page_of("ada", width=400)
    begin(page, "opened early")
    link = page.get_by_role("link", name="Open it in a new tab as soon as it is ready")
    with page.context.expect_page() as opened:
        link.click()
    tab = opened.value
    expect(tab.locator("#jp-main-dock-panel")).to_be_visible(timeout=PULL_MS)
    # Going back must not come to the waiting page, which would lead here again.
    assert tab.evaluate("history.length") <= 2
    wait_until_running(page)
    page.locator("#delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete permanently").click()
    expect(page).to_have_url(re.compile("/notebooks/$"))


def test_an_image_that_is_not_there_is_told_at_its_step(page_of: Callable[..., Page]) -> None:
    page = page_of("ada")
    page.goto("/notebooks/new/")
    page.get_by_label("Name").fill("no such image")
    page.get_by_label("Another image").check(force=True)
    page.get_by_label("Image reference").fill("registry.example/nothing:1")
    page.get_by_role("button", name="Start notebook").click()
    step = page.locator("li[data-step=image]")
    expect(step).to_have_attribute("data-state", re.compile("now|failed"), timeout=60_000)
    expect(step).to_contain_text("registry.example/nothing:1 not found", timeout=60_000)
    page.locator("#delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete permanently").click()
    expect(page).to_have_url(re.compile("/notebooks/$"))


def test_a_trainings_curves_are_one_click_away(ada: Rest, page_of: Callable[..., Page]) -> None:
    job = ada.submit(name="curves", image=LAB, command=["python", "-c", WRITES_EVENTS])
    ada.wait(job, "succeeded", timeout_s=PULL_MS / 1000)
    page = page_of("ada")
    page.goto(f"/trainings/{job['id']}/")
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="TensorBoard").click()
    tab = opened.value
    assert tab.evaluate("window.opener") is None
    expect(tab.locator("tb-webapp")).to_be_visible(timeout=PULL_MS)
    expect(tab.get_by_text("harbour_loss").first).to_be_visible(timeout=60_000)
    tab.close()

    # The same TensorBoard again, and one of two ticked trainings.
    page.goto("/trainings/")
    page.get_by_role("checkbox", name="Select curves for TensorBoard").check()
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Open in TensorBoard").click()
    expect(opened.value.locator("tb-webapp")).to_be_visible(timeout=60_000)
    boards = ada.get("tensorboards/")["results"]
    assert len(boards) == 1
    page.goto(f"/tensorboards/{boards[0]['id']}/")
    expect(page.locator("#service-content")).to_contain_text("curves")
    page.locator("#stop").click()
    expect(page.locator("#service-header .badge")).to_have_text("Stopped", timeout=90_000)
