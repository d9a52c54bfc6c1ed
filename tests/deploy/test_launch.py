"""A whole Homeport, started by the launcher: it stays up, ends cleanly, and leaves nothing."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests
from websockets.sync.client import connect

from tests.e2e.portal import Portal
from tests.tools.waiting import wait_for

ENDLESS = "import time\nwhile True: print('tick'); time.sleep(0.1)"


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    # Not below pytest's folder: paths of sockets in it must stay short.
    folder = Path(tempfile.mkdtemp(prefix="hp-"))
    yield folder / "var"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def portal(home: Path) -> Iterator[Portal]:
    made = Portal(home)
    try:
        yield made
    finally:
        made.kill_everything()


def is_up(portal: Portal) -> bool:
    try:
        return requests.get(f"{portal.url}/healthz", timeout=30).status_code == 200
    except requests.RequestException:
        return False


def children(portal: Portal, words: str) -> list[int]:
    """Direct children of the launcher whose command line holds some words."""
    assert portal.process is not None
    found = []
    for pid in portal.processes():
        try:
            status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if int(status[1]) == portal.process.pid and words in command and status[0] != "Z":
            found.append(pid)
    return found


def test_what_dies_is_started_again_and_ctrl_c_ends_all(portal: Portal):
    portal.start()
    (cluster,) = children(portal, "-m onebox")
    (serve,) = children(portal, "manage.py serve")

    os.kill(cluster, signal.SIGKILL)
    wait_for("the cluster is back", lambda: children(portal, "-m onebox") not in ([], [cluster]))
    assert children(portal, "manage.py serve") == [serve], "the portal stays up meanwhile"
    assert is_up(portal)

    os.kill(serve, signal.SIGKILL)
    wait_for("the portal is back", lambda: children(portal, "manage.py serve") not in ([], [serve]))
    wait_for("it answers", lambda: is_up(portal))

    assert portal.stop(signal.SIGINT) == 0
    said = portal.log.read_text()
    assert "The embedded cluster ended with code -9." in said
    assert "The portal was started again." in said
    assert f"Homeport is ready: {portal.url}" in said
    assert "Traceback" not in said


def test_a_second_start_finds_everything_prepared(portal: Portal):
    took_s = portal.start()
    assert portal.stop(signal.SIGTERM) == 0
    assert took_s < 60


def test_a_launcher_that_is_killed_leaves_nothing(portal: Portal):
    portal.start()
    assert portal.process is not None
    portal.process.kill()
    portal.process.wait()
    wait_for("everything is gone", lambda: not portal.processes(), timeout_s=45)


def test_a_running_training_and_its_open_log_do_not_hold_ctrl_c(portal: Portal):
    portal.log.unlink(missing_ok=True)
    portal.environment["ONEBOX_ARGS"] = "--grace 1 --gpus 0"
    portal.start()
    ada = {"Authorization": f"Token {portal.sign_in('ada').token}"}
    tenants, jobs = f"{portal.url}/api/v1/tenants/", f"{portal.url}/api/v1/jobs/"

    def is_active() -> bool:
        return bool(requests.get(tenants, headers=ada).json()["results"][0]["state"] == "active")

    wait_for("ada's tenant is active", is_active)
    body = {"name": "endless", "image": "python:3.11-slim", "command": ["python", "-uc", ENDLESS]}
    made = requests.post(jobs, headers=ada, json=body)
    assert made.status_code == 201, made.text
    address = f"ws://localhost:{portal.port}/ws/jobs/{made.json()['id']}/logs/"
    with connect(address, additional_headers=ada) as websocket:
        wait_for("a line", lambda: '"lines"' in str(websocket.recv(timeout=60)), timeout_s=60)
        began = time.monotonic()
        assert portal.stop(signal.SIGINT) == 0
        assert time.monotonic() - began < 60
    said = portal.log.read_text()
    assert "Traceback" not in said
    assert "Unclosed" not in said


@pytest.mark.parametrize("moment", ["Preparing", "Starting the embedded", "Starting the portal"])
def test_ctrl_c_while_it_starts_ends_it_cleanly(portal: Portal, moment: str):
    portal.log.unlink(missing_ok=True)
    with suppress(AssertionError):  # it is not ready yet, which is what is wanted here
        portal.start(timeout_s=0)
    wait_for(moment, lambda: moment in portal.log.read_text(), interval_s=0.01)
    began = time.monotonic()
    assert portal.stop(signal.SIGINT) == 0
    assert time.monotonic() - began < 60
    assert "Traceback" not in portal.log.read_text()
