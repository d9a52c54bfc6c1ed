"""What the tests of a person's day do again and again, and how they take their pictures."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.e2e.portal import PASSWORD, ROOT

EXAMPLES = ROOT / "docs" / "examples"
SIZE = {"width": 1200, "height": 800}
# The first notebook of an installation pulls its image: JupyterLab and TensorFlow.
PULL_MS = 600_000
LAB_MS = 120_000
RUN_MS = 120_000


def picture(page: Page, name: str, *, at: str = "", height: int = 800) -> None:
    """What is on the screen now, with the element `at` in view; nothing without PICTURES."""
    if "PICTURES" not in os.environ:
        return
    expect(page.locator(".toast")).to_have_count(0)
    if at:
        page.locator(at).first.evaluate(
            "e => scrollTo(0, e.getBoundingClientRect().top + scrollY - 90)"
        )
    # What hides the caret or stops animations is a style that the pages forbid.
    target = Path(os.environ["PICTURES"]) / f"{name}.png"
    clip = {"x": 0, "y": 0, "width": SIZE["width"], "height": height}
    page.screenshot(path=target, caret="initial", clip=clip)


def badge(page: Page) -> Any:
    return page.locator(".job-meta .badge").first


def uploaded(page: Page, script: Path, name: str) -> None:
    """A form of a new training with its name and its script, on the image of plain Python."""
    page.get_by_role("link", name="Trainings", exact=True).first.click()
    page.get_by_role("link", name="New training").first.click()
    page.get_by_label("Name", exact=True).fill(name)
    page.locator("input[type=file]").set_input_files(script)
    page.get_by_role("button", name=f"python {script.name}").click()
    page.get_by_role("button", name=re.compile("Python 3.11")).click()
    expect(page.locator("#image")).to_have_value("python:3.11-slim")
    page.get_by_role("button", name=re.compile("^Small")).first.click()


def start(page: Page) -> str:
    """Starts what the form has; the id of the training."""
    expect(page.locator("#fit")).to_contain_text(re.compile("Fits now|Will be queued"))
    page.get_by_role("button", name="Start training").click()
    page.wait_for_url(re.compile(r"/trainings/[0-9a-f-]{36}/$"))
    return page.url.rstrip("/").rsplit("/", 1)[-1]


def sign_out(page: Page, name: str) -> None:
    page.get_by_label(f"Account of {name}").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def opened(page: Page, press: Callable[[], None]) -> Page:
    """The tab that a click opens."""
    with page.context.expect_page() as found:
        press()
    tab = found.value
    tab.set_viewport_size(SIZE)
    return tab


def joined(page: Page, link: str) -> None:
    page.goto(link)
    page.get_by_label("New password", exact=True).fill(PASSWORD)
    page.get_by_label("Repeat new password").fill(PASSWORD)
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
