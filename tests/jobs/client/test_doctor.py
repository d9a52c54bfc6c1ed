"""`homeport doctor` against a scripted portal: what each fault makes of its steps, and that it leaves nothing."""

import hashlib
import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from homeport_client import doctor
from homeport_client.version import own_version
from jobs.rules.check_results import parse_results
from tests.jobs.client.world import Answer, Asked, CommandLine, listed, refusal

JOB, BOARD = "jobs/j-1/", "tensorboards/b-1/"
ME = {"username": "ada", "role": "researcher"}
ACTIVE = {"namespace": "u-ada-1", "state": "active"}
NEW = {"namespace": "u-ada-1", "state": "provisioning", "reason_text": "Its claim waits."}
PULLS = [{"reason": "Pulling", "at": "1"}], [{"reason": "Pulled", "at": "2"}]


def me(tenant: Any = ACTIVE, version: str = own_version()) -> Answer:
    return Answer({**ME, "tenant": tenant}, headers={"Homeport-Version": version})


def reason(state: str, code: str = "", text: str = "") -> dict[str, Any]:
    return {"id": "j-1", "state": state, "reason": {"code": code, "text": text, "next_step": ""}}


class Lab:
    """A portal where all works, but for what a test changes in `answers`; its clock goes when somebody sleeps."""

    def __init__(self, homeport: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        self.frames = [self.frame(*(f"line {n}" for n in range(20))), {"type": "end"}]
        self.homeport = homeport
        self.pace = 20
        self._now_s = 0.0
        monkeypatch.setattr(
            doctor, "time", SimpleNamespace(monotonic=lambda: self._now_s, sleep=self._sleep)
        )
        monkeypatch.setattr(doctor, "open_socket", self._socket)
        running = {
            **reason("running"),
            "node": "n1",
            "event_files": 1,
            "replicas": [{"node": "n1"}],
        }
        starting, ended = reason("starting"), {**running, "state": "succeeded"}
        gate = itertools.cycle([401, 200])  # without the cookie, then with it
        answers: dict[str, Any] = {
            "GET me/": me(),
            **{f"GET {kind}": self._list(kind) for kind in doctor._WRITTEN},
            "POST bundles/": self._upload,
            "POST jobs/": self._make(JOB, "j-1"),
            f"GET {JOB}": [starting, starting, starting, running, ended],
            f"GET {JOB}events/": [*(listed(*PULLS[0]) for _ in "12"), listed(*PULLS[1])],
            f"GET {JOB}logs/": lambda asked: Answer(data=self.log.encode()),
            f"GET {JOB}artifacts/": listed({"id": "f", "path": "worker-0/a.txt"}),
            f"GET {JOB}artifacts/f/": lambda asked: Answer(data=self.name.encode()),
            "POST tensorboards/": self._make(BOARD, "b-1"),
            f"GET {BOARD}": running,
            f"POST {BOARD}open/": {"url": f"{homeport.url}/s/b-1/__gate#t=ticket"},
            "GET /s/b-1/data/environment": lambda asked: Answer({}, next(gate)),
            "POST /s/b-1/__gate/login": Answer({}, headers={"Set-Cookie": "gate=1; Path=/"}),
            **{f"DELETE {path}": self._delete(path) for path in (JOB, BOARD, "bundles/u-1/")},
        }
        homeport.answers.update(answers)

    @staticmethod
    def frame(*texts: str) -> dict[str, Any]:
        return {"type": "lines", "lines": [{"text": text} for text in texts]}

    @property
    def name(self) -> str:
        return str(self.made[JOB]["name"])

    @property
    def log(self) -> str:
        return f"data: {self.name}\n" + "".join(f"line {n}\n" for n in range(20))

    def _sleep(self, seconds: float) -> None:
        self._now_s += seconds * self.pace

    @contextmanager
    def _socket(self, rest: Any, path: str) -> Iterator[Any]:
        frames = iter(self.frames)
        yield SimpleNamespace(recv=lambda timeout: json.dumps(next(frames)))

    def _list(self, kind: str) -> Callable[[Asked], Any]:
        return lambda asked: listed(*(r for p, r in self.made.items() if p.startswith(kind)))

    def _make(self, path: str, pk: str) -> Callable[[Asked], Any]:
        def make(asked: Asked) -> Any:
            self.made[path] = {"id": pk, "name": asked.json["name"], "owner": "ada"}
            return Answer(self.made[path], 201)

        return make

    def _upload(self, asked: Asked) -> Any:
        head, _, rest = asked.body.partition(b"\r\n\r\n")
        sent = rest.rpartition(b"\r\n--")[0]
        name = head.partition(b'filename="')[2].partition(b'"')[0].decode()
        self.made["bundles/u-1/"] = {"id": "u-1", "file_name": name}
        assert len(sent) > 900_000
        return Answer({"id": "u-1", "sha256": hashlib.sha256(sent).hexdigest()}, 201)

    def _delete(self, path: str) -> Callable[[Asked], Any]:
        def delete(asked: Asked) -> Any:
            del self.made[path]
            return Answer(status=204)

        return delete


@pytest.fixture
def lab(homeport: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield Lab(homeport, monkeypatch)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_all_works(lab: Lab) -> None:
    lab.pace = 1
    lab.homeport.answers["GET me/"] = [me(NEW), me(NEW), me()]
    old = {"id": "old", "name": "homeport-doctor-1", "owner": "ada"}
    lab.made["jobs/old/"] = {**old, "queued_at": "2026-01-01T00:00:00Z"}
    lab.homeport.answers["DELETE jobs/old/"] = lab._delete("jobs/old/")
    ran = lab.homeport("doctor")
    assert ran.code == 0, ran
    assert ran.out.replace(lab.homeport.url, "PORTAL").splitlines() == [
        "✓ passed   sign in        0.0 s  ada (researcher) at PORTAL",
        f"✓ passed   versions       0.0 s  command line {own_version()}, portal {own_version()}",
        "✓ passed   namespace      2.0 s  u-ada-1 is active. Of a killed doctor deleted: 1.",
        "✓ passed   upload         0.0 s  1 MB arrived as it was sent.",
        "✓ passed   training       3.0 s  It started on n1., pulling images 2 s",
        "✓ passed   log            0.0 s  20 lines, to the last one.",
        "✓ passed   archive        0.0 s  20 lines, to the last one.",
        "✓ passed   data           0.0 s  /data was written and read.",
        "✓ passed   artifact       0.0 s  The file that it wrote came back.",
        "✓ passed   TensorBoard    0.0 s  It runs on n1 and sees what the training wrote.",
        "✓ passed   gate           0.0 s  PORTAL opens with a ticket, and is closed without one.",
        "✓ passed   delete         1.0 s  Nothing is left, but its folder on /log until next time.",
        "All of it works: 12 steps in 4 s, besides 2 s in the queue and for images.",
    ]
    assert lab.made == {}


NEED = ["log", "archive", "data", "artifact", "TensorBoard", "gate"]
QUEUED = reason("queued", "quota", "It needs 1 CPU, 0 are free.")
CASES: dict[str, tuple[dict[str, Any], list[str], str]] = {
    # what is amiss: answers, the steps that have not passed, what is said
    "another version": ({"GET me/": me(version="9.0.0")}, ["versions failed"], "account page"),
    "a namespace that does not come": (
        {"GET me/": me(NEW)},
        [f"{name} skipped" for name in ("namespace", "upload", "training", *NEED)],
        "u-ada-1 is provisioning. Its claim waits.",
    ),
    "no room": (
        {f"GET {JOB}": QUEUED},
        ["training skipped"],
        "There is no room for it. It needs",
    ),
    "no node": (
        {f"GET {JOB}": reason("queued", "nodes_closed", "All nodes are cordoned.")},
        ["training skipped"],
        "There is no room for it. All nodes",
    ),
    "never room": (
        {"POST jobs/": refusal(400, "never_fits", "It needs 1 CPU of 0.", "replicas")},
        ["training skipped"],
        "It needs 1 CPU of 0.",
    ),
    "no reconciler": ({f"GET {JOB}": reason("queued")}, ["training failed"], "Nobody looked at it"),
    "refused": ({"POST jobs/": refusal(403, "x", "No.")}, ["training failed"], "No."),
    "an image that does not come": (
        {f"GET {JOB}events/": listed(*PULLS[0]), f"GET {JOB}": reason("starting")},
        ["training failed"],
        "It is starting after 6",
    ),
    "a program that fails": (
        {f"GET {JOB}": reason("failed", "x", "worker-0 ended with exit code 1.")},
        ["training failed"],
        "It is failed. worker-0 ended with exit code 1.",
    ),
    "no archive": (
        {f"GET {JOB}logs/": Answer(data=b"line 1\n")},
        ["archive failed", "data skipped"],
        "Is the object store up?",
    ),
    "another file": (
        {f"GET {JOB}artifacts/f/": Answer(data=b"x")},
        ["artifact failed"],
        "came back changed",
    ),
    "another volume": (
        {f"GET {BOARD}": {**reason("running"), "event_files": 0}},
        ["TensorBoard failed", "gate skipped"],
        "the volume is not the same on all nodes",
    ),
    "an open gate": (
        {"GET /s/b-1/data/environment": {}},
        ["gate failed"],
        "HTTP 200 without a ticket",
    ),
    "no way to the gate": (
        {f"POST {BOARD}open/": {"url": "http://127.0.0.1:1/s/b-1/__gate#t=t"}},
        ["gate failed"],
        "NODE_HOST must lead from here",
    ),
    "what does not go": (
        {f"DELETE {JOB}": refusal(409, "in_use", "It is used.")},
        ["delete failed"],
        "Still there: jobs/j-1",
    ),
}


@pytest.mark.parametrize("amiss", CASES)
def test_what_is_amiss_is_said_and_nothing_is_left(lab: Lab, amiss: str) -> None:
    answers, steps, said = CASES[amiss]
    lab.homeport.answers.update(answers)
    ran = lab.homeport("doctor", "-o", "json")
    assert ran.code == 1, ran
    found = {step["name"]: f"{step['name']} {step['outcome']}" for step in ran.json["checks"]}
    if steps[0].startswith("training"):
        steps = [*steps, *(f"{name} skipped" for name in NEED)]
    assert [one for one in found.values() if not one.endswith(" passed")] == steps
    is_failed = any(step.endswith(" failed") for step in steps)
    assert ran.json["verdict"] == ("failed" if is_failed else "incomplete")
    assert said in ran.out
    assert parse_results(ran.out.encode(), "doctor").took_s == ran.json["took_s"]
    assert all(step["next_step"] for step in ran.json["checks"] if step["outcome"] == "failed")
    assert lab.made.keys() == ({JOB} if amiss == "what does not go" else set())


def test_an_admins_is_kept_for_the_health_page(lab: Lab) -> None:
    lab.homeport.answers["GET me/"] = Answer({**ME, "role": "admin", "tenant": None})
    ran = lab.homeport("doctor", "-o", "json")
    assert "the health page does not have this: no POST doctor/" in ran.err
    assert lab.homeport.asked[-1].json == ran.json


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ([Lab.frame("line 0", "line 2"), {"type": "end"}], "not each came once and in order"),
        ([Lab.frame("line 0"), "no frame"], "broke off after 1 lines"),
    ],
)
def test_a_log_with_a_gap_is_no_log(lab: Lab, frames: list[Any], said: str) -> None:
    lab.frames = frames
    ran = lab.homeport("doctor")
    assert ran.code == 1
    [line] = [line for line in ran.out.splitlines() if line.startswith("✗ failed")]
    assert " log " in line
    assert said in line


def test_who_ends_it_early_finds_nothing_left_and_a_failure_on_the_health_page(lab: Lab) -> None:
    lab.homeport.answers["GET me/"] = Answer(
        {**ME, "role": "admin", "tenant": ACTIVE}, headers={"Homeport-Version": own_version()}
    )
    lab.homeport.answers["POST doctor/"] = {}
    lab.homeport.answers[f"GET {JOB}"] = reason("starting")
    doctor.time.sleep = _Interrupting(doctor.time.sleep)
    ran = lab.homeport("doctor")
    assert ran.code == 130
    assert ran.out.splitlines()[-1].startswith("✓ passed   delete")
    assert lab.made == {}
    kept = lab.homeport.asked[-1]
    assert parse_results(kept.body, "doctor").checks[-1].outcome == "failed"
    assert kept.json["verdict"] == "failed"


class _Interrupting:
    """Ctrl-C at the first pause, and SIGTERM at each one after it, while all is deleted."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep
        self._is_over = False

    def __call__(self, seconds: float) -> None:
        if not self._is_over:
            self._is_over = True
            raise KeyboardInterrupt
        os.kill(os.getpid(), signal.SIGTERM)
        self._sleep(seconds)
