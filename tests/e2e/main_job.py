"""Walks through Homeport's main job on any installation, by REST, websocket and gate.

Sign in, a namespace of one's own, a training with a parameter server and two workers whose logs
come live, its recycling, a notebook that computes, a TensorBoard that shows what was trained.
"""

import json

from websockets.sync.client import connect

from tests.e2e.portal import Portal, Rest, global_steps, kubectl
from tests.e2e.test_first_training import BODY, ENDED_S, FIRST_TRAINING_S, SCRIPT
from tests.e2e.test_gate import enter
from tests.e2e.test_services import START_S, Service, things_of
from tests.tools.waiting import wait_for


def do_the_main_job(portal: Portal, name: str = "ada", *, pull_s: float = FIRST_TRAINING_S) -> None:
    """All of it, one after the other; raises AssertionError at the first thing that is not so."""
    person = portal.sign_in(name)
    namespace = person.tenant()["namespace"]
    job = train(portal, person, namespace, pull_s)
    look_at_the_board(portal, person, job)
    compute_in_a_notebook(portal, person)
    pods = kubectl(portal, "-n", namespace, "get", "pods", "-o", "name")
    assert "notebook" not in pods


def train(portal: Portal, person: Rest, namespace: str, pull_s: float = FIRST_TRAINING_S) -> str:
    """A distributed training from upload to archive; its id."""
    job = person.submit(**BODY, source={"bundle": person.upload(SCRIPT)})
    person.wait(job, "running", timeout_s=pull_s)
    seen = live_log(person, job["id"])
    for line in ("server up ps 0", "server up worker 1", "done task 0", "done task 1"):
        assert line in seen, seen[-3000:]
    done = person.wait(job, "succeeded", timeout_s=ENDED_S)
    assert person.exit_codes(done) == [0, 0]
    wait_for(
        "the parameter server is gone",
        lambda: "-ps-" not in kubectl(portal, "-n", namespace, "get", "deploy,svc,pods"),
        timeout_s=90,
    )
    archive = person.text(f"jobs/{job['id']}/logs/?download=1")
    assert max(global_steps(archive)) >= 1990
    paths = [a["path"] for a in person.get(f"jobs/{job['id']}/artifacts/?page_size=200")["results"]]
    assert any(path.startswith("model.ckpt-2") for path in paths), paths
    return str(job["id"])


def live_log(person: Rest, job: str) -> str:
    """What a viewer of all replicas is sent until the log ends."""
    url = f"ws://localhost:{person.portal.port}/ws/jobs/{job}/logs/"
    seen = []
    with connect(url, additional_headers={"Authorization": f"Token {person.token}"}) as socket:
        while (frame := json.loads(socket.recv(timeout=ENDED_S)))["type"] != "end":
            seen += [line["text"] for line in frame.get("lines", ())]
    return "\n".join(seen)


def look_at_the_board(portal: Portal, person: Rest, job: str) -> None:
    """A TensorBoard on what was trained, through its gate."""
    board = Service(person, "tensorboard", name="board", job=job)
    board.wait("running")
    inside = board.enter()
    assert wait_for("its events are read", lambda: inside.get("data/runs").json(), timeout_s=60)
    assert person.call("DELETE", board.path).status_code == 204
    wait_for("it is gone", lambda: not things_of(portal, board), timeout_s=60)


def compute_in_a_notebook(portal: Portal, person: Rest) -> None:
    """A notebook's kernel computes, and it stops."""
    notebook = Service(person, "notebook", name="my notebook")
    notebook.wait("running", timeout_s=START_S)
    lab = enter(notebook)
    with lab.kernel() as kernel:
        assert kernel.run("import os; 6 * 7") == "42"
    notebook.do("stop")
    notebook.wait("stopped", timeout_s=120)
    wait_for("nothing is left", lambda: not things_of(portal, notebook), timeout_s=60)
