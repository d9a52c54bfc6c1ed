"""Our scripts in a real browser: log pane, live parts, the form. There is no cluster: rows are
seeded (tests/e2e/seed.py) and these tests are the other end of the websockets.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Response, WebSocketRoute, expect

from portal import wording
from tests.e2e.screens import open_page, seeded_portal, sign_in
from tests.e2e.seed import PASSWORD

pytestmark = pytest.mark.e2e


@dataclass
class Seeded:
    """A portal without a cluster, and pages of somebody who is signed in there."""

    url: str
    jobs: dict[str, str]
    browser: Browser
    state: Any

    def page(self, *, width: int = 1400) -> Page:
        return open_page(self.browser, self.url, self.state, width=width, is_dark=False)


@pytest.fixture(scope="module")
def seeded(browser: Browser) -> Iterator[Seeded]:
    with seeded_portal() as (url, jobs):
        yield Seeded(url, jobs, browser, sign_in(browser, url, "ada"))


@dataclass
class Server:
    """The other end of a websocket: what connected, and what is sent to the latest."""

    sockets: list[WebSocketRoute] = field(default_factory=list)

    def take(self, socket: WebSocketRoute) -> None:
        self.sockets.append(socket)

    def send(self, **frame: Any) -> None:
        self.sockets[-1].send(json.dumps(frame))

    def lines(self, replica: str, *texts: str, cursor: str = "c") -> None:
        shown = [{"t": "2026-11-20T10:02:03.5Z", "text": text} for text in texts]
        self.send(type="lines", replica=replica, cursor=cursor, lines=shown)


@pytest.fixture
def open_log(seeded: Seeded) -> Iterator[Callable[[str], tuple[Page, Server]]]:
    """`open_log("running")`: the page of a training, and the server of its log."""
    pages = []

    def make(name: str) -> tuple[Page, Server]:
        page, server = seeded.page(), Server()
        pages.append(page)
        page.route_web_socket("**/ws/jobs/**", server.take)
        page.goto(f"/trainings/{seeded.jobs[name]}/")
        page.wait_for_function("() => document.querySelector('.log-state').dataset.logState")
        return page, server

    yield make
    for page in pages:
        page.context.close()


def log_rows(page: Page) -> list[str]:
    texts: list[str] = page.locator(".log-row .log-text").all_inner_texts()
    return texts


# --- the log pane ---


def test_lines_of_all_replicas_arrive_with_their_names_and_colours(
    open_log: Callable[[str], tuple[Page, Server]],
) -> None:
    page, server = open_log("running")
    server.lines("worker-1", "\x1b[1;31mERROR\x1b[0m plain", "20%\r40%\r60%\r")
    server.lines("ps-0", "\x1b[38;5;46mgreen\x1b[m")
    log = page.get_by_role("log")
    expect(log).to_contain_text("ERROR plain")
    expect(log).to_contain_text("green")
    assert log_rows(page) == ["ERROR plain", "60%", "green"]
    assert page.locator(".sgr-bold.sgr-fg-1").inner_text() == "ERROR"
    assert page.locator(".log-who").all_inner_texts() == ["worker-1", "worker-1", "ps-0"]
    expect(page.locator("[data-log-state=live]")).to_have_text("Live")


def test_what_a_program_writes_stays_text(
    open_log: Callable[[str], tuple[Page, Server]],
) -> None:
    page, server = open_log("running")
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog opened: {dialog.message}"))
    evil = [
        "<img src=x onerror=alert(1)>",
        "<script>alert(1)</script>",
        "\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07",
        "\x1b[2J\x1b[Hcleared",
        "\u202egnp.exe",
    ]
    server.lines("worker-0", *evil)
    expect(page.get_by_role("log")).to_contain_text("cleared")
    page.locator("[data-log-filter]").fill("<script>")
    expect(page.get_by_role("log")).to_contain_text("<script>alert(1)</script>")
    assert page.locator(".log-window img, .log-window script, .log-window a").count() == 0


def test_a_flood_keeps_the_page_small_and_says_what_is_missing(
    open_log: Callable[[str], tuple[Page, Server]],
) -> None:
    page, server = open_log("running")
    for start in range(0, 60_000, 1000):
        server.lines("worker-0", *[f"line {n}" for n in range(start, start + 1000)])
    server.send(type="skipped", replica="worker-0", count=123_456)
    server.lines("worker-0", "the last line")
    expect(page.get_by_role("log")).to_contain_text("the last line", timeout=20_000)
    assert page.locator(".log-row").count() <= 5_250
    log = page.get_by_role("log")
    expect(log).to_contain_text("123,456 lines skipped")
    expect(log).to_contain_text("Older lines are not shown here")
    assert "line 59999" in log_rows(page)
    assert page.get_by_role("log").get_attribute("aria-live") in {"off", "polite"}
    at_end = "e => e.scrollHeight - e.scrollTop - e.clientHeight < 2"
    assert log.evaluate(at_end)


def test_who_reads_further_up_is_left_alone(
    open_log: Callable[[str], tuple[Page, Server]],
) -> None:
    page, server = open_log("running")
    server.lines("worker-0", *[f"line {n}" for n in range(400)])
    log = page.get_by_role("log")
    expect(log).to_contain_text("line 399")
    log.hover()
    page.mouse.wheel(0, -2000)
    expect(page.locator("[data-log-toggle=follow]")).to_have_attribute("aria-pressed", "false")
    page.wait_for_timeout(200)
    before = log.evaluate("e => e.scrollTop")
    server.lines("worker-0", *[f"more {n}" for n in range(50)])
    new = page.locator("[data-log-new]")
    expect(new).to_contain_text("50 new lines")
    assert log.evaluate("e => e.scrollTop") == before
    new.click()
    expect(page.locator("[data-log-toggle=follow]")).to_have_attribute("aria-pressed", "true")
    assert log.evaluate("e => e.scrollHeight - e.scrollTop - e.clientHeight < 2")


def test_the_end_of_a_log_can_be_left_slowly(
    open_log: Callable[[str], tuple[Page, Server]],
) -> None:
    page, server = open_log("running")
    server.lines("worker-0", *[f"line {n}" for n in range(400)])
    log, follow = page.get_by_role("log"), page.locator("[data-log-toggle=follow]")
    expect(log).to_contain_text("line 399")
    log.hover()
    for _ in range(10):
        page.mouse.wheel(0, -8)
        page.wait_for_timeout(50)
    expect(follow).to_have_attribute("aria-pressed", "false")
    at = log.evaluate("e => e.scrollTop")
    assert log.evaluate("e => e.scrollHeight - e.scrollTop - e.clientHeight") >= 70
    server.lines("worker-0", "one more")
    expect(page.locator("[data-log-new]")).to_contain_text("1 new line")
    assert log.evaluate("e => e.scrollTop") == at
    page.mouse.wheel(0, 400)
    expect(follow).to_have_attribute("aria-pressed", "true")


def test_a_lost_connection_comes_back_where_it_was(
    open_log: Callable[[str], tuple[Page, Server]],
) -> None:
    page, server = open_log("running")
    server.lines("worker-0", "first", cursor="cursor/1=")
    expect(page.get_by_role("log")).to_contain_text("first")
    # It is said for as long as the next try is off, which may be shorter than a look from here.
    page.evaluate(
        """() => {
          window.saidStates = [];
          const pane = document.querySelector("[data-log-state]").parentElement;
          const note = () => window.saidStates.push(pane.textContent);
          new MutationObserver(note).observe(pane, {
            subtree: true, childList: true, characterData: true, attributes: true,
          });
        }"""
    )
    server.sockets[-1].close(code=1011)
    page.wait_for_function('window.saidStates.some((text) => text.includes("trying again in"))')
    expect(page.locator("[data-log-state=live]")).to_be_visible(timeout=10_000)
    assert server.sockets[-1].url.endswith("logs/?cursor=cursor%2F1%3D")
    server.lines("worker-0", "second")
    expect(page.get_by_role("log")).to_contain_text("second")
    assert log_rows(page) == ["first", "second"]


def test_the_end_is_the_end(open_log: Callable[[str], tuple[Page, Server]]) -> None:
    page, server = open_log("succeeded")
    server.lines("worker-0", "done")
    server.send(type="end")
    expect(page.locator("[data-log-state=end]")).to_have_text("Complete")
    page.wait_for_timeout(1500)
    assert len(server.sockets) == 1


@pytest.mark.parametrize(
    ("code", "words"), [(4401, "You are signed out."), (4404, "This training is gone.")]
)
def test_a_refusal_is_told_and_not_tried_again(
    open_log: Callable[[str], tuple[Page, Server]], code: int, words: str
) -> None:
    page, server = open_log("running")
    server.sockets[-1].close(code=code)
    expect(page.locator("[data-log-state=lost]")).to_contain_text(words)
    page.wait_for_timeout(1500)
    assert len(server.sockets) == 1


def test_a_pane_opened_early_says_what_it_waits_for_and_starts_by_itself(
    open_log: Callable[[str], tuple[Page, Server]],
) -> None:
    page, server = open_log("starting")
    server.send(type="state", replica="worker-0", state="starting", reason="pulling the image")
    expect(page.locator(".log-empty")).to_have_text("Waiting for worker-0: pulling the image")
    server.send(type="state", replica="worker-0", state="running", reason="")
    server.lines("worker-0", "hello")
    expect(page.locator("[data-log-state=live]")).to_have_text("Live")
    assert page.locator(".log-empty").count() == 0


def test_one_replica_is_asked_for_by_name(
    open_log: Callable[[str], tuple[Page, Server]],
) -> None:
    page, server = open_log("running")
    server.lines("worker-0", "of worker-0")
    expect(page.get_by_role("log")).to_contain_text("of worker-0")
    page.locator("[data-show-log=worker-1]").first.click()
    expect(page.get_by_role("log")).not_to_contain_text("of worker-0")
    assert server.sockets[-1].url.endswith("logs/?replica=worker-1")
    expect(page.locator("[data-replica=worker-1]")).to_have_attribute("aria-pressed", "true")
    download = page.locator("[data-log-download]").get_attribute("href") or ""
    assert download.endswith("/log/?replica=worker-1")


def test_the_filter_hides_and_marks(open_log: Callable[[str], tuple[Page, Server]]) -> None:
    page, server = open_log("running")
    server.lines("worker-0", "Loss 1", "other", "LOSS 2")
    expect(page.get_by_role("log")).to_contain_text("LOSS 2")
    page.locator("[data-log-filter]").fill("loss")
    expect(page.locator(".log-row")).to_have_count(2)
    assert page.locator("mark").all_inner_texts() == ["Loss", "LOSS"]
    server.lines("worker-0", "nothing", "loss 3")
    expect(page.locator(".log-row")).to_have_count(3)
    page.locator("[data-log-filter]").fill("")
    expect(page.locator(".log-row")).to_have_count(5)


# --- live parts ---


def open_and_settle(page: Page, path: str, last: str) -> None:
    """Opens a page and waits until the first re-check of its parts has been answered."""

    def is_recheck(response: Response) -> bool:
        return response.url.endswith(last) and "homeport-have" in response.request.headers

    with page.expect_response(is_recheck):
        page.goto(path)
    page.wait_for_load_state("networkidle")


def test_parts_of_a_page_follow_what_changed(seeded: Seeded) -> None:
    page, live = seeded.page(), Server()
    page.route_web_socket("**/ws/live/", live.take)
    job = seeded.jobs["running"]
    open_and_settle(page, f"/trainings/{job}/", "part/artifacts/")
    expect(page.locator("#stop")).to_have_text("Stop")
    asked: list[str] = []
    page.on(
        "request", lambda request: asked.append(request.url) if "/part/" in request.url else None
    )
    other = seeded.page()
    other.goto(f"/trainings/{job}/stop/")
    other.get_by_role("button", name="Stop it").click()
    other.wait_for_url(f"**/trainings/{job}/")
    live.send(type="changed", kind="job", id=seeded.jobs["failed"], revision=9)
    live.send(type="changed", kind="job", id=job, revision=2)
    expect(page.locator("#stop")).to_have_text("Stopping")
    expect(page.locator("#job-replicas")).to_have_attribute("data-revision", "2")
    live.send(type="changed", kind="job", id=job, revision=2)
    page.wait_for_timeout(900)
    assert len([url for url in asked if "/part/header/" in url]) == 1
    assert all(job in url for url in asked)
    page.context.close()
    other.context.close()


def test_a_message_that_was_missed_is_repaired_on_reconnect(seeded: Seeded) -> None:
    page, live = seeded.page(), Server()
    page.route_web_socket("**/ws/live/", live.take)
    job = seeded.jobs["starting"]
    open_and_settle(page, f"/trainings/{job}/", "part/artifacts/")
    other = seeded.page()
    other.goto(f"/trainings/{job}/stop/")
    other.get_by_role("button", name="Stop it").click()
    other.wait_for_url(f"**/trainings/{job}/")
    live.sockets[-1].close(code=1011)
    expect(page.locator("#stop")).to_have_text("Stopping", timeout=10_000)
    expect(page.locator("#job-events")).to_have_attribute("data-revision", "2")
    page.context.close()
    other.context.close()


def test_an_open_fold_stays_open_when_its_part_is_read_again(seeded: Seeded) -> None:
    page, live = seeded.page(), Server()
    page.route_web_socket("**/ws/live/", live.take)
    open_and_settle(page, "/", "part/closed/")
    fold = page.locator("#objects")
    assert fold.get_attribute("open") is None
    fold.locator("summary").click()
    with page.expect_response("**/tenant/part/quota/"):
        live.send(type="changed", kind="job", id=seeded.jobs["failed"], revision=99)
    page.wait_for_timeout(100)
    namespace = page.locator("#namespace").get_attribute("data-live") or ""
    with page.expect_response("**/tenant/part/namespace/"):
        live.send(type="changed", kind="tenant", id=namespace.split(":")[1], revision=99)
    expect(page.locator("#objects")).to_have_attribute("open", "")
    page.context.close()


# --- the form ---


def archive(**files: str) -> dict[str, Any]:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return {"name": "code.zip", "mimeType": "application/zip", "buffer": content.getvalue()}


def test_an_upload_is_kept_through_errors_and_submitted(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/trainings/new/")
    page.locator("input[type=file]").set_input_files(
        archive(**{"p/train.py": "", "p/lib/x.py": ""})
    )
    upload = page.locator("[data-upload]")
    name = page.get_by_label("Name", exact=True)
    expect(name).to_have_value("code")
    name.fill("")
    expect(upload).to_contain_text("2 files inside")
    upload.get_by_role("button", name="python train.py").click()
    expect(page.get_by_label("Command")).to_have_value("python train.py")
    expect(page.locator("#preview")).to_contain_text("worker-0")
    page.get_by_role("button", name="Start training").click()
    expect(page.locator("#errors")).to_contain_text("Name: This is needed.")
    expect(name).to_be_focused()
    expect(upload).to_contain_text("code.zip")
    expect(upload).to_contain_text("2 files inside")
    page.keyboard.type("kept")
    page.get_by_role("button", name="Start training").click()
    page.wait_for_url("**/trainings/*-*/")
    expect(page.get_by_role("heading", name="kept")).to_be_visible()
    page.context.close()


def test_a_broken_archive_is_told_at_once(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/trainings/new/")
    broken = {"name": "code.tar.gz", "mimeType": "application/gzip", "buffer": b"nonsense" * 99}
    page.locator("input[type=file]").set_input_files(broken)
    expect(page.locator("[data-upload-error]")).to_contain_text("cannot be read as an archive")
    page.context.close()


def test_what_is_too_large_is_refused_before_it_is_sent(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/trainings/new/")
    page.locator("[data-drop]").evaluate("e => (e.dataset.maxBytes = 10)")
    large = {"name": "a.py", "mimeType": "text/plain", "buffer": b"more than ten bytes"}
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.locator("input[type=file]").set_input_files(large)
    expect(page.locator("[data-upload-error]")).to_contain_text("at most 10 B are taken")
    assert not [url for url in sent if "bundles" in url]
    page.context.close()


def test_the_panel_follows_what_is_typed(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/trainings/new/")
    fit = page.locator("#fit")
    expect(fit).to_contain_text("asked for here: 1")
    page.get_by_label("Parameter servers and workers").check()
    page.locator("[name='replicas.worker.count']").fill("2")
    expect(fit).to_contain_text("asked for here: 3")
    page.locator("[name='replicas.worker.gpu']").fill("3")
    expect(fit).to_contain_text("Can never fit")
    page.locator("[name='replicas.worker.gpu']").fill("none")
    expect(fit).to_contain_text("Workers, GPU:")
    page.context.close()


def test_a_form_left_by_mistake_can_be_brought_back(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/trainings/new/")
    page.get_by_label("Name", exact=True).fill("precious")
    page.get_by_label("Web address", exact=True).first.check()
    page.get_by_role("button", name="Add a variable").click()
    page.get_by_label("Variable name").fill("SEED")
    page.get_by_label("Variable value").fill("7")
    page.goto("/")
    page.goto("/trainings/new/")
    page.get_by_role("button", name="Bring it back").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("precious")
    expect(page.get_by_label("Variable name")).to_have_value("SEED")
    assert page.locator("[name=source_kind]:checked").input_value() == "url"
    page.context.close()


# --- words, themes, keyboard ---


def test_scripts_and_templates_say_durations_and_amounts_alike(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/")
    seconds = [0, 1, 59, 60, 61, 599, 600, 3599, 3600, 3661, 86399, 86400, 90000, 10**7]
    said = page.evaluate(
        "async s => (await import('/static/js/ages.js')).durationText && "
        "s.map((await import('/static/js/ages.js')).durationText)",
        seconds,
    )
    assert said == [wording.duration_text(s) for s in seconds]
    sizes = [0, 1, 1023, 1024, 1536, 1048524, 1048575, 2**30, 5 * 2**40 + 2**39, 2**62]
    said = page.evaluate("async s => s.map((await import('/static/js/words.js')).bytesText)", sizes)
    assert said == [wording.bytes_text(size) for size in sizes]
    page.context.close()


def test_the_theme_is_kept_and_goes_round(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/")
    toggle = page.locator("[data-theme-toggle]")
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)
    toggle.click()
    toggle.click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    dark = page.evaluate(background)
    assert dark != light
    page.goto("/trainings/")
    assert page.evaluate(background) == dark
    toggle.click()
    assert page.evaluate(background) == light
    page.context.close()


def test_the_keyboard_reaches_the_content_and_closes_what_it_opened(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto(f"/trainings/{seeded.jobs['queued']}/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.locator("#delete").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator("#delete")).to_be_focused()
    page.context.close()


@pytest.mark.parametrize("width", [400, 768, 1600])
def test_no_page_is_wider_than_its_window(seeded: Seeded, width: int) -> None:
    page = seeded.page(width=width)
    training = f"/trainings/{seeded.jobs['running']}/"
    for path in ("/", "/trainings/", "/trainings/new/?example=meet", training, "/account/"):
        page.goto(path)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    page.context.close()


def test_a_session_that_ended_asks_to_sign_in_and_comes_back(seeded: Seeded) -> None:
    page = seeded.page()
    page.route_web_socket("**/ws/live/", Server().take)
    open_and_settle(page, "/trainings/?state=failed", "/trainings/?state=failed")
    page.context.clear_cookies()
    page.get_by_label("Search by name").fill("transformer")
    page.wait_for_url("**/sign-in/**")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/trainings/?state=failed")
    page.context.close()
