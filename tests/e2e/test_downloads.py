"""What a browser shows of a download that is refused."""

import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, expect

from portal.web.downloads import MAX_PER_PERSON
from tests.portal.server.test_slow_clients import asked, small_ones
from tests.portal.whole import Whole, page_headers, whole_portal
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e

KEPT_BYTES = 8 * 1024**2  # more than kernels take by themselves of what is not read


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    home = tmp_path_factory.mktemp("keeper") / "home"
    with whole_portal(home, admins=1, kept_bytes=KEPT_BYTES) as whole:
        yield whole


LINKS = {
    "log": ("/trainings/{0.job_id}/", "[data-log-download]"),
    "file": ("/trainings/{0.job_id}/", "[id='file-{0.artifact_id}']"),
    "trail": ("/admin/audit/", "a[href^='/admin/audit/csv/']"),
}


@pytest.mark.parametrize("name", LINKS)
def test_one_too_many_is_a_page_that_says_so_and_the_next_one_a_file(
    keeper: Whole, browser: Browser, name: str
) -> None:
    """Chromium shows no page in place of what a link with `download` asks for, but a failed download."""
    path, link = (one.format(keeper) for one in LINKS[name])
    headers = page_headers(keeper.admin_session) if name == "trail" else keeper.page_headers
    cookies = [
        {"name": key, "value": value, "url": keeper.url}
        for key, value in re.findall(r"([\w-]+)=([^;]+)", headers["Cookie"])
    ]
    with ExitStack() as stack, ExitStack() as taken:
        context = browser.new_context(base_url=keeper.url)
        stack.callback(context.close)
        context.add_cookies(cookies)  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(path)
        href = page.locator(link).get_attribute("href") or ""

        def are_taken() -> bool:
            taken.close()
            ones = small_ones(taken, keeper.port, MAX_PER_PERSON, asked(href, headers))
            return {one.recv(12)[9:] for one in ones} == {b"200"}

        wait_for("all places are taken", are_taken, timeout_s=30)
        with page.expect_navigation() as shown:
            page.locator(link).click()
        assert (shown.value.status, shown.value.headers["retry-after"]) == (429, "5")
        expect(page.locator("main")).to_contain_text("Four of your downloads are already under way")
        taken.close()
        page.goto(path)
        with page.expect_download() as download:
            page.locator(link).click()
        assert download.value.path().stat().st_size > KEPT_BYTES * 0.9
        assert re.search(r"\.(log|csv|\w+)$", download.value.suggested_filename)
