"""A lead's day in a real browser: who runs what, a stop with a reason, a quota, the hours."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.portal import Portal, Rest, kubectl
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e

SLEEP = ["python", "-c", "import time; print('at work', flush=True); time.sleep(600)"]


@pytest.fixture
def lee(portal: Portal) -> Rest:
    return portal.sign_in("lee")


@pytest.fixture
def trainings(ada: Rest, lin: Rest) -> Iterator[dict[str, dict[str, Any]]]:
    """Ada runs one on a GPU; Lin runs one, and has one that waits for her quota."""
    one = {"cpu": "500m", "memory": "256Mi"}
    jobs = {
        "runs": ada.submit(
            name="ada runs", command=SLEEP, replicas={"worker": {**one, "count": 1, "gpu": 1}}
        ),
        "fills": lin.submit(
            name="lin fills", command=SLEEP, replicas={"worker": {**one, "count": 1, "gpu": 2}}
        ),
    }
    ada.wait(jobs["runs"], "running")
    lin.wait(jobs["fills"], "running")
    jobs["waits"] = lin.submit(
        name="lin waits", command=SLEEP, replicas={"worker": {**one, "count": 1, "gpu": 1}}
    )
    yield jobs
    for rest, key in ((ada, "runs"), (lin, "fills"), (lin, "waits")):
        rest.call("DELETE", f"jobs/{jobs[key]['id']}/")


def hard(portal: Portal, namespace: str) -> dict[str, str]:
    """What the cluster's own quota of a namespace is."""
    text = kubectl(portal, "-n", namespace, "get", "resourcequota", "homeport", "-o", "json")
    found: dict[str, str] = json.loads(text)["status"]["hard"]
    return found


def row_of(page: Page, name: str) -> Any:
    """The row of a training in the list of what runs and waits."""
    return page.locator(".team-work tbody tr").filter(has_text=name)


def person(page: Page, name: str) -> Any:
    return page.locator(".team-people tbody tr").filter(has_text=name)


def test_a_lead_sees_what_runs_and_waits_and_stops_one_with_a_reason(
    trainings: dict[str, dict[str, Any]], page_of: Callable[..., Page]
) -> None:
    page = page_of("lee")
    page.get_by_role("link", name="Team").first.click()
    expect(page.get_by_role("heading", name="Team vision")).to_be_visible()
    runs = row_of(page, "ada runs")
    expect(runs).to_contain_text("Running")
    expect(runs).to_contain_text("Ada")
    expect(runs).to_contain_text(re.compile(r"GPU \d"))
    waits = row_of(page, "lin waits")
    expect(waits).to_contain_text("Queued")
    expect(waits).to_contain_text("GPU")
    expect(person(page, "Lin")).to_contain_text("2 of 2", timeout=20_000)
    expect(person(page, "Lin")).to_contain_text("1 queued")

    told = page_of("ada")
    told.goto(f"/trainings/{trainings['runs']['id']}/")
    runs.get_by_role("link", name="Stop ada runs of Ada").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Stop training").click()
    expect(dialog).to_be_visible()  # the browser asks for the reason
    dialog.get_by_label("Reason (shown to Ada with your name)").fill("the demo needs the GPU")
    dialog.get_by_role("button", name="Stop training").click()
    expect(page.get_by_text("“ada runs” is being stopped.")).to_be_visible()
    # Both pages change by themselves: the list loses it, and its owner reads who and why.
    expect(row_of(page, "ada runs")).to_have_count(0, timeout=60_000)
    expect(told.locator("#job-header")).to_contain_text(
        "Lee stopped this: the demo needs the GPU", timeout=60_000
    )
    expect(told.locator("#job-header [data-state=stopped]")).to_be_visible(timeout=60_000)


def test_a_quota_that_a_lead_changes_is_the_clusters_and_lets_the_next_one_start(
    portal: Portal, lin: Rest, trainings: dict[str, dict[str, Any]], page_of: Callable[..., Page]
) -> None:
    namespace = lin.tenant()["namespace"]
    assert hard(portal, namespace)["requests.nvidia.com/gpu"] == "2"
    page = page_of("lee", width=400)
    page.goto("/team/")
    page.get_by_role("link", name="Change quota of Lin").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("GPU").fill("many")
    dialog.get_by_role("button", name="Change quota").click()
    expect(dialog).to_contain_text("not a whole number")
    dialog.get_by_label("GPU").fill("3")
    dialog.get_by_role("button", name="Change quota").click()
    expect(page.get_by_text("The quota of Lin is changed.")).to_be_visible()
    wait_for(
        "the cluster's quota follows",
        lambda: hard(portal, namespace)["requests.nvidia.com/gpu"] == "3",
    )
    lin.wait(trainings["waits"], "running")
    expect(person(page, "Lin")).to_contain_text("3 of 3", timeout=20_000)

    # Less than what is held: nothing is ended, and it is said.
    page.get_by_role("link", name="Change quota of Lin").click()
    dialog.get_by_label("GPU").fill("2")
    dialog.get_by_role("button", name="Change quota").click()
    expect(person(page, "Lin")).to_contain_text("over by 1, nothing new starts", timeout=20_000)
    wait_for(
        "the cluster's quota follows again",
        lambda: hard(portal, namespace)["requests.nvidia.com/gpu"] == "2",
    )
    assert lin.get(f"jobs/{trainings['waits']['id']}/")["state"] == "running"
    assert lin.tenant()["state"] == "active"


def test_the_hours_are_on_the_page_and_in_a_file(ada: Rest, page_of: Callable[..., Page]) -> None:
    job = ada.submit(
        name="an hour in small",
        command=["python", "-c", "import time; time.sleep(3)"],
        replicas={"worker": {"count": 1, "cpu": "500m", "memory": "256Mi", "gpu": 1}},
    )
    ada.wait(job, "succeeded")
    page = page_of("lee")

    def rows() -> list[dict[str, str]]:
        page.goto("/team/")
        with page.expect_download() as download:
            page.get_by_role("link", name="CSV of the last year").click()
        text = Path(download.value.path()).read_text(encoding="utf-8-sig")
        return [row for row in csv.DictReader(io.StringIO(text)) if row["user"] == "ada"]

    found = wait_for("Ada's hours are written", rows, timeout_s=30, interval_s=1)
    assert float(found[0]["gpu_hours"]) > 0
    page.goto("/team/")
    expect(page.locator(".hours-table tbody tr").filter(has_text="Ada")).to_be_visible()
    expect(page.locator(".hours-chart [class^=series]").first).to_be_attached()


def test_a_researcher_finds_no_team_page(ada: Rest, page_of: Callable[..., Page]) -> None:
    page = page_of("ada")
    expect(page.get_by_role("link", name="Team", exact=True)).to_have_count(0)


def test_rest_refuses_what_is_over_the_budget_or_not_the_leads(
    portal: Portal, ada: Rest, lin: Rest, lee: Rest
) -> None:
    tenant = lin.tenant()["id"]
    assert lin.call("PATCH", f"tenants/{tenant}/", json={"quota": {"gpu": 8}}).status_code == 403
    assert ada.call("PATCH", f"tenants/{tenant}/", json={"quota": {"gpu": 8}}).status_code == 404
    answer = lee.call("PATCH", f"tenants/{tenant}/", json={"quota": {"gpu": 2, "cpu": "8"}})
    assert answer.status_code == 200
    assert answer.json()["quota"]["cpu"] == "8"
