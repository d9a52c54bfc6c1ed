"""The log pane in a real browser: these tests are the other end of its websocket."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.scripted import Seeded, Server

pytestmark = pytest.mark.e2e


OpenLog = Callable[[str], tuple[Page, Server]]


@pytest.fixture
def open_log(seeded: Seeded) -> Iterator[OpenLog]:
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


def test_lines_of_all_replicas_arrive_with_their_names_and_colours(open_log: OpenLog) -> None:
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


def test_what_a_program_writes_stays_text(open_log: OpenLog) -> None:
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


def test_a_flood_keeps_the_page_small_and_says_what_is_missing(open_log: OpenLog) -> None:
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


def test_a_bar_is_seen_again_after_a_flood_of_another_replica(open_log: OpenLog) -> None:
    page, server = open_log("running")

    def bar(text: str) -> None:
        server.send(type="unfinished", replica="worker-0", lines=[{"t": "", "text": text}])

    log = page.get_by_role("log")
    bar("10%")
    expect(log).to_contain_text("10%")
    for start in range(0, 7_000, 1000):
        texts = [f"line {n}" for n in range(start, start + 1000)]
        server.lines("worker-1", *texts)
    expect(log).to_contain_text("line 6999", timeout=20_000)
    for text in ("55%", "56%"):
        bar(text)
        expect(log).to_contain_text(text)
    assert [row for row in log_rows(page) if "%" in row] == ["56%"]
    server.lines("worker-0", "100%")
    expect(log).to_contain_text("100%")
    assert [row for row in log_rows(page) if "%" in row] == ["100%"]


def test_who_reads_further_up_is_left_alone(open_log: OpenLog) -> None:
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


def test_a_log_is_read_further_up_by_the_scrollbar_too(open_log: OpenLog) -> None:
    page, server = open_log("running")
    server.lines("worker-0", *[f"line {n}" for n in range(400)])
    log = page.get_by_role("log")
    expect(log).to_contain_text("line 399")
    page.wait_for_timeout(300)
    log.evaluate("element => (element.scrollTop -= 1500)")
    pressed = page.locator("[data-log-toggle=follow]")
    expect(pressed).to_have_attribute("aria-pressed", "false", timeout=5_000)
    before = log.evaluate("element => element.scrollTop")
    server.lines("worker-0", "one more")
    expect(page.locator("[data-log-new]")).to_contain_text("1 new line")
    assert log.evaluate("element => element.scrollTop") == before
    log.evaluate("element => (element.scrollTop = element.scrollHeight)")
    expect(pressed).to_have_attribute("aria-pressed", "true")


def test_the_end_of_a_log_can_be_left_slowly(open_log: OpenLog) -> None:
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


def test_a_lost_connection_comes_back_where_it_was(open_log: OpenLog) -> None:
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


def test_a_log_of_many_replicas_goes_on_where_it_was(open_log: OpenLog) -> None:
    """Its place is longer than the head of a request may be: it goes by frames."""
    page, server = open_log("running")
    place = "~".join(f"worker-{n}.l.1.1732900000123456789.1.4abcdef012345" for n in range(400))
    server.lines("worker-0", "first", cursor=place)
    expect(page.get_by_role("log")).to_contain_text("first")
    server.sockets[-1].close(code=1011)
    for _ in range(100):
        if len(server.sockets) > 1:
            break
        page.wait_for_timeout(100)
    assert len(server.sockets[-1].url) < 5_000
    count = re.search(r"cursor_frames=(\d+)", server.sockets[-1].url)
    assert count is not None
    server.lines("worker-0", "second")
    expect(page.get_by_role("log")).to_contain_text("second")
    assert log_rows(page) == ["first", "second"]
    assert "".join(server.heard) == place
    assert len(server.heard) == int(count[1])
    assert max(map(len, server.heard)) <= 4096


def test_the_end_is_the_end(open_log: OpenLog) -> None:
    page, server = open_log("succeeded")
    server.lines("worker-0", "done")
    server.send(type="end")
    expect(page.locator("[data-log-state=end]")).to_have_text("Complete")
    page.wait_for_timeout(1500)
    assert len(server.sockets) == 1


def test_an_archived_log_says_that_it_has_neither_times_nor_their_order(open_log: OpenLog) -> None:
    page, server = open_log("succeeded")
    times = page.locator("[data-log-toggle=times]")
    expect(times).to_have_attribute("aria-disabled", "false")
    times.click()
    expect(times).to_have_attribute("aria-pressed", "true")
    server.lines("worker-0", "done", time="")
    server.lines("worker-1", "done", time="")
    expect(times).to_have_attribute("aria-disabled", "true")
    server.send(type="end")
    ended = page.locator("[data-log-state=end]")
    expect(ended).to_have_text("Complete, one replica after the other")
    for pressed in ("false", "false"):  # it stays as it is
        expect(times).to_have_attribute("aria-pressed", pressed)
        expect(times).to_have_attribute("title", "The log of what has ended is kept without times.")
        times.click(force=True)
    page.locator("[data-replica=worker-1]").first.click()
    server.lines("worker-1", "done", time="")
    server.send(type="end")
    expect(ended).to_have_text("Complete")
    expect(times).to_have_attribute("aria-disabled", "true")


def test_a_log_of_which_only_the_beginning_is_archived_has_times(open_log: OpenLog) -> None:
    page, server = open_log("running")
    times = page.locator("[data-log-toggle=times]")
    server.lines("worker-0", "of the archive", time="")
    expect(times).to_have_attribute("aria-disabled", "true")
    server.lines("worker-0", "live")
    expect(times).to_have_attribute("aria-disabled", "false")
    times.click()
    expect(page.locator(".log-time").last).to_be_visible()
    server.send(type="end")
    expect(page.locator("[data-log-state=end]")).to_have_text("Complete")


@pytest.mark.parametrize(
    ("code", "words"), [(4401, "You are signed out."), (4404, "This training was deleted.")]
)
def test_a_refusal_is_told_and_not_tried_again(open_log: OpenLog, code: int, words: str) -> None:
    page, server = open_log("running")
    server.sockets[-1].close(code=code)
    expect(page.locator("[data-log-state=lost]")).to_contain_text(words)
    page.wait_for_timeout(1500)
    assert len(server.sockets) == 1


def test_a_pane_opened_early_says_what_it_waits_for_and_starts_by_itself(open_log: OpenLog) -> None:
    page, server = open_log("starting")
    server.send(type="state", replica="worker-0", state="starting", reason="pulling the image")
    expect(page.locator(".log-empty")).to_have_text("Waiting for worker-0: pulling the image")
    server.send(type="state", replica="worker-0", state="running", reason="")
    server.lines("worker-0", "hello")
    expect(page.locator("[data-log-state=live]")).to_have_text("Live")
    assert page.locator(".log-empty").count() == 0


def test_what_runs_on_after_the_outcome_is_not_called_live(open_log: OpenLog) -> None:
    page, server = open_log("running")
    server.lines("worker-0", "done")
    server.send(type="state", replica="ps-0", state="running", reason="")
    expect(page.locator("[data-log-state=live]")).to_have_text("Live")
    server.send(type="state", replica="", state="succeeded", reason="", attempt=1)
    server.send(type="state", replica="worker-0", state="succeeded", reason="")
    state = page.locator("[data-log-state=waiting]")
    expect(state).to_have_text("The training has ended; still running: ps-0")
    server.send(type="state", replica="ps-0", state="stopped", reason="")
    expect(state).to_have_text("The training has ended; its last lines are on the way")
    server.send(type="end")
    expect(page.locator("[data-log-state=end]")).to_have_text("Complete")


def test_what_the_page_says_above_the_log_is_not_said_in_it_again(open_log: OpenLog) -> None:
    page, server = open_log("queued")
    told = page.locator(".job-reason strong").inner_text()
    state = page.locator("[data-log-state=waiting]")
    server.send(type="state", replica="", state="queued", reason=told, attempt=1)
    expect(state).to_have_text("Waiting for the training")
    expect(page.locator(".log-empty")).to_have_text("Waiting for the training")
    server.send(type="state", replica="", state="queued", reason="something else", attempt=1)
    expect(state).to_have_text("Waiting for the training: something else")
    server.send(type="state", replica="worker-0", state="starting", reason=told)
    server.send(type="state", replica="", state="starting", reason=told, attempt=1)
    expect(state).to_have_text("Waiting for worker-0")
    # What the page says changes by itself, and so does what the log leaves to it.
    page.evaluate("document.querySelector('.job-reason strong').textContent = 'Another'")
    page.evaluate("document.body.dispatchEvent(new Event('htmx:afterSettle', {bubbles: true}))")
    expect(state).to_have_text(f"Waiting for worker-0: {told}")


def test_one_replica_is_asked_for_by_name(open_log: OpenLog) -> None:
    page, server = open_log("running")
    server.lines("worker-0", "of worker-0")
    expect(page.get_by_role("log")).to_contain_text("of worker-0")
    page.locator("[data-show-log=worker-1]").first.click()
    expect(page.get_by_role("log")).not_to_contain_text("of worker-0")
    assert server.sockets[-1].url.endswith("logs/?replica=worker-1")
    expect(page.locator("[data-replica=worker-1]")).to_have_attribute("aria-pressed", "true")
    download = page.locator("[data-log-download]").get_attribute("href") or ""
    assert download.endswith("/log/?replica=worker-1")


def test_an_earlier_attempt_is_chosen_and_can_be_linked_to(open_log: OpenLog) -> None:
    page, server = open_log("failed")
    menu, log = page.get_by_label("Attempt"), page.get_by_role("log")
    server.lines("worker-0", "of the second")
    expect(log).to_contain_text("of the second")
    menu.press("ArrowDown")
    menu.press("ArrowDown")  # latest, 2, 1
    expect(log).not_to_contain_text("of the second")
    expect(page.locator("[data-log-state=waiting]")).to_have_text("Reading the archive")
    assert server.sockets[-1].url.endswith("logs/?attempt=1")
    server.lines("worker-0", "of the first", cursor="c1")
    server.send(type="end")
    expect(page.locator("[data-log-state=end]")).to_have_text("Complete")
    download = page.locator("[data-log-download]")
    assert (download.get_attribute("href") or "").endswith("/log/?attempt=1")
    assert page.url.endswith("/?attempt=1")
    page.reload()
    expect(menu).to_have_value("1")
    page.wait_for_function("() => document.querySelector('.log-state').dataset.logState")
    assert server.sockets[-1].url.endswith("logs/?attempt=1")
    page.locator("#job-replicas [data-attempt=latest]").click()
    expect(menu).to_have_value("latest")
    expect(page.locator("[data-log-state=live]")).to_be_visible()
    assert server.sockets[-1].url.endswith("/logs/")
    page.locator("#earlier summary").click()
    page.locator("#earlier [data-attempt='1']").click()
    expect(menu).to_have_value("1")


def test_the_menu_comes_with_the_second_attempt(open_log: OpenLog) -> None:
    page, server = open_log("running")
    expect(page.locator("[data-log-attempt]")).to_be_hidden()
    server.send(type="state", replica="", state="running", reason="", attempt=3)
    expect(page.get_by_label("Attempt")).to_be_visible()
    options = page.locator("[data-log-attempt] option")
    assert options.all_inner_texts() == ["latest", "3", "2", "1", "all"]


def test_the_filter_hides_and_marks(open_log: OpenLog) -> None:
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


def test_the_filter_says_how_much_it_has_searched(open_log: OpenLog) -> None:
    page, server = open_log("running")
    field, told = page.locator("[data-log-filter]"), page.locator("[data-log-found]")
    server.lines("worker-0", *[f"step {n} of 999" for n in range(1, 400)])
    expect(page.get_by_role("log")).to_contain_text("step 399 of")
    expect(told).to_have_text("")
    field.fill("step 10 ")  # as it was typed: not step 100
    expect(told).to_have_text("1 of 399 lines")
    assert log_rows(page) == ["step 10 of 999"]
    field.fill(" of 999")
    expect(told).to_have_text("399 of 399 lines")
    field.fill("no such line")
    expect(told).to_have_text("0 of 399 lines")
    expect(page.locator(".log-empty")).to_contain_text("No match in the loaded lines")
    server.lines("worker-0", *[f"step {n} of 999" for n in range(400, 1400)])
    field.fill("step 10 ")
    expect(told).to_have_text("1 of 1,399 lines")
    rest = "Older ones are not searched; the download has them."
    server.send(type="left_out", replica="worker-0", count=4601)
    server.lines("worker-0", "[homeport] 4,601 earlier lines are left out")  # none of the program's
    newest = f"in the newest 1,399 of 6,000 lines. {rest}"
    expect(told).to_have_text(f"1 {newest}")
    field.fill("no such line")
    expect(told).to_have_text(f"0 {newest}")
    field.fill("")
    expect(told).to_have_text("")
    for start in range(0, 6000, 1000):
        server.lines("worker-0", *[f"again {n}" for n in range(start, start + 1000)])
    expect(page.get_by_role("log")).to_contain_text("again 5999", timeout=20_000)
    field.fill("again 17")  # 17, 170 to 179, 1700 to 1799: of these only the newer ones are kept
    expect(told).to_have_text(re.compile(r"in the newest 5,\d{3} of 12,000 lines\. "))
    server.send(type="left_out", replica="worker-1", count=None)
    expect(told).to_have_text(re.compile(rf"of the newest 5,\d{{3}} lines\. {re.escape(rest)}"))
