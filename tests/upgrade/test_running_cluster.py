"""The portal alone is replaced while trainings and a notebook of the earlier version go on."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest
import requests
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from tests.e2e.portal import Rest, new_home
from tests.e2e.test_services import Service
from tests.tools.waiting import wait_for
from tests.upgrade.old import Old
from tests.upgrade.parts import LAB, Parts, kill_container, started

pytestmark = pytest.mark.e2e

# Workers count until they are told to end; they do not mind that a parameter server is away.
COUNT = """
import itertools, time
if "{{job_name}}" == "ps":
    print("server up", flush=True)
    time.sleep(36000)
for number in itertools.count():
    print("count", number, flush=True)
    time.sleep(0.1)
"""
FROM_BUNDLE = """
import os
print("from the bundle", flush=True)
os.makedirs(os.environ["ARTIFACTS_DIR"], exist_ok=True)
open(os.environ["ARTIFACTS_DIR"] + "/result.txt", "w").write("trained")
"""
SMALL = {"cpu": "1", "memory": "256Mi"}
COUNTING: dict[str, Any] = {
    "topology": "tf-ps",
    "command": ["python", "-c", COUNT],
    "replicas": {"worker": {"count": 2, **SMALL}, "ps": SMALL},
}
# Of the quota's 8 CPU, 3 are the training's and 1 is the notebook's.
TOO_MUCH = {"worker": {"cpu": "5", "memory": "256Mi"}}
LAB_S = 300  # JupyterLab is pulled first


@dataclass
class Follower:
    """A viewer of all logs of a training, who comes again with the cursor when cut off.

    In a loop of its own: where one thread closes a TLS socket that another one reads, OpenSSL may read from
    whatever has got its descriptor since, which was a pipe of kubectl once.

    Attributes:
        lines: (replica, text) in the order in which they came.
        breaks: how often the connection ended.
    """

    rest: Rest
    job: str
    lines: list[tuple[str, str]] = field(default_factory=list)
    breaks: int = 0
    skipped: int = 0
    is_over: bool = False

    def __post_init__(self) -> None:
        threading.Thread(target=lambda: asyncio.run(self._follow()), daemon=True).start()

    async def _follow(self) -> None:
        cursor = ""
        while not self.is_over:
            url = f"{self.rest.portal.url.replace('http', 'ws', 1)}/ws/jobs/{self.job}/logs/"
            token = {"Authorization": f"Token {self.rest.token}"}
            try:
                here = f"{url}?cursor={quote(cursor)}"
                async with connect(here, additional_headers=token) as socket:
                    while not self.is_over:
                        async with asyncio.timeout(60):
                            frame = json.loads(await socket.recv())
                        self.is_over = frame["type"] == "end"
                        self.skipped += frame["type"] == "skipped"
                        cursor = frame.get("cursor", cursor)
                        told = [line["text"] for line in frame.get("lines", ())]
                        self.lines += [(frame["replica"], text) for text in told]
            except (OSError, WebSocketException, TimeoutError):
                self.breaks += 1
                await asyncio.sleep(0.5)

    def numbers(self, replica: str) -> list[int]:
        return numbers(text for who, text in self.lines if who == replica)


def numbers(texts: Iterator[str]) -> list[int]:
    """What a worker counted."""
    found = (re.fullmatch(r"count (\d+)", text) for text in texts)
    return [int(match[1]) for match in found if match]


def replica_pod(parts: Parts, namespace: str, job: dict[str, Any], role: str) -> dict[str, Any]:
    """The pod of the first replica of a role."""
    labels = {"homeport.dev/owner": job["id"], "homeport.dev/role": role}
    pods = [
        pod for pod in parts.items(namespace) if labels.items() <= pod["metadata"]["labels"].items()
    ]
    pods.sort(key=lambda pod: str(pod["metadata"]["name"]))
    return pods[0]


def lose_a_worker(parts: Parts, rest: Rest, namespace: str, job: dict[str, Any]) -> Any:
    """Why a training ended whose worker's container was killed."""
    pod = replica_pod(parts, namespace, job, "worker")
    kill_container(f"HOMEPORT_POD_UID={pod['metadata']['uid']}")
    return rest.wait(job, "failed", timeout_s=240)["reason"]


@pytest.fixture
def parts(old: Old, database: dict[str, str]) -> Iterator[Parts]:
    with started(Parts(new_home("upgrade"), environment=database), old) as made:
        yield made


