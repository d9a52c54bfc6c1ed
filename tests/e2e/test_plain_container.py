"""The main job through Homeport itself, on a machine with neither namespaces nor rights.

It is the same as everywhere, step for step (`tests/e2e/main_job.py`): nothing of it is lost here. What is
lost is what keeps pods apart, which Homeport has to say.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.engine import network
from onebox.testing import IN_PLAIN_CONTAINER, OneBox, launch
from onebox.testing.processes import processes_named
from portal.cluster.client import Cluster
from portal.cluster.preflight import CheckResult
from tests.e2e.main_job import do_the_main_job
from tests.e2e.portal import Portal, Rest, kubectl, new_home, thrown_away
from tests.e2e.test_gate import enter
from tests.e2e.test_services import START_S, Service
from tests.tools.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]

RUNNING_S = 480  # an image is pulled, and files are opened slowly here
CELL = """
import os, socket, subprocess
with open("/data/said.txt", "w") as file:
    file.write("in the notebook")
os.chdir("/log")
print(os.getcwd(), socket.gethostname(), bool(os.listdir("/log")))
print(subprocess.run("cat ../data/said.txt || cat /data/said.txt", shell=True, capture_output=True, text=True).stdout)
"""


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    with thrown_away(Portal(new_home("plain-e2e"), wrapper=IN_PLAIN_CONTAINER)) as running:
        yield running


@pytest.fixture
def box() -> Iterator[OneBox]:
    """A onebox alone, whose namespaces no portal looks at besides."""
    folder = Path(tempfile.mkdtemp(prefix="homeport-plain-"))
    home = folder / "onebox"
    home.mkdir()
    options = ("--home", str(home), "--gpus", "2", "--grace", "2", "--egress", "off")
    command = [*IN_PLAIN_CONTAINER, sys.executable, "-m", "onebox", *options]
    with contextlib.closing(launch(command, home, folder / "onebox.log")) as started:
        yield started
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def trained(portal: Portal, ada: Rest) -> dict[str, Any]:
    """The training of the main job, which was done from beginning to end."""
    do_the_main_job(portal, pull_s=RUNNING_S)
    [job] = [job for job in ada.get("jobs/")["results"] if job["topology"] == "tf-ps"]
    return dict(job)


def test_what_is_lost_is_said_at_the_start_and_by_the_node(portal: Portal) -> None:
    said = " ".join(portal.log.read_text().split())
    assert "Pods are not kept apart, because namespaces are refused here" in said
    shown = kubectl(portal, "get", "node", "onebox", "-o", "jsonpath={.status.conditions}")
    assert '"reason":"PlainProcesses"' in shown
    assert "a port that another program opened on all addresses is taken" in shown


def test_the_main_job(ada: Rest, trained: dict[str, Any]) -> None:
    """Servers of a training listen where its addresses say, though all pods share one network."""
    log = ada.text(f"jobs/{trained['id']}/logs/?download=1")
    assert set(re.findall(r"Started server with target: grpc://\S+:(\d+)", log)) == {"2222"}


def test_a_stopped_training_leaves_no_process(ada: Rest) -> None:
    marker = "86400.25"
    program = f"import subprocess; subprocess.run(['setsid', 'sleep', '{marker}'])"
    job = ada.submit(name="endless", command=["python", "-c", program])
    ada.wait(job, "running", timeout_s=RUNNING_S)
    wait_for("its process runs", lambda: _processes("sleep", marker), timeout_s=60)
    assert ada.call("POST", f"jobs/{job['id']}/stop/").ok
    ada.wait(job, "stopped", timeout_s=120)
    wait_for("it is gone", lambda: not _processes("sleep", marker), timeout_s=60)


def test_a_notebooks_cells_see_the_volumes(ada: Rest, trained: dict[str, Any]) -> None:
    notebook = Service(ada, "notebook", name="volumes")
    notebook.wait("running", timeout_s=START_S)
    lab = enter(notebook)
    with lab.kernel() as kernel:
        said = kernel.run(CELL)
    assert said.split()[0] == "/log"
    assert said.split()[2] == "True"
    assert "in the notebook" in said
    listed = [entry["name"] for entry in lab.call("GET", "api/contents/").json()["content"]]
    assert "said.txt" in listed
    assert ada.call("DELETE", notebook.path).status_code == 204


def test_namespaces_are_not_apart(box: OneBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pre-flight of the network says so where there is one network for all."""
    pods = dataclasses.replace(network.pod_settings(), portal_image="python:3.11-slim")
    monkeypatch.setattr(network, "pod_settings", lambda: pods)

    async def look() -> CheckResult:
        client = await Cluster.connect(str(box.kubeconfig))
        try:
            return await network.NetworkCheck(client).look()
        finally:
            await client.close()

    found = asyncio.run(look())
    first, second = network.namespaces()
    assert (found.state, found.detail) == ("no", f"a pod of {second} reached one of {first}")


def _processes(*argv: str) -> list[str]:
    return [str(pid) for pid in processes_named(" ".join(argv))]
