"""Notebooks and TensorBoards on the embedded cluster, by REST and through their gates."""

from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from tests.e2e.portal import Portal, Rest, kubectl
from tests.tools.waiting import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]

# Pulling JupyterLab with TensorFlow for the first time is part of it.
START_S = 420
STEPS = ["requested", "admitted", "scheduled", "volumes", "image", "started", "ready"]
SCALARS = """
import os
import tensorflow as tf
with tf.summary.create_file_writer(os.environ["LOG_DIR"]).as_default():
    for step in range(5):
        tf.summary.scalar("loss", 1.0 / (step + 1), step=step)
"""


class Service:
    """One notebook or TensorBoard of a person."""

    def __init__(self, rest: Rest, kind: str, **body: Any) -> None:
        self.rest = rest
        answer = rest.call("POST", f"{kind}s/", json=body)
        assert answer.status_code == 201, answer.text
        self.path = f"{kind}s/{answer.json()['id']}/"
        self.id = answer.json()["id"]

    def get(self) -> dict[str, Any]:
        found: dict[str, Any] = self.rest.get(self.path)
        return found

    def do(self, verb: str, **arguments: Any) -> Any:
        answer = self.rest.call("POST", f"{self.path}{verb}/", **arguments)
        assert answer.ok, answer.text
        return answer.json()

    def wait(self, state: str, *, timeout_s: float = START_S) -> dict[str, Any]:
        """It as REST shows it, once it is in this state."""

        def look() -> Any:
            seen = self.get()
            is_over = seen["state"] in {"stopped", "failed"}
            assert not is_over or seen["state"] == state, f"{seen}\n{self.describe()}"
            return seen if seen["state"] == state else None

        try:
            found: dict[str, Any] = wait_for(f"{self.path} is {state}", look, timeout_s=timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.get()}\n{self.describe()}") from error
        return found

    def describe(self) -> str:
        events = self.rest.get(f"{self.path}events/")["results"]
        return "\n".join(
            f"{e['source']} {e['subject']} {e['reason']}: {e['message']}" for e in events
        )

    def enter(self) -> "Inside":
        """Through the gate, as a browser goes."""
        return Inside(self.do("open")["url"])


class Inside:
    """A browser that was let in; `get` asks what is behind the gate."""

    def __init__(self, url: str) -> None:
        page, _, fragment = url.partition("#t=")
        parts = urlsplit(page)
        origin = f"{parts.scheme}://{parts.netloc}"
        self.session = requests.Session()
        assert self.session.get(page, timeout=30).ok
        answer = self.session.post(
            f"{page}/login", data=fragment, headers={"Origin": origin}, timeout=30
        )
        assert answer.ok, answer.text
        self.base = origin + str(answer.json()["next"])

    def get(self, path: str) -> requests.Response:
        return self.session.get(self.base + path, timeout=60)

    def put(self, path: str, body: dict[str, Any]) -> requests.Response:
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(self.base))
        token = self.session.cookies.get("_xsrf", "")
        headers = {"Origin": origin, "X-XSRFToken": token or ""}
        return self.session.put(self.base + path, json=body, headers=headers, timeout=60)


def things_of(portal: Portal, service: Service) -> str:
    kinds = "deployments,replicasets,services,secrets,pods"
    owned = ("-l", f"homeport.dev/owner={service.id}")
    return kubectl(portal, "get", kinds, "-A", *owned, "-o", "name").strip()


