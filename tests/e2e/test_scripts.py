"""Our scripts in a real browser, but for the log pane: live parts, the form. There is no cluster: rows
are seeded (tests/e2e/seed.py) and these tests are the other end of the websockets.
"""

import io
import re
import zipfile
from typing import Any

import pytest
from playwright.sync_api import Page, Response, Route, expect

from portal.web.format import bytes_text, duration_text
from tests.e2e.scripted import Seeded, Server
from tests.e2e.seed import PASSWORD

pytestmark = pytest.mark.e2e


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
    other.get_by_role("button", name="Stop training").click()
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
    other.get_by_role("button", name="Stop training").click()
    other.wait_for_url(f"**/trainings/{job}/")
    live.sockets[-1].close(code=1011)
    expect(page.locator("#stop")).to_have_text("Stopping", timeout=10_000)
    expect(page.locator("#job-events")).to_have_attribute("data-revision", "2")
    page.context.close()
    other.context.close()


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_part_that_could_not_be_read_is_asked_for_again(
    seeded: Seeded, is_answered: bool
) -> None:
    """Its change is told once: who did not get it then showed the old state until the next change."""
    page, live = seeded.page(), Server()
    page.route_web_socket("**/ws/live/", live.take)
    job = seeded.jobs["failed"]
    open_and_settle(page, f"/trainings/{job}/", "part/artifacts/")
    failures: list[str] = []

    def fail_twice(route: Route) -> None:
        if len(failures) == 2:
            route.fallback()
            return
        failures.append(route.request.url)
        if is_answered:
            route.fulfill(status=503, body="busy")
        else:
            route.abort()

    def is_read(response: Response) -> bool:
        return "/part/header/" in response.url and response.ok

    page.route("**/part/header/", fail_twice)
    with page.expect_response(is_read, timeout=20_000):
        live.send(type="changed", kind="job", id=job, revision=99)
    assert len(failures) == 2
    expect(page.locator(".toast-error")).to_have_count(0)
    page.context.close()


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


def test_a_part_that_is_read_again_under_the_pointer_loses_no_click(seeded: Seeded) -> None:
    page, live = seeded.page(), Server()
    page.route_web_socket("**/ws/live/", live.take)
    open_and_settle(page, "/", "part/closed/")
    tenant = (page.locator("#namespace").get_attribute("data-live") or "").split(":")[1]
    page.locator("#objects summary").hover()
    page.mouse.down()
    with page.expect_response("**/tenant/part/namespace/"):
        live.send(type="changed", kind="tenant", id=tenant, revision=99)
    part = page.locator("#namespace")
    part.evaluate("element => element.classList.add('as-it-was')")
    page.wait_for_timeout(200)
    expect(part).to_have_class(re.compile("as-it-was"))
    page.mouse.up()
    expect(part).not_to_have_class(re.compile("as-it-was"))  # it came late
    expect(page.locator("#objects")).to_have_attribute("open", "")
    part.evaluate("element => element.classList.add('as-it-was')")
    page.mouse.down(button="right")  # what ends that is often the menu's
    live.send(type="changed", kind="tenant", id=tenant, revision=100)
    expect(part).not_to_have_class(re.compile("as-it-was"))
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
    expect(page.locator("#command")).to_have_value("python train.py")
    expect(page.locator("#preview")).to_contain_text("worker-0")
    page.get_by_role("button", name="Start training").click()
    expect(page.locator("#errors").get_by_role("link")).to_have_text(["Name"])
    expect(page.locator("#name-error")).to_have_text("This is needed.")
    assert page.locator("body").inner_text().count("This is needed.") == 1
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


