"""The life of a namespace in a real browser, on a real cluster: from made to purged."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.portal import Portal, Rest, kubectl
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e

SLOW_MS = 90_000
WRITE = """
import time, sys
open('/data/precious', 'w').write('years of work')
print('written', flush=True)
while True:
    time.sleep(0.1)
"""
READ = "print(open('/data/precious').read())"


def state_of(page: Page) -> Any:
    return page.locator("#namespace-page .job-meta .badge")


def objects(portal: Portal, kind: str, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        kubectl(portal, "get", kind, "-o", "json", *arguments)
    )["items"]
    return found


def claims(portal: Portal, namespace: str) -> dict[str, str]:
    """Claim -> uid."""
    found = objects(portal, "pvc", "-n", namespace)
    return {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in found}


def volumes(portal: Portal, namespace: str) -> dict[str, dict[str, Any]]:
    """Claim -> volume."""
    found = objects(portal, "pv")
    of = [v for v in found if v["spec"].get("claimRef", {}).get("namespace") == namespace]
    return {volume["spec"]["claimRef"]["name"]: volume for volume in of}


def folder_of(volume: dict[str, Any]) -> Path:
    return Path(volume["spec"]["hostPath"]["path"])


def hard(portal: Portal, namespace: str) -> dict[str, str]:
    (quota,) = objects(portal, "resourcequota", "-n", namespace)
    found: dict[str, str] = quota["status"]["hard"]
    return found


def make(page: Page, owner: str) -> str:
    """A namespace made by the form; its name."""
    page.goto("/admin/namespaces/")
    page.get_by_role("link", name="New namespace").first.click()
    page.get_by_label("User name of its owner").fill(owner)
    page.get_by_role("button", name="Create namespace").click()
    page.wait_for_url(re.compile(r"/admin/namespaces/[0-9a-f-]{36}/$"))
    expect(state_of(page)).to_have_text("Ready", timeout=SLOW_MS)
    return page.locator("h1").inner_text()


def home(page: Page, rest: Rest) -> str:
    """The page of root's namespace, made when there is none; its name."""
    tenant = rest.get("me/")["tenant"]
    if tenant is None:
        return make(page, "root")
    page.goto(f"/admin/namespaces/{tenant['id']}/")
    expect(state_of(page)).to_have_text("Ready", timeout=SLOW_MS)
    name: str = tenant["namespace"]
    return name


def ask(page: Page, verb: str) -> Any:
    """Opens the question of a verb; the dialog."""
    page.locator(f"#{verb}").click()
    return page.get_by_role("dialog")


def delete(page: Page, namespace: str, data: str) -> None:
    dialog = ask(page, "delete")
    dialog.get_by_label(data).check()
    dialog.get_by_label("Type the name of the namespace").fill(namespace)
    dialog.get_by_role("button", name="Delete namespace").click()
    expect(state_of(page)).to_have_text("Deleted (can be restored)", timeout=SLOW_MS)


def purge(page: Page, namespace: str, owner: str) -> None:
    dialog = ask(page, "purge")
    dialog.get_by_label("Type the name of the namespace").fill(namespace)
    dialog.get_by_label("Type the user name of its owner").fill(owner)
    dialog.get_by_role("button", name="Purge permanently").click()
    expect(state_of(page)).to_have_text("Purged", timeout=2 * SLOW_MS)


def namespaces(portal: Portal) -> set[str]:
    return {obj["metadata"]["name"] for obj in objects(portal, "namespaces")}


def write(rest: Rest) -> dict[str, Any]:
    """A training that has written to the data volume, and runs on."""
    job = rest.submit(name="precious", command=["python", "-c", WRITE])
    rest.wait(job, "running")
    wait_for("it has written", lambda: "written" in rest.text(f"jobs/{job['id']}/logs/"))
    return job


def test_suspended_it_runs_nothing_and_resumed_it_is_as_it_was(
    portal: Portal, root: Rest, page_of: Callable[..., Page]
) -> None:
    page = page_of("root")
    namespace = home(page, root)
    before, kept = hard(portal, namespace), claims(portal, namespace)
    assert set(kept) == {"data", "log"}
    job = write(root)

    dialog = ask(page, "suspend")
    dialog.get_by_label("Reason").fill("the lab is closed")
    dialog.get_by_role("button", name="Suspend namespace").click()
    expect(page.get_by_text("the lab is closed").first).to_be_visible()
    done = root.wait(job, "stopped", timeout_s=180)
    assert done["reason"]["code"] == "tenant_suspended"
    expect(state_of(page)).to_have_text("Suspended", timeout=SLOW_MS)
    waiting = root.submit(name="waits", command=["python", "-c", READ])
    wait_for(
        "it says why it waits",
        lambda: root.get(f"jobs/{waiting['id']}/")["reason"]["code"] == "tenant_suspended",
    )
    wait_for("no pod may start", lambda: hard(portal, namespace)["pods"] == "0", timeout_s=120)
    assert hard(portal, namespace)["requests.cpu"] == before["requests.cpu"]
    assert claims(portal, namespace) == kept

    ask(page, "resume").get_by_role("button", name="Resume namespace").click()
    expect(state_of(page)).to_have_text("Ready", timeout=SLOW_MS)
    assert hard(portal, namespace) == before
    root.wait(waiting, "succeeded")
    assert "years of work" in root.text(f"jobs/{waiting['id']}/logs/?download=1")


