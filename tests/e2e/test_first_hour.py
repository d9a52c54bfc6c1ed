"""What a researcher's first trainings run into, in a real browser, on the embedded cluster: what the page says of each is so."""

import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.portal import PASSWORD, Portal, Rest, kubectl
from tests.e2e.test_cli import CommandLine
from tests.e2e.test_gate import enter
from tests.e2e.test_services import START_S, Service
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e

PULL_S = 240
SMALL = {
    "image": "python:3.11-slim",
    "topology": "single",
    "replicas": {"worker": {"cpu": "200m", "memory": "256Mi"}},
}
BAR = """
import sys, time
for i in range(600):
    sys.stdout.write("\\rEpoch 1/3 %03d/600" % i)
    sys.stdout.flush()
    time.sleep(0.1)
"""
FULL = "a = []\nwhile True: a.append(bytearray(20 << 20))"


@pytest.fixture
def page(page_of: Callable[..., Page]) -> Page:
    return page_of("ada")


@pytest.fixture
def homeport(portal: Portal, ada: Rest, tmp_path: Path) -> CommandLine:
    made = CommandLine(tmp_path)
    made("login", portal.url, "--user", "ada", stdin=PASSWORD + "\n")
    return made


def test_the_last_line_of_a_traceback_is_the_reason_everywhere(
    ada: Rest, page: Page, homeport: CommandLine
) -> None:
    job = ada.submit(name="asks", command=["python", "-c", "input()"], **SMALL)
    failed = ada.wait(job, "failed", timeout_s=PULL_S)
    words = "EOFError: EOF when reading a line"
    assert failed["reason"]["code"] == "exit_code"
    assert words in failed["reason"]["text"]
    assert words in homeport("get", job["id"]).stdout
    page.goto(f"/trainings/{job['id']}/")
    expect(page.locator("#job-header, .job-header").get_by_text(words)).to_be_in_viewport()
    link = page.locator("#reason-log")
    expect(link).to_be_in_viewport()
    link.click()
    expect(page.get_by_role("log").get_by_text(words)).to_be_in_viewport()


def test_a_progress_bar_is_seen_while_it_runs(ada: Rest, page: Page) -> None:
    job = ada.submit(name="bar", command=["python", "-c", BAR], **SMALL)
    ada.wait(job, "running", timeout_s=PULL_S)
    page.goto(f"/trainings/{job['id']}/")
    log = page.get_by_role("log")
    expect(log).to_contain_text(re.compile(r"Epoch 1/3 \d+/600"))
    seen = set()
    until_s = time.monotonic() + 6
    while time.monotonic() < until_s:
        [text] = page.locator(".log-row .log-text").all_inner_texts()
        seen.add(text)
        page.wait_for_timeout(200)
    assert len(seen) >= 3, seen  # at least every two seconds another
    states = [
        state for state in ada.text(f"jobs/{job['id']}/logs/?replica=worker-0").split("\r") if state
    ]
    assert states[0] == "Epoch 1/3 000/600"
    assert len(states) > len(seen)
    assert ada.call("POST", f"jobs/{job['id']}/stop/").ok
    ada.wait(job, "stopped", timeout_s=60)
    archive = partial(ada.text, f"jobs/{job['id']}/logs/?replica=worker-0&download=1")
    wait_for("the archive has the bytes", lambda: archive().startswith("\rEpoch"), timeout_s=60)
    assert "homeport unfinished" not in archive()


@pytest.mark.tensorflow
def test_a_kernel_that_was_ended_for_memory_is_an_event_and_a_line(
    portal: Portal, ada: Rest, page: Page
) -> None:
    query = '{.status.conditions[?(@.type=="homeport.dev/Limits")].message}'
    limits = kubectl(portal, "get", "node", "onebox", "-o", f"jsonpath={query}")
    if "control groups (version 1)" not in limits:
        pytest.skip(f"one process alone is ended by control groups of version 1 only: {limits}")
    notebook = Service(ada, "notebook", name="full", cpu="1", memory="1Gi")
    notebook.wait("running", timeout_s=START_S)
    with enter(notebook).kernel() as kernel, pytest.raises((TimeoutError, AssertionError)):
        kernel.run(FULL, timeout_s=20)

    def events() -> list[str]:
        found = ada.get(f"{notebook.path}events/")["results"]
        return [e["message"] for e in found if e["reason"] == "process_out_of_memory"]

    [message] = wait_for("it is an event", events, timeout_s=150)
    assert "1Gi" in message
    page.goto(f"/notebooks/{notebook.id}/")
    expect(page.locator("#memory-kill")).to_contain_text("1Gi")
    assert notebook.get()["state"] == "running"
    assert ada.call("DELETE", notebook.path).status_code == 204
