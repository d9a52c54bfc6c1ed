"""One whole Homeport for all browser tests, and browser pages that fail on errors in the console."""

import functools
import os
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.e2e.portal import PASSWORD, Portal, Rest, new_home, thrown_away
from tests.e2e.scripted import Seeded, seeded_pages
from tests.tools import browsers

FLAGS = [
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


# A real portal, cluster and browser share few cores; who waits longer waits only when it fails.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="session")
def portal() -> Iterator[Portal]:
    # Images are kept between runs where the environment says so: pulling TensorFlow is not what
    # most of these tests are about.
    with thrown_away(Portal(new_home("e2e"))) as running:
        yield running


@pytest.fixture(scope="module")  # some tests end everything that a person is signed in with
def ada(portal: Portal) -> Rest:
    rest = portal.sign_in("ada")
    rest.tenant()
    return rest


@pytest.fixture(scope="module")  # some tests end everything that a person is signed in with
def lin(portal: Portal) -> Rest:
    rest = portal.sign_in("lin")
    rest.tenant()
    return rest


@pytest.fixture(scope="module")
def root(portal: Portal) -> Rest:
    return portal.sign_in("root")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = browsers.find()
    assert program is not None, browsers.NONE
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=FLAGS, chromium_sandbox=os.getuid() != 0
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def seeded(browser: Browser) -> Iterator[Seeded]:
    """A portal without a cluster, whose websockets are played by the tests."""
    with seeded_pages(browser) as made:
        yield made


def _add_error(problems: list[str], message: ConsoleMessage) -> None:
    """All but a request that ended because its page was left: htmx tells that by these two events."""
    if message.type == "error" and not message.text.startswith(
        ("htmx:afterRequest,", "htmx:sendAbort,")
    ):
        problems.append(message.text)


@pytest.fixture
def page_of_own(browser: Browser) -> Iterator[Callable[..., Page]]:
    """`page_of_own(portal, "ada", width=1400, dark=False)`: a signed-in page of any installation.

    Errors in its console fail the test.
    """
    problems: list[str] = []
    contexts = []

    def make(portal: Portal, name: str, *, width: int = 1400, dark: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            base_url=portal.url,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: _add_error(problems, message))
        page.goto("/")
        page.get_by_label("User name").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(portal.url + "/")
        return page

    yield make
    for context in contexts:
        context.close()
    assert not problems, problems


@pytest.fixture
def page_of(portal: Portal, page_of_own: Callable[..., Page]) -> Callable[..., Page]:
    """`page_of("ada")`: a signed-in page of the shared installation."""
    return functools.partial(page_of_own, portal)
