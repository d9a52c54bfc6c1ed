"""The days of docs/users/{researcher,lead,admin}.md, step by step as they are told there.

With PICTURES=docs/pictures the pictures of those pages are taken on the way. They are meant for a
portal of their own: `PICTURES=docs/pictures python -m pytest tests/e2e/test_days.py`.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.days import (
    EXAMPLES,
    LAB_MS,
    PULL_MS,
    RUN_MS,
    SIZE,
    badge,
    joined,
    opened,
    picture,
    sign_out,
    start,
    uploaded,
)
from tests.e2e.portal import Portal, Rest, wait_for
from tests.e2e.test_cli import CommandLine

pytestmark = pytest.mark.e2e

SLEEP = ["python", "-c", "import time; print('at work', flush=True); time.sleep(900)"]


@pytest.fixture
def own_context(portal: Portal, browser: Browser) -> Iterator[Callable[[], Page]]:
    """Pages of browsers in which nobody has signed in yet."""
    contexts = []

    def make() -> Page:
        contexts.append(browser.new_context(base_url=portal.url, viewport=SIZE))
        return contexts[-1].new_page()

    yield make
    for context in contexts:
        context.close()


def work_in(page: Page, notebook: str) -> None:
    # 7. The notebook is there
    page.goto(notebook)
    expect(badge(page)).to_have_text("Running", timeout=PULL_MS)
    lab = opened(page, lambda: page.locator("#open").click())
    expect(lab.locator("#jp-main-dock-panel")).to_be_visible(timeout=LAB_MS)
    lab.locator('.jp-LauncherCard[data-category="Notebook"]').first.click()
    expect(lab.get_by_text("| Idle")).to_be_visible(timeout=LAB_MS)
    lab.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click(timeout=LAB_MS)
    lab.keyboard.type("import glob; glob.glob('/log/**/weights.json', recursive=True)")
    lab.keyboard.press("Shift+Enter")
    output = lab.locator(".jp-OutputArea-output").first
    expect(output).to_contain_text("artifacts/weights.json", timeout=LAB_MS)
    picture(lab, "researcher-jupyter")
    lab.close()


def compare(page: Page, training: str) -> None:
    # 8. Curves
    page.goto(f"/trainings/{training}/")
    board = opened(page, page.get_by_role("button", name="TensorBoard").click)
    expect(board.locator("tb-webapp")).to_be_visible(timeout=PULL_MS)
    expect(board.get_by_text("loss").first).to_be_visible(timeout=LAB_MS)
    board.wait_for_timeout(1500)  # its lines come on a canvas, which says nothing when it is done
    picture(board, "researcher-tensorboard")
    board.close()


def wait_in_the_queue(page: Page) -> None:
    # 9. More than the quota has: it waits and says for what
    for name in ("two at once", "one more"):
        uploaded(page, EXAMPLES / "curve.py", name)
        page.locator("#command").fill("python curve.py --steps 9000")
        page.locator("[name='replicas.worker.gpu']").fill("2")
        start(page)
    expect(badge(page)).to_have_text("Queued")
    expect(page.locator(".job-reason")).to_contain_text("GPU", timeout=RUN_MS)
    page.get_by_role("link", name="Queue", exact=True).first.click()
    expect(page.locator("#queue tbody tr")).to_have_count(1)
    expect(page.locator("#queue")).to_contain_text("GPU")
    picture(page, "researcher-queue", height=420)
    page.get_by_role("link", name="Overview", exact=True).first.click()
    expect(page.locator("#now")).to_contain_text("one more")
    picture(page, "researcher-quota")


def use_the_terminal(page: Page, homeport: CommandLine, url: str) -> None:
    # 10. From a terminal
    page.get_by_label("Account of Vera").click()
    page.get_by_role("link", name="Account and API tokens").click()
    page.get_by_label("Name", exact=True).fill("my laptop")
    page.get_by_role("button", name="Create token").click()
    token = page.locator("#plain").inner_text()
    homeport("login", url, "--token", stdin=token + "\n")
    assert "wave" in homeport("list").stdout
    homeport("stop", "two at once")
    homeport("delete", "one more", "-y")


def test_the_day_of_a_researcher(
    portal: Portal, root: Rest, own_context: Callable[[], Page], tmp_path: Path
) -> None:
    person = {"username": "vera", "first_name": "Vera", "last_name": "Lund", "team": "vision"}
    invited = root.call("POST", "users/", json=person)
    assert invited.status_code == 201, invited.text
    page = own_context()

    # 1. The first page
    joined(page, invited.json()["join_url"])
    expect(page.locator("#namespace .badge")).to_have_text("Ready", timeout=RUN_MS)
    picture(page, "researcher-home")

    # 2. A notebook, which takes its time when it is the first
    page.get_by_role("link", name="New notebook").click()
    page.get_by_label("Name", exact=True).fill("first look")
    page.get_by_role("button", name="Start notebook").click()
    expect(page.locator("li[data-step=requested]")).to_have_attribute("data-state", "done")
    expect(page.locator("li[data-step=image]")).to_have_attribute(
        "data-state", re.compile("now|done"), timeout=RUN_MS
    )
    picture(page, "researcher-notebook-starting")
    notebook = page.url

    # 3. A training, by upload
    uploaded(page, EXAMPLES / "curve.py", "wave")
    expect(page.locator("#fit")).to_contain_text("Fits now")
    picture(page, "researcher-new-training", at="body")
    training = start(page)

    # 4. Its log, live
    log = page.get_by_role("log")
    expect(log).to_contain_text("step   60", timeout=RUN_MS)
    expect(badge(page)).to_have_text("Running")
    picture(page, "researcher-log")

    # 5. One that fails, with the reason and what to do
    uploaded(page, EXAMPLES / "ps_v1.py", "mnist")
    start(page)
    expect(badge(page)).to_have_text("Failed", timeout=RUN_MS)
    expect(page.locator(".job-reason")).to_contain_text("a Python module is missing")
    expect(page.locator(".job-reason")).to_contain_text("Choose an image that has it")
    picture(page, "researcher-failed")

    # 6. What it left behind
    page.goto(f"/trainings/{training}/")
    expect(badge(page)).to_have_text("Succeeded", timeout=RUN_MS)
    link = page.get_by_role("link", name=re.compile("weights.json"))
    expect(link).to_be_visible(timeout=30_000)
    picture(page, "researcher-files", at="#job-artifacts")
    with page.expect_download() as download:
        link.click()
    assert "weights" in json.loads(Path(download.value.path()).read_text())

    work_in(page, notebook)
    compare(page, training)
    wait_in_the_queue(page)
    use_the_terminal(page, CommandLine(tmp_path), portal.url)

    # 11. Evening
    page.goto(notebook)
    page.locator("#stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop notebook").click()
    expect(badge(page)).to_have_text("Stopped", timeout=RUN_MS)
    page.get_by_role("link", name="TensorBoards", exact=True).first.click()
    page.locator("#list tbody a, #list a.job-name").first.click()
    page.locator("#stop").click()
    expect(badge(page)).to_have_text("Stopped", timeout=RUN_MS)
    sign_out(page, "Vera Lund")


@pytest.fixture
def at_work(root: Rest, ada: Rest, lin: Rest) -> Iterator[dict[str, dict[str, Any]]]:
    """A team with a budget: Ada runs one training, Lin runs one and has one that waits."""
    team = next(team for team in root.get("teams/")["results"] if team["name"] == "vision")
    quota = lin.tenant()["quota"]
    most = {"budget": {"gpu": team["quota_sum"]["gpu"] + 6}}
    assert root.call("PATCH", f"teams/{team['id']}/", json=most).ok
    jobs = {}
    for rest, name, gpu in ((ada, "segment roads", 1), (lin, "depth maps", 2)):
        asked = {"count": 1, "cpu": "500m", "memory": "256Mi", "gpu": gpu}
        jobs[name] = rest.submit(name=name, command=SLEEP, replicas={"worker": asked})
        rest.wait(jobs[name], "running")
    asked = {"count": 1, "cpu": "500m", "memory": "256Mi", "gpu": 1}
    name = "depth maps finer"
    jobs[name] = lin.submit(name=name, command=SLEEP, replicas={"worker": asked})
    yield jobs
    for rest, name in ((ada, "segment roads"), (lin, "depth maps"), (lin, "depth maps finer")):
        assert rest.call("DELETE", f"jobs/{jobs[name]['id']}/").status_code == 204
    assert root.call("PATCH", f"teams/{team['id']}/", json={"budget": {"gpu": None}}).ok
    assert root.call("PATCH", f"tenants/{lin.tenant()['id']}/", json={"quota": quota}).ok


def test_the_day_of_a_lead(
    lin: Rest, at_work: dict[str, dict[str, Any]], page_of: Callable[..., Page]
) -> None:
    page = page_of("lee")
    page.set_viewport_size(SIZE)

    # 1. The team
    page.get_by_role("link", name="Team", exact=True).first.click()
    expect(page.get_by_role("heading", name="Team vision")).to_be_visible()
    people, work = page.locator(".team-people tbody tr"), page.locator(".team-work tbody tr")
    expect(people.filter(has_text="Lin")).to_contain_text("2 of 2", timeout=RUN_MS)
    expect(people.filter(has_text="Ada")).to_contain_text("1 of 2", timeout=RUN_MS)
    picture(page, "lead-team")

    # 2. Why somebody waits
    page.get_by_role("link", name=re.compile("^Queued")).click()
    waits = work.filter(has_text="depth maps finer")
    expect(waits).to_contain_text("GPU", timeout=RUN_MS)
    picture(page, "lead-waiting", at="#work")
    waits.get_by_role("link", name="depth maps finer", exact=True).click()
    expect(page.locator(".job-reason")).to_be_visible()

    # 3. A stop, with a reason
    page.get_by_role("link", name="Team", exact=True).first.click()
    page.get_by_role("link", name="Stop segment roads of Ada").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("^Reason")).fill("the demo at four needs this GPU")
    picture(page, "lead-stop")
    dialog.get_by_role("button", name="Stop training").click()
    told = page_of("ada")
    told.set_viewport_size(SIZE)
    told.goto(f"/trainings/{at_work['segment roads']['id']}/")
    expect(badge(told)).to_have_text("Stopped", timeout=RUN_MS)
    expect(told.locator("#job-header")).to_contain_text("the demo at four needs this GPU")
    picture(told, "lead-stopped")

    # 4. More for one, within the budget
    page.get_by_role("link", name="Change quota of Lin").click()
    dialog.get_by_label("GPU").fill("20")
    dialog.get_by_role("button", name="Change quota").click()
    expect(dialog.locator(".note, .field-error").first).to_contain_text("budget")
    picture(page, "lead-quota")
    dialog.get_by_label("GPU").fill("3")
    dialog.get_by_role("button", name="Change quota").click()
    expect(people.filter(has_text="Lin")).to_contain_text("3 of 3", timeout=RUN_MS)
    lin.wait(at_work["depth maps finer"], "running")

    # 5. What was used
    def hours() -> bool:
        page.reload()
        return page.locator(".hours-table tbody tr").filter(has_text="Lin").count() == 1

    wait_for("Lin's hours are there", hours, interval_s=1)
    picture(page, "lead-hours", at="#hours")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV of the last year").click()
    with Path(download.value.path()).open(encoding="utf-8-sig", newline="") as file:
        assert {"ada", "lin"} <= {row["user"] for row in csv.DictReader(file)}
    sign_out(page, "Lee")


def look_after_a_namespace(page: Page, admin: Callable[[str], None], theirs: Page) -> None:
    """Changes, suspends, resumes, deletes and restores the namespace of Jon, who watches."""
    # 3. Namespaces
    admin("Namespaces")
    expect(page.locator("#list tbody tr").filter(has_text="Jon Berg")).to_be_visible()
    picture(page, "admin-namespaces")
    page.get_by_label("Search by namespace, person or team").fill("jon")
    page.wait_for_url("**q=jon*")
    expect(page.locator("#list tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Jon Berg").click()
    namespace = page.locator("h1").inner_text()
    dialog = page.get_by_role("dialog")

    page.locator("#quota").click()
    dialog.get_by_label("GPU").fill("1")
    dialog.get_by_role("button", name="Change quota").click()
    expect(page.locator(".quota")).to_contain_text("0 of 1 used")

    page.locator("#suspend").click()
    dialog.get_by_label(re.compile("^Reason")).fill("the machines move on Friday")
    dialog.get_by_role("button", name="Suspend namespace").click()
    expect(badge(page)).to_have_text("Suspended", timeout=RUN_MS)
    picture(page, "admin-suspended")
    expect(theirs.locator("#closed")).to_contain_text("the machines move on Friday")
    page.locator("#resume").click()
    dialog.get_by_role("button", name="Resume namespace").click()
    expect(badge(page)).to_have_text("Ready", timeout=RUN_MS)

    page.locator("#delete").click()
    dialog.get_by_label("are kept").check()
    dialog.get_by_label("Type the name of the namespace").fill(namespace)
    picture(page, "admin-delete")
    dialog.get_by_role("button", name="Delete namespace").click()
    expect(badge(page)).to_have_text("Deleted (can be restored)", timeout=RUN_MS)
    page.locator("#restore").click()
    dialog.get_by_role("button", name="Restore namespace").click()
    expect(badge(page)).to_have_text("Ready", timeout=RUN_MS)


def test_the_day_of_an_admin(page_of: Callable[..., Page], own_context: Callable[[], Page]) -> None:
    page = page_of("root")
    page.set_viewport_size(SIZE)

    def admin(title: str) -> None:
        page.locator(".nav summary").click()
        page.locator(".nav").get_by_role("link", name=title, exact=True).click()
        expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()

    # 1. Somebody new
    admin("People")
    page.get_by_role("link", name="Invite person").click()
    page.get_by_label("User name").fill("jon")
    page.get_by_label("First name").fill("Jon")
    page.get_by_label("Last name").fill("Berg")
    page.get_by_label("Team").select_option("vision")
    page.get_by_role("button", name="Invite", exact=True).click()
    expect(page.get_by_role("heading", name="Jon Berg is invited")).to_be_visible()
    picture(page, "admin-invited")
    theirs = own_context()
    joined(theirs, page.locator("#link").inner_text())
    expect(theirs.locator("#namespace .badge")).to_have_text("Ready", timeout=RUN_MS)

    # 2. A team, its budget and its lead
    admin("Teams")
    page.get_by_label("Name", exact=True).fill("harbour")
    page.get_by_label("GPU").fill("4")
    page.get_by_role("button", name="Create team").click()
    expect(page.get_by_role("heading", name="harbour", exact=True)).to_be_visible()
    page.get_by_label("New member").fill("jon")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_role("button", name="Make Jon Berg a lead").click()
    expect(page.get_by_role("button", name="Remove Jon Berg as lead")).to_be_visible()
    picture(page, "admin-team")

    look_after_a_namespace(page, admin, theirs)

    # 4. The machines, the queue, the portal itself
    page.get_by_role("link", name="Nodes", exact=True).first.click()
    expect(page.locator("#nodes article").first).to_contain_text("GPU")
    picture(page, "admin-nodes")
    page.get_by_role("link", name="Queue", exact=True).first.click()
    expect(page.locator("#queue")).to_be_visible()
    admin("Health")
    expect(page.locator("#health")).to_contain_text("API server")
    picture(page, "admin-health")

    # 5. Who did what
    admin("Audit trail")
    page.get_by_label("Search people, objects, addresses").fill("jon")
    page.wait_for_url("**q=jon*")
    expect(page.locator("#list")).to_contain_text("the machines move on Friday")
    picture(page, "admin-audit")
    as_csv = page.get_by_role("link", name="Export CSV")
    expect(as_csv).to_have_attribute("href", re.compile("q=jon"))  # the list has come
    with page.expect_download() as download:
        as_csv.click()
    with Path(download.value.path()).open(encoding="utf-8-sig", newline="") as file:
        done = [row["verb"] for row in csv.DictReader(file)]
    assert {"invite", "suspend", "resume", "delete", "restore"} <= set(done), done
    sign_out(page, "Root")