@dataclass
class Running:
    """What the earlier version had at work when its portal was stopped.

    Attributes:
        reason: why an earlier training ended whose worker was lost, as that version told it.
        before: `pods` when that portal was stopped.
    """

    parts: Parts
    ada: Rest
    lin: Rest
    browser: requests.Session
    notebook: Service
    training: dict[str, Any]
    queued: dict[str, Any]
    follower: Follower
    reason: Any
    namespace: str
    before: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict)

    @classmethod
    def begin(cls, parts: Parts) -> "Running":
        ada, lin = parts.sign_in("ada"), parts.sign_in("lin")
        browser = parts.session("ada")
        namespace = ada.tenant()["namespace"]
        lin.tenant()
        notebook = Service(ada, "notebook", name="of the old version", image=LAB)
        lost = ada.submit(name="loses a worker", **COUNTING)
        ada.wait(lost, "running")
        reason = lose_a_worker(parts, ada, namespace, lost)
        notebook.wait("running", timeout_s=LAB_S)
        kept = {"type": "file", "format": "text", "content": "still here"}
        assert notebook.enter().put("api/contents/kept.txt", kept).ok
        training = ada.submit(name="goes on", **COUNTING)
        ada.wait(training, "running")
        code = parts.home / "train.py"
        code.write_text(FROM_BUNDLE)
        queued = ada.submit(
            name="waits",
            command=["python", "train.py"],
            source={"bundle": ada.upload(code)},
            replicas=TOO_MUCH,
        )
        wait_for("it waits", lambda: ada.get(f"jobs/{queued['id']}/")["reason"]["text"])
        follower = Follower(ada, training["id"])
        for worker in ("worker-0", "worker-1"):
            wait_for("lines come", lambda who=worker: follower.numbers(who))
        running = cls(
            parts, ada, lin, browser, notebook, training, queued, follower, reason, namespace
        )
        running.before = running.pods()
        return running

    def pods(self) -> dict[str, tuple[str, dict[str, int]]]:
        """Those of the training and the notebook; an earlier training's log may be saved by more."""
        return self.parts.pods(self.namespace, {self.training["id"], self.notebook.id})

    def state(self, job: dict[str, Any]) -> str:
        return str(self.ada.get(f"jobs/{job['id']}/")["state"])

    def kept(self) -> str:
        """The file in the notebook, through its gate."""
        return str(self.notebook.enter().get("api/contents/kept.txt").json()["content"])

    def opens(self) -> bool:
        try:
            return self.kept() == "still here"
        except (AssertionError, KeyError, OSError, ValueError):
            return False

    def go_on(self, seen: int) -> None:
        """Who was signed in still is, nothing was touched, and `seen` lines are not the last."""
        page = self.browser.get(f"{self.parts.url}/trainings/", allow_redirects=False, timeout=30)
        assert page.status_code == 200
        assert "goes on" in page.text
        # Today's reconciler does its work on the old cluster.
        self.lin.wait(self.lin.submit(name="new one", command=["true"]), "succeeded")
        assert self.state(self.training) == "running"
        assert self.state(self.queued) == "queued"
        assert self.pods() == self.before
        wait_for("lines come again", lambda: len(self.follower.lines) > seen + 50)
        assert self.follower.breaks > 0
        assert self.kept() == "still here"

    def come_back(self) -> None:
        """A server's container and a gate's die once, and are back by what the old objects say."""
        server = replica_pod(self.parts, self.namespace, self.training, "ps")["metadata"]
        kill_container(f"HOMEPORT_POD_UID={server['uid']}")
        kill_container("/gate.py", f"GATE_SERVICE_ID={self.notebook.id}")
        killed = (server["name"], self.notebook.get()["pod"])

        def restarts() -> dict[str, int]:
            return {name: sum(counts.values()) for name, (_, counts) in self.pods().items()}

        for name in killed:
            wait_for(f"{name} is back", lambda of=name: restarts()[of], timeout_s=120)
        wait_for("the notebook answers", self.opens, timeout_s=120)
        up = ("ps-0", "server up")
        wait_for("the server is up", lambda: self.follower.lines.count(up) == 2, timeout_s=120)
        assert restarts() == {name: int(name in killed) for name in self.before}
        uids = {name: uid for name, (uid, _) in self.pods().items()}
        assert uids == {name: uid for name, (uid, _) in self.before.items()}
        assert self.state(self.training) == "running"

    def end(self) -> None:
        """A lost worker ends the training as it always did; the one that waited has its turn."""
        ada, queued = self.ada, f"jobs/{self.queued['id']}"
        reason = lose_a_worker(self.parts, ada, self.namespace, self.training)
        assert reason["code"] == self.reason["code"]  # its words may be better ones by now
        assert ada.wait(self.queued, "succeeded", timeout_s=240)["attempt"] == 1
        assert "from the bundle" in ada.text(f"{queued}/logs/?download=1")
        files = ada.get(f"{queued}/artifacts/")["results"]
        [result] = [row for row in files if row["path"].endswith("result.txt")]
        assert ada.text(f"{queued}/artifacts/{result['id']}/") == "trained"

    def lack_no_line(self) -> None:
        """For who looked on, and in what is kept: each worker's lines once, in order."""
        wait_for("the log has ended", lambda: self.follower.is_over, timeout_s=120)
        assert self.follower.skipped == 0
        archive = self.ada.text(f"jobs/{self.training['id']}/logs/?download=1").splitlines()
        for worker in ("worker-0", "worker-1"):
            start = f"{worker} | "
            kept = numbers(li.removeprefix(start) for li in archive if li.startswith(start))
            assert kept == list(range(len(kept)))
            assert self.follower.numbers(worker) == kept


def test_what_runs_goes_on_under_todays_portal(parts: Parts) -> None:
    running = Running.begin(parts)
    parts.end_portal()
    parts.become_todays()
    parts.run("manage.py", "migrate")
    parts.run("manage.py", "collectstatic", "--no-input")
    seen = len(running.follower.lines)
    parts.serve()
    running.go_on(seen)
    running.come_back()
    running.end()
    running.lack_no_line()
    parts.end_portal()
