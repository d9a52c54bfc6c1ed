"""Starting, stopping and losing parts of an installation."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from onebox.testing.processes import command_line
from tests.e2e.portal import Portal, Rest, kubectl
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e

COUNT = (
    "import time, sys\nfor i in range(1000):\n    print('tick', i, flush=True)\n    time.sleep(0.1)"
)
CHECKPOINT = """
import signal, sys, time, os
def end(*_):
    open(os.environ['ARTIFACTS_DIR'] + '/checkpoint', 'w').write('step 7')
    print('checkpoint written', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print('ready', flush=True)
while True:
    time.sleep(0.1)
"""


def test_stop_gives_time_for_a_checkpoint(ada: Rest) -> None:
    job = ada.submit(name="stops", command=["python", "-c", CHECKPOINT])
    ada.wait(job, "running")
    wait_for("it is ready", lambda: "ready" in ada.text(f"jobs/{job['id']}/logs/"))
    assert ada.call("POST", f"jobs/{job['id']}/stop/").json()["state"] in {"running", "stopping"}
    done = ada.wait(job, "stopped")
    assert done["reason"]["text"]

    def checkpoint() -> bool:
        found = ada.get(f"jobs/{job['id']}/artifacts/")["results"]
        return any(artifact["path"] == "artifacts/checkpoint" for artifact in found)

    wait_for("the checkpoint is an artifact", checkpoint, timeout_s=90)
    assert "checkpoint written" in ada.text(f"jobs/{job['id']}/logs/?download=1")


@pytest.mark.parametrize("when", ["queued", "running", "succeeded"])
def test_delete_in_every_state(portal: Portal, ada: Rest, when: str) -> None:
    command = ["true"] if when == "succeeded" else ["python", "-c", COUNT]
    first = None
    if when == "queued":
        # Holds all of the quota, so that the next one waits.
        first = ada.submit(
            name="holds", command=["python", "-c", COUNT], replicas={"worker": {"cpu": "8"}}
        )
        ada.wait(first, "running")
    job = ada.submit(name="deleted", command=command)
    ada.wait(job, when)
    assert ada.call("DELETE", f"jobs/{job['id']}/").status_code == 204
    assert ada.call("GET", f"jobs/{job['id']}/").status_code == 404
    if first:
        assert ada.call("DELETE", f"jobs/{first['id']}/").status_code == 204
    store = portal.home / "store"
    wait_for(
        "nothing of it is in the object store",
        lambda: not [p for p in store.rglob("*") if job["id"] in str(p) and p.is_file()],
        timeout_s=90,
    )


def check_with_the_cluster(portal: Portal, ada: Rest) -> None:
    """The cluster answers for each object, with its own quota, and nothing is made."""
    namespace = ada.tenant()["namespace"]
    roles = {"worker": {"count": 2, "cpu": "500m"}, "ps": {"cpu": "500m"}}
    body = {"name": "asked", "topology": "tf-ps", "command": ["true"], "replicas": roles}

    def ask() -> Any:
        answer = ada.call("POST", "jobs/?dry_run=All", json={"image": "python:3.11-slim", **body})
        assert answer.status_code == 200, answer.text
        return answer.json()

    told = ask()
    assert told["state"] == "accepted", told
    assert [one["kind"] for one in told["objects"]] == [
        *("Job", "Service", "ConfigMap", "Secret", "Deployment"),
        *("Pod", "Pod"),
    ]
    kubectl(portal, "-n", namespace, "create", "quota", "none-left", "--hard=pods=0")
    try:
        refused = wait_for(
            "the cluster counts by the quota",
            lambda: next((one for one in ask()["objects"] if one["state"] == "refused"), None),
        )
    finally:
        kubectl(portal, "-n", namespace, "delete", "quota", "none-left")
    assert (refused["kind"], "exceeded quota: none-left" in refused["text"]) == ("Pod", True)
    kinds = "jobs,deployments,services,configmaps,secrets,pods"
    assert "asked-" not in kubectl(portal, "-n", namespace, "get", kinds, "-o", "name")
    assert ada.get("jobs/?name=asked")["count"] == 0


def test_the_cluster_itself_checks_a_training(portal: Portal, ada: Rest) -> None:
    check_with_the_cluster(portal, ada)


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """An installation of its own, for tests that break it."""
    folder = tmp_path_factory.mktemp("own")
    for parent in (folder, *folder.parents[:3]):
        os.chmod(parent, 0o755)
    running = Portal(folder / "home", environment={"ONEBOX_ARGS": "--node-port-range 31900-31999"})
    try:
        yield running
    finally:
        running.kill_everything()


def test_a_second_start_finds_its_data(own: Portal) -> None:
    own.start()
    rest = own.sign_in("ada")
    tenant = rest.tenant()
    job = rest.submit(name="kept", command=["python", "-c", "print('kept')"])
    rest.wait(job, "succeeded")
    assert own.stop(signal.SIGINT) == 0
    own.start()
    again = own.sign_in("ada")
    assert again.tenant()["namespace"] == tenant["namespace"]
    assert again.get(f"jobs/{job['id']}/")["state"] == "succeeded"
    assert "kept" in again.text(f"jobs/{job['id']}/logs/")
    assert own.stop(signal.SIGTERM) == 0


def test_the_portal_stays_up_without_its_cluster_and_heals(
    own: Portal, page_of_own: Callable[[Portal, str], Page]
) -> None:
    own.start()
    rest = own.sign_in("ada")
    rest.tenant()
    job = rest.submit(name="survives", command=["python", "-c", COUNT])
    rest.wait(job, "running")
    page = page_of_own(own, "ada")
    for pid in own.processes():
        if "-m onebox " in command_line(pid):
            with suppress(ProcessLookupError):  # it ended with its parent
                os.kill(pid, signal.SIGKILL)
    expect(page.get_by_role("status").filter(has_text="cluster")).to_be_visible(timeout=30_000)
    page.goto(f"/trainings/{job['id']}/")
    expect(page.get_by_role("heading", name="survives")).to_be_visible()
    # The launcher starts the cluster again: to the pods that was a reboot of their node.
    wait_for(
        "the replica runs again",
        lambda: (
            rest.get(f"jobs/{job['id']}/")["state"] == "running"
            and "restart" in str(rest.get(f"jobs/{job['id']}/events/")).lower()
        ),
        timeout_s=90,
    )
    assert rest.get(f"jobs/{job['id']}/")["attempt"] >= 1
    assert rest.call("POST", f"jobs/{job['id']}/stop/").status_code == 200
    rest.wait(job, "stopped")


def test_a_kill_of_the_launcher_leaves_no_process(own: Portal) -> None:
    own.start()
    rest = own.sign_in("ada")
    job = rest.submit(name="orphan", command=["python", "-c", COUNT])
    rest.wait(job, "running")
    assert own.process is not None
    own.process.kill()
    own.process.wait()
    wait_for("no process is left", lambda: not own.processes(), timeout_s=20)
    own.process = None


FILL = """
import os
with open(os.environ["LOG_DIR"] + "/filling", "wb", buffering=0) as file:
    while True:
        file.write(bytes(2**20))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small volume")
def test_a_full_volume_is_told_and_loses_no_output(own: Portal) -> None:
    volumes = own.home.parent / "volumes"
    volumes.mkdir(mode=0o755)
    size = ["-t", "tmpfs", "-o", "size=24m,mode=755", "tmpfs", str(volumes)]
    subprocess.run(["mount", *size], check=True)
    try:
        own.environment["ONEBOX_ARGS"] += f" --volumes-dir {volumes}"
        own.start()
        rest = own.sign_in("ada")
        rest.tenant()
        job = rest.submit(name="fills", command=["python", "-c", FILL])
        done = rest.wait(job, "failed")
        assert done["reason"]["code"] == "volume_full", done["reason"]
        assert done["reason"]["next_step"]
        assert "No space left on device" in rest.text(f"jobs/{job['id']}/logs/")
        # The next one finds the volume full before it starts, and says so too.
        again = rest.wait(rest.submit(name="again", command=["true"]), "failed")
        assert again["reason"]["code"] == "volume_full", again["reason"]
        assert own.stop() == 0
    finally:
        own.kill_everything()
        subprocess.run(["umount", "-l", str(volumes)], check=True)
