"""The main job through Homeport itself, on a machine with neither namespaces nor rights."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.e2e.jupyter import Lab
from tests.e2e.portal import ROOT, Portal, Rest, global_steps, kubectl
from tests.e2e.test_services import Inside, Service
from tests.tools.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]

SCRIPT = ROOT / "docs" / "examples" / "ps_v1.py"
BODY = {
    "name": "mnist",
    "topology": "tf-ps",
    "image": "tensorflow/tensorflow:2.21.0",
    "command": ["python", "ps_v1.py", "--log_dir={{log_dir}}"],
    "cluster_flags": True,
    "replicas": {
        "worker": {"count": 2, "cpu": "1", "memory": "2Gi"},
        "ps": {"count": 1, "cpu": "1", "memory": "1Gi"},
    },
}
# Pulling the image is part of it, on a machine that may have other things to do.
RUNNING_S, SUCCEEDED_S, SERVICE_S = 480, 300, 480
CELL = """
import os, socket, subprocess
with open("/data/said.txt", "w") as file:
    file.write("in the notebook")
os.chdir("/log")
print(os.getcwd(), socket.gethostname(), bool(os.listdir("/log")))
print(subprocess.run("cat ../data/said.txt || cat /data/said.txt", shell=True, capture_output=True, text=True).stdout)
"""


@pytest.fixture(scope="module")
def trained(ada: Rest) -> dict[str, Any]:
    job = ada.submit(**BODY, source={"bundle": ada.upload(SCRIPT)})
    ada.wait(job, "running", "succeeded", timeout_s=RUNNING_S)
    return ada.wait(job, "succeeded", timeout_s=SUCCEEDED_S)


def test_what_is_lost_is_said_at_the_start_and_by_the_node(portal: Portal, ada: Rest) -> None:
    said = " ".join(portal.log.read_text().split())
    assert "Pods are not kept apart, because namespaces are refused here" in said
    shown = kubectl(portal, "get", "node", "onebox", "-o", "jsonpath={.status.conditions}")
    assert '"reason":"PlainProcesses"' in shown
    assert "a port that another program opened on all addresses is taken" in shown


def test_a_training_with_a_parameter_server_succeeds(ada: Rest, trained: dict[str, Any]) -> None:
    log = ada.text(f"jobs/{trained['id']}/logs/?download=1")
    for line in ("server up ps 0", "server up worker 0", "server up worker 1"):
        assert line in log, log[-3000:]
    steps = global_steps(log)
    assert len(steps) == 2
    assert max(steps) >= 1990
    assert set(re.findall(r"Started server with target: grpc://\S+:(\d+)", log)) == {"2222"}
    found = ada.get(f"jobs/{trained['id']}/artifacts/?page_size=200")["results"]
    paths = [artifact["path"] for artifact in found]
    assert any(path.startswith("model.ckpt-2") for path in paths), paths
    assert any("events.out.tfevents" in path for path in paths), paths


def test_a_stopped_training_leaves_no_process(ada: Rest) -> None:
    marker = "86400.25"
    program = f"import subprocess; subprocess.run(['setsid', 'sleep', '{marker}'])"
    job = ada.submit(name="endless", command=["python", "-c", program])
    ada.wait(job, "running", timeout_s=RUNNING_S)
    wait_for("its process runs", lambda: _processes("sleep", marker), timeout_s=60)
    assert ada.call("POST", f"jobs/{job['id']}/stop/").ok
    ada.wait(job, "stopped", timeout_s=120)
    wait_for("it is gone", lambda: not _processes("sleep", marker), timeout_s=60)


def test_a_notebook_runs_cells_on_the_volumes(ada: Rest, trained: dict[str, Any]) -> None:
    notebook = Service(ada, "notebook", name="my notebook")
    notebook.wait("running", timeout_s=SERVICE_S)
    inside = notebook.enter()
    assert inside.get("lab").ok
    with _lab(inside).kernel() as kernel:
        said = kernel.run(CELL)
    assert said.split()[0] == "/log"
    assert said.split()[2] == "True"
    assert "in the notebook" in said
    listed = [entry["name"] for entry in inside.get("api/contents/").json()["content"]]
    assert "said.txt" in listed
    assert ada.call("DELETE", notebook.path).status_code == 204


def test_a_tensorboard_shows_the_training(ada: Rest, trained: dict[str, Any]) -> None:
    board = Service(ada, "tensorboard", name="board", job=trained["id"])
    board.wait("running", timeout_s=SERVICE_S)
    inside = board.enter()
    runs = wait_for("the run is read", lambda: inside.get("data/runs").json(), timeout_s=120)
    assert len(runs) == 1
    assert ada.call("DELETE", board.path).status_code == 204


def _lab(inside: Inside) -> Lab:
    cookies = "; ".join(f"{c.name}={c.value}" for c in inside.session.cookies)
    return Lab(inside.base, cookies)


def _processes(*argv: str) -> list[str]:
    from tests.onebox.node_sandbox.bench import processes_named

    return [str(pid) for pid in processes_named(" ".join(argv))]
