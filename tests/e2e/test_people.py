"""People as admins meet them: inviting, joining, disabling; and signing in by a provider."""

import re
import time
from collections.abc import Callable, Iterator

import pytest
import requests
from playwright.sync_api import Browser, ConsoleMessage, Page, expect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.e2e.portal import Portal, Rest
from tests.tenants.people.oidc_portal import OidcPortal, oidc_portal

pytestmark = pytest.mark.e2e
NEW_PASSWORD = "orange tugboat 7"


def invite(page: Page, name: str) -> str:
    """Invites somebody into the team vision; the link that the page shows."""
    page.goto("/admin/people/")
    page.get_by_role("link", name="Invite person").click()
    page.get_by_label("User name").fill(name)
    page.get_by_label("First name").fill(name.title())
    page.get_by_label("Team").select_option("vision")
    page.get_by_role("button", name="Invite").click()
    expect(page.get_by_role("heading", name=f"{name.title()} is invited")).to_be_visible()
    link = page.locator("#link").inner_text()
    assert "/join/" in link
    return link


def join(page: Page, link: str) -> None:
    page.goto(link)
    page.get_by_label("New password", exact=True).fill(NEW_PASSWORD)
    page.get_by_label("Repeat new password").fill(NEW_PASSWORD)
    page.get_by_role("button", name="Join").click()


def token_of(portal: Portal, name: str) -> Rest:
    body = {"username": name, "password": NEW_PASSWORD}
    answer = requests.post(f"{portal.url}/api/v1/auth/token/", json=body, timeout=30)
    return Rest(portal, answer.json()["token"])


def disable(root: Page, name: str) -> None:
    root.goto(f"/admin/people/?q={name}")
    root.get_by_role("link", name=name.title()).click()
    root.get_by_role("link", name="Disable").click()
    root.get_by_role("dialog").get_by_role("button", name="Disable").click()
    expect(root.locator('.badge[data-state="disabled"]')).to_be_visible()


def open_socket(portal: Portal, headers: dict[str, str]) -> ClientConnection:
    url = f"ws://localhost:{portal.port}/ws/live/"
    return connect(url, additional_headers=headers, origin=portal.url, open_timeout=30)


def close_code(socket: ClientConnection, timeout_s: float) -> int:
    """The code with which the server closes.

    Raises:
        TimeoutError: it does not in time.
    """
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            socket.recv(timeout=max(0.1, deadline - time.monotonic()))
    except ConnectionClosed as end:
        return end.rcvd.code if end.rcvd is not None else 0


def test_an_invited_person_joins_in_another_browser_and_has_a_namespace(
    portal: Portal, browser: Browser, page_of: Callable[..., Page]
) -> None:
    link = invite(page_of("root"), "nina")
    context = browser.new_context(base_url=portal.url)
    page = context.new_page()
    join(page, link)
    page.wait_for_url(f"{portal.url}/")
    tenant = token_of(portal, "nina").tenant()
    assert tenant["namespace"].startswith("u-nina-")
    assert tenant["team"] == "vision"
    page.goto(link)
    expect(page.get_by_role("heading", name="This link has expired")).to_be_visible()
    context.close()


def test_who_is_disabled_is_out_within_a_minute(
    portal: Portal, browser: Browser, page_of: Callable[..., Page]
) -> None:
    root = page_of("root")
    link = invite(root, "otto")
    context = browser.new_context(base_url=portal.url)
    page = context.new_page()
    join(page, link)
    page.wait_for_url(f"{portal.url}/")
    terminal = token_of(portal, "otto")
    key = next(c["value"] for c in context.cookies() if c["name"] == "homeport_session")
    badges = ({"Cookie": f"homeport_session={key}"}, {"Authorization": f"Token {terminal.token}"})
    with open_socket(portal, badges[0]) as by_session, open_socket(portal, badges[1]) as by_token:
        disable(root, "otto")
        started = time.monotonic()
        assert terminal.call("GET", "me/").status_code == 401
        page.goto("/trainings/")
        assert page.url.startswith(f"{portal.url}/sign-in/")
        assert [close_code(socket, 60) for socket in (by_session, by_token)] == [4401, 4401]
        assert time.monotonic() - started < 60
    body = {"username": "otto", "password": NEW_PASSWORD}
    answer = requests.post(f"{portal.url}/api/v1/auth/token/", json=body, timeout=30)
    assert answer.status_code == 401
    context.close()