def test_deleted_it_is_closed_and_restored_it_is_whole(
    portal: Portal, root: Rest, page_of: Callable[..., Page]
) -> None:
    page = page_of("root")
    namespace = home(page, root)
    kept = claims(portal, namespace)
    write(root)

    dialog = ask(page, "delete")
    dialog.get_by_label("are deleted").check()
    dialog.get_by_label("Type the name of the namespace").fill("u-somebody-else")
    dialog.get_by_role("button", name="Delete namespace").click()
    expect(dialog.get_by_text("Type the name of the namespace exactly")).to_be_visible()
    dialog.get_by_role("link", name="Cancel").click()
    expect(state_of(page)).to_have_text("Ready")
    delete(page, namespace, "are deleted")
    wait_for(
        "nothing may start",
        lambda: {v for k, v in hard(portal, namespace).items() if k != "requests.storage"} == {"0"},
        timeout_s=180,
    )
    assert claims(portal, namespace) == kept

    ask(page, "restore").get_by_role("button", name="Restore namespace").click()
    expect(state_of(page)).to_have_text("Ready", timeout=SLOW_MS)
    assert claims(portal, namespace) == kept
    again = root.submit(name="reads again", command=["python", "-c", READ])
    root.wait(again, "succeeded")
    assert "years of work" in root.text(f"jobs/{again['id']}/logs/?download=1")


def test_purged_it_is_gone_and_its_data_as_was_chosen(
    portal: Portal, root: Rest, page_of: Callable[..., Page]
) -> None:
    page = page_of("root")
    first = home(page, root)
    job = write(root)
    delete(page, first, "are kept")
    purge(page, first, "root")
    assert first not in namespaces(portal)
    kept = volumes(portal, first)
    assert set(kept) == {"data", "log"}
    for volume in kept.values():
        assert volume["status"]["phase"] == "Released"
        assert volume["metadata"]["labels"]["homeport.dev/namespace"] == first
    assert (folder_of(kept["data"]) / "precious").read_text() == "years of work"
    # What ran there can still be read.
    assert root.get(f"jobs/{job['id']}/")["state"] == "stopped"
    page.get_by_role("link", name="Trainings in this namespace").click()
    expect(page.get_by_role("link", name="precious").first).to_be_visible()

    # Asked for again it is another one; purged with its data, the data is really gone.
    second = make(page, "root")
    assert second != first
    write(root)
    own = volumes(portal, second)
    uids = [{v["metadata"]["uid"] for v in of.values()} for of in (own, kept)]
    assert not uids[0] & uids[1]
    delete(page, second, "are deleted")
    purge(page, second, "root")
    assert second not in namespaces(portal)
    assert volumes(portal, second) == {}
    assert not any(folder_of(volume).exists() for volume in own.values())
    assert (folder_of(kept["data"]) / "precious").exists()
    who = {entry.inner_text() for entry in page.locator(".history strong").all()}
    assert who == {"root", "homeport"}


def test_what_holds_a_namespace_is_shown_with_the_next_step(
    portal: Portal, root: Rest, page_of: Callable[..., Page]
) -> None:
    page = page_of("root")
    namespace = home(page, root)
    kubectl(portal, *("create", "configmap", "held", "-n", namespace, "--from-literal=a=b"))
    finalizers = json.dumps({"metadata": {"finalizers": ["example.org/backup"]}})
    kubectl(portal, "patch", "configmap", "held", "-n", namespace, "--type=merge", "-p", finalizers)
    delete(page, namespace, "are deleted")
    dialog = ask(page, "purge")
    dialog.get_by_label("Type the name of the namespace").fill(namespace)
    dialog.get_by_label("Type the user name of its owner").fill("root")
    dialog.get_by_role("button", name="Purge permanently").click()
    reason = page.locator(".namespace-reason")
    expect(reason).to_contain_text(
        "ConfigMap held is held by the finalizer example.org/backup", timeout=SLOW_MS
    )
    expect(reason).to_contain_text(f"kubectl edit configmap held -n {namespace}")
    page.goto("/admin/namespaces/?state=problems")
    expect(page.locator("#list")).to_contain_text("example.org/backup")
    nothing = json.dumps({"metadata": {"finalizers": None}})
    kubectl(portal, "patch", "configmap", "held", "-n", namespace, "--type=merge", "-p", nothing)
    page.goto("/admin/namespaces/?state=gone")
    expect(page.locator("#list")).to_contain_text(namespace, timeout=SLOW_MS)