def test_why_an_upload_is_refused_is_told_as_the_portal_says_it(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/trainings/new/")
    answer = {
        "status": 507,
        "content_type": "text/plain; charset=utf-8",
        "body": "The disk is full.",
    }

    def refuse(route: Route) -> None:
        assert route.request.headers["hx-request"] == "true"
        route.fulfill(**answer)

    page.route("**/bundles/", refuse)
    script = {"name": "a.py", "mimeType": "text/plain", "buffer": b"print(1)"}
    page.locator("input[type=file]").set_input_files(script)
    expect(page.locator("[data-upload-error]")).to_have_text("The disk is full.")
    page.context.clear_cookies(name="homeport_session")
    page.unroute("**/bundles/")
    page.locator("input[type=file]").set_input_files(script)
    # The form's panel leads there as well: the second of two journeys ends the first.
    expect(page).to_have_url(re.compile(r"/sign-in/\?next=%2Ftrainings%2Fnew%2F$"))
    page.context.close()


def test_what_is_too_large_is_refused_before_it_is_sent(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/trainings/new/")
    page.locator("[data-drop]").evaluate("e => (e.dataset.maxBytes = 10)")
    large = {"name": "a.py", "mimeType": "text/plain", "buffer": b"more than ten bytes"}
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.locator("input[type=file]").set_input_files(large)
    expect(page.locator("[data-upload-error]")).to_contain_text("the limit is 10 B")
    assert not [url for url in sent if "bundles" in url]
    page.context.close()


def test_the_panel_follows_what_is_typed(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/trainings/new/")
    fit = page.locator("#fit")
    expect(fit).to_contain_text("this request: 1")
    page.get_by_label("Several machines").check()
    page.locator("[name='replicas.worker.count']").fill("2")
    expect(fit).to_contain_text("this request: 3")
    page.locator("[name='replicas.worker.gpu']").fill("3")
    expect(fit).to_contain_text("Does not fit")
    page.locator("[name='replicas.worker.gpu']").fill("none")
    expect(fit).to_contain_text("Workers, GPU:")
    page.context.close()


def test_roles_follow_the_topology(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/trainings/new/")

    def shown() -> list[str]:
        return page.locator("[data-role]:visible > legend").all_inner_texts()

    assert shown() == ["Worker"]
    expect(page.get_by_label("PyTorch DDP")).to_be_hidden()
    page.get_by_label("Several machines").check()
    assert shown() == ["Workers", "Parameter servers"]
    page.get_by_role("button", name="Add chief").click()
    assert shown() == ["Chief", "Workers", "Parameter servers"]
    expect(page.locator("[name='replicas.chief.cpu']")).to_be_focused()
    page.get_by_label("PyTorch DDP").check()
    assert shown() == ["Workers"]
    page.locator("#command").fill("python train.py")
    page.locator("[name='replicas.worker.gpu']").fill("2")
    expect(page.locator("#preview")).to_contain_text("PET_NPROC_PER_NODE=2")
    expect(page.locator("#advice")).to_contain_text("start the program by torchrun")
    page.get_by_label("One machine").check()
    assert shown() == ["Worker"]
    page.get_by_label("Several machines").check()
    page.get_by_label("Parameter servers and workers").check()
    page.get_by_role("button", name="Remove chief").click()
    assert shown() == ["Workers", "Parameter servers"]
    expect(page.get_by_role("button", name="Add chief")).to_be_focused()
    page.context.close()


def test_a_form_left_by_mistake_can_be_brought_back(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/trainings/new/")
    page.get_by_label("Name", exact=True).fill("precious")
    page.get_by_label("URL", exact=True).first.check()
    page.get_by_role("button", name="Add variable").click()
    page.get_by_label("Variable name").fill("SEED")
    page.get_by_label("Variable value").fill("7")
    page.goto("/")
    page.goto("/trainings/new/")
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("precious")
    expect(page.get_by_label("Variable name")).to_have_value("SEED")
    assert page.locator("[name=source_kind]:checked").input_value() == "url"
    page.context.close()


def test_what_was_typed_is_kept_until_the_training_is_made(seeded: Seeded) -> None:
    page = seeded.page()

    def fill() -> None:
        script = {"name": "a.py", "mimeType": "text/plain", "buffer": b"print(1)"}
        page.locator("input[type=file]").set_input_files(script)
        page.get_by_label("Name", exact=True).fill("precious")
        page.locator("#command").fill("python a.py")
        expect(page.locator("[data-upload-file]")).to_have_text("a.py")
        page.wait_for_timeout(600)  # the panel asks, and would lead to the sign-in by itself
        page.wait_for_load_state("networkidle")

    page.goto("/trainings/new/")
    fill()
    page.context.clear_cookies(name="homeport_session")
    page.get_by_role("button", name="Start training").click()
    page.wait_for_url("**/sign-in/**")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.goto("/trainings/new/")
    page.get_by_role("button", name="Restore").click(timeout=5_000)
    expect(page.get_by_label("Name", exact=True)).to_have_value("precious")
    page.evaluate("sessionStorage.setItem('homeport-draft-sent', '/trainings/new/')")
    page.goto(f"/trainings/{seeded.jobs['failed']}/")  # another one: it was not this
    page.goto("/trainings/new/")
    expect(page.get_by_role("button", name="Restore")).to_be_visible()
    fill()
    page.get_by_role("button", name="Start training").click()
    expect(page.get_by_role("heading", name="precious")).to_be_visible()
    page.goto("/trainings/new/")
    expect(page.locator("#fit")).to_contain_text("this request")
    expect(page.get_by_role("button", name="Restore")).to_have_count(0)
    page.context.close()


def test_the_button_says_that_an_upload_is_waited_for(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/trainings/new/")
    held: list[Route] = []
    page.route("**/bundles/", lambda route: held.append(route))
    start = page.locator(".training-buttons button[type=submit]").first
    script = {"name": "a.py", "mimeType": "text/plain", "buffer": b"print(1)"}
    page.locator("input[type=file]").set_input_files(script)
    start.click()
    expect(start).to_have_text("Uploading…", timeout=5_000)
    expect(page.locator("#save-template button")).to_have_text("Save template")
    held[0].fulfill(status=507, content_type="text/plain; charset=utf-8", body="The disk is full.")
    expect(start).to_have_text("Start training", timeout=5_000)
    page.context.close()


def test_the_yaml_tab_is_reached_by_keyboard_and_its_draft_is_kept(seeded: Seeded) -> None:
    page = seeded.page()
    page.goto("/trainings/new/")
    page.get_by_label("Name", exact=True).fill("typed")
    page.get_by_role("button", name="YAML").focus()
    page.keyboard.press("Enter")
    text = page.get_by_label("Training", exact=True)
    expect(text).to_have_value(re.compile("^name: typed\nimage: "))
    text.fill("name: mine\nimage: python:3.11-slim\ncommand: [true")
    expect(page.locator("#fit")).to_contain_text("Line 3")
    page.goto("/trainings/new/")
    page.get_by_role("button", name="Restore").click()
    expect(text).to_have_value(re.compile("^name: mine"))
    page.get_by_role("button", name="Start training").click()
    expect(page.locator("#yaml-error")).to_contain_text("Line 3")
    expect(page.locator("#errors")).not_to_contain_text("Line 3")
    expect(text).to_be_focused()
    text.fill("name: mine\nimage: python:3.11-slim\ncommand: ['true']\n")
    page.get_by_role("button", name="Form", exact=True).click()
    page.get_by_label("Name", exact=True).press("Enter")  # the form's own button, not a tab's
    expect(page.get_by_role("heading", name="mine")).to_be_visible()
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
    assert said == [duration_text(s) for s in seconds]
    sizes = [0, 1, 1023, 1024, 1536, 1048524, 1048575, 2**30, 5 * 2**40 + 2**39, 2**62]
    said = page.evaluate("async s => s.map((await import('/static/js/words.js')).bytesText)", sizes)
    assert said == [bytes_text(size) for size in sizes]
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