def test_a_page_that_is_open_learns_of_it_by_itself(
    portal: Portal, browser: Browser, page_of: Callable[..., Page]
) -> None:
    """The list of people is read again when another admin's browser changes somebody."""
    watching, working = page_of("root"), page_of("root")
    watching.goto("/admin/people/")
    invite(working, "paula")
    expect(watching.get_by_role("link", name="Paula")).to_be_visible(timeout=20_000)


def test_the_trail_shows_what_was_done_and_comes_as_csv(page_of: Callable[..., Page]) -> None:
    root = page_of("root")
    invite(root, "quentin")
    root.goto("/admin/audit/")
    root.get_by_label("Search people, objects, addresses").fill("quentin")
    root.wait_for_url("**/admin/audit/?q=quentin*")
    expect(root.get_by_role("row")).to_have_count(2)  # the head and the invitation
    row = root.get_by_role("row").filter(has_text="invited")
    expect(row).to_contain_text("quentin")
    expect(row).to_contain_text("team: vision")
    with root.expect_download() as download:
        root.get_by_role("link", name="Export CSV").click()
    text = download.value.path().read_text("utf-8-sig")
    assert re.search(r",root,invite,user,quentin,", text)
    assert ",sign-in," not in text


def test_everything_about_a_person_can_be_done_by_keyboard(page_of: Callable[..., Page]) -> None:
    root = page_of("root")
    invite(root, "rosa")
    root.goto("/admin/people/?q=rosa")
    root.get_by_role("link", name="Rosa").focus()
    root.keyboard.press("Enter")
    root.get_by_role("link", name="Disable").focus()
    root.keyboard.press("Enter")
    dialog = root.get_by_role("dialog")
    expect(dialog).to_be_visible()
    root.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(root.locator('.badge[data-state="invited"]')).to_be_visible()


@pytest.fixture(scope="module")
def lab() -> Iterator[OidcPortal]:
    with oidc_portal() as running:
        yield running


def is_ours(lab: OidcPortal, message: ConsoleMessage) -> bool:
    """An error on a page of the portal; what the provider's pages lack is not its fault."""
    return message.type == "error" and message.location["url"].startswith(lab.url)


def test_signing_in_by_the_provider(lab: OidcPortal, browser: Browser) -> None:
    """With the browser's own rules for forms, redirects and cookies."""
    context = browser.new_context(base_url=lab.url)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda m: problems.append(m.text) if is_ours(lab, m) else None)
    page.goto("/sign-in/?next=/trainings/")
    page.get_by_role("button", name="Sign in with Lab login").click()
    expect(page.get_by_role("heading", name="Lab login", exact=True)).to_be_visible()
    page.get_by_role("link", name="sub-ann").click()
    page.wait_for_url(f"{lab.url}/trainings/")
    page.goto("/account/")
    expect(page.get_by_text("This browser")).to_be_visible()
    expect(page.get_by_text("You sign in without a Homeport password.")).to_be_visible()
    assert not problems, problems
    context.close()


def test_connecting_the_provider_to_an_account(lab: OidcPortal, browser: Browser) -> None:
    context = browser.new_context(base_url=lab.url)
    page = context.new_page()
    page.goto("/sign-in/")
    page.get_by_role("button", name="Sign in with Lab login").click()
    page.get_by_role("link", name="sub-ada").click()
    expect(page.get_by_text("connect Lab login on your account page")).to_be_visible()
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill("a long demo password")
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.goto("/account/")
    page.get_by_role("button", name="Connect Lab login").click()
    page.get_by_role("link", name="sub-ada").click()
    expect(page.get_by_text("Connected: you can sign in with Lab login.")).to_be_visible()
    context.close()