def test_a_notebook_keeps_its_files_over_a_stop_and_leaves_nothing(
    portal: Portal, ada: Rest
) -> None:
    notebook = Service(ada, "notebook", name="my notebook")
    running = notebook.wait("running")
    assert [step["key"] for step in running["steps"]] == STEPS
    assert {step["state"] for step in running["steps"]} == {"done"}
    times = [step["at"] for step in running["steps"]]
    assert times == sorted(times)

    inside = notebook.enter()
    assert inside.get("api/status").json()["kernels"] == 0
    assert inside.get("lab").ok
    listed = [entry["name"] for entry in inside.get("api/contents/").json()["content"]]
    assert "log" in listed
    assert inside.get("api/contents/log").ok
    written = inside.put(
        "api/contents/kept.txt", {"type": "file", "format": "text", "content": "still here"}
    )
    assert written.status_code == 201, written.text
    outside = requests.get(f"{inside.base}api/status", timeout=30)
    assert outside.status_code == 401

    notebook.do("stop")
    notebook.wait("stopped", timeout_s=120)
    wait_for("nothing is left", lambda: not things_of(portal, notebook), timeout_s=60)
    assert notebook.rest.call("POST", f"{notebook.path}open/").status_code == 409

    notebook.do("start")
    again = notebook.wait("running")
    assert again["start_count"] == 2
    inside = notebook.enter()
    assert inside.get("api/contents/kept.txt").json()["content"] == "still here"

    kubectl(portal, "delete", "pod", again["pod"], "-n", again["namespace"], "--wait=false")
    wait_for("its pod is replaced", lambda: notebook.get()["restarts"] == 1, timeout_s=90)
    replaced = notebook.wait("running")
    assert replaced["pod"] != again["pod"]
    assert notebook.enter().get("api/contents/kept.txt").ok

    assert ada.call("DELETE", notebook.path).status_code == 204
    assert ada.call("GET", notebook.path).status_code == 404
    wait_for("nothing is left", lambda: not things_of(portal, notebook), timeout_s=60)


def test_a_tensorboard_says_that_there_is_nothing_then_shows_a_trainings_scalars(ada: Rest) -> None:
    job = ada.submit(
        name="writes scalars",
        image="quay.io/jupyter/tensorflow-notebook:2026-11-01",
        command=["python", "-c", SCALARS],
        replicas={"worker": {"cpu": "1", "memory": "2Gi"}},
    )
    other = ada.submit(name="writes nothing", command=["true"])
    ada.wait(other)
    empty = Service(ada, "tensorboard", name="empty", job=other["id"])
    empty.wait("running")
    wait_for("it counted", lambda: empty.get()["event_files"] == 0, timeout_s=60)
    ada.call("DELETE", empty.path)

    ada.wait(job, "succeeded", timeout_s=START_S)
    board = Service(ada, "tensorboard", name="board", jobs=[job["id"], other["id"]])
    board.wait("running")
    assert wait_for("it counted", lambda: board.get()["event_files"], timeout_s=60) == 1
    inside = board.enter()

    def tags() -> Any:
        return inside.get("data/plugin/scalars/tags").json()

    found = wait_for("the scalars are read", tags, timeout_s=60)
    assert {run: list(seen) for run, seen in found.items()} == {"writes scalars/.": ["loss"]}
    assert requests.get(f"{inside.base}data/runs", timeout=30).status_code == 401
    ada.call("DELETE", board.path)
    wait_for("it is gone", lambda: not things_of(ada.portal, board), timeout_s=60)


def test_an_image_without_jupyterlab_fails_at_once_with_words(ada: Rest) -> None:
    notebook = Service(ada, "notebook", name="bare", image="python:3.11-slim")
    failed = notebook.wait("failed", timeout_s=180)
    assert failed["reason"]["code"] == "app_missing", failed["reason"]
    assert "no JupyterLab" in failed["reason"]["text"]
    assert [step["state"] for step in failed["steps"]][-1] in {"failed", "wait"}
    ada.call("DELETE", notebook.path)


def test_an_image_that_cannot_be_pulled_says_so_while_it_waits(ada: Rest) -> None:
    notebook = Service(ada, "notebook", name="no such image", image="lab/absent:1")

    def told() -> Any:
        seen = notebook.get()
        now = next((step for step in seen["steps"] if step["state"] == "now"), None)
        return now and now["key"] == "image" and "lab/absent:1" in now["detail"]

    wait_for("the image's step says why", told, timeout_s=120)
    assert notebook.get()["reason"]["text"]
    notebook.do("stop", json={"reason": "a typing error"})
    assert notebook.wait("stopped", timeout_s=120)["reason"]["text"] == "Stopped: a typing error"
    ada.call("DELETE", notebook.path)
