"""A day on the command line, against a real portal and cluster: `homeport` as its own program."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import requests

from portal.cluster.names import short_id
from tests.e2e.portal import PASSWORD, ROOT, Portal, Rest, global_steps
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e

SMALL = ("--image", "python:3.11-slim", "--cpu", "500m", "--memory", "256Mi")
COUNT = """\
import os, sys, time
from package.words import hello
hello()
lines, pause_s, code = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
for number in range(lines):
    print('line', number, '\\x1b[35mcoloured\\x1b[0m \\x1b]0;title\\x07', flush=True)
    time.sleep(pause_s)
folder = os.path.join(os.environ['ARTIFACTS_DIR'], 'deep')
os.makedirs(folder, exist_ok=True)
open(os.path.join(folder, 'model.bin'), 'wb').write(bytes(range(256)) * 4000)
open(os.path.join(os.environ['ARTIFACTS_DIR'], 'report.txt'), 'w').write('all is well')
print('files', sorted(os.listdir('.')))
sys.exit(code)
"""


class CommandLine:
    """The program, with a configuration of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        self.environment = {
            **kept,
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "PYTHONPATH": str(ROOT),
        }
        self.command = [sys.executable, "-m", "homeport_client"]

    def __call__(
        self, *words: object, stdin: str = "", code: int = 0, timeout_s: float = 180
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self.command, *map(str, words)],
            input=stdin,
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == code, f"{done.returncode}\n{done.stdout[-3000:]}\n{done.stderr}"
        return done

    def json(self, *words: object) -> Any:
        return json.loads(self(*words, "-o", "json").stdout)

    def start(self, *words: object) -> "subprocess.Popen[str]":
        """The program in the background, its output in files beside its configuration."""
        with (self.home / "out").open("w") as out, (self.home / "err").open("w") as err:
            return subprocess.Popen(
                [*self.command, *map(str, words)],
                env=self.environment,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                text=True,
            )

    @property
    def out(self) -> str:
        return (self.home / "out").read_text()

    @property
    def err(self) -> str:
        return (self.home / "err").read_text()


@pytest.fixture
def homeport(portal: Portal, ada: Rest, tmp_path: Path) -> CommandLine:
    """Ada at her terminal, signed in."""
    made = CommandLine(tmp_path)
    done = made("login", portal.url, "--user", "ada", stdin=PASSWORD + "\n")
    assert "as ada" in done.stderr
    assert PASSWORD not in (tmp_path / "config/homeport/contexts.json").read_text()
    return made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of code with things that do not belong into a training."""
    folder = tmp_path / "my project"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "words.py").write_text("def hello(): print('hello')\n")
    (folder / "train.py").write_text(COUNT)
    (folder / ".gitignore").write_text("*.key\ndata/\n")
    (folder / "secret.key").write_text("secret")
    (folder / "data").mkdir()
    (folder / "data" / "large.bin").write_bytes(bytes(1000))
    return folder


def submit(homeport: CommandLine, project: Path, name: str, *words: object) -> str:
    """The id of a submitted training."""
    done = homeport("submit", project, *SMALL, "--name", name, "-o", "name", "--", *words)
    return done.stdout.strip()


def test_the_portal_offers_the_command_line_that_fits_it(portal: Portal, tmp_path: Path) -> None:
    session = portal.session("ada")
    page = session.get(f"{portal.url}/account/", timeout=30).text
    found = re.search(r"pip install (http://localhost:\d+/static/cli/([\w.+-]+\.whl))", page)
    assert found is not None, page
    wheel = tmp_path / found[2]
    answer = requests.get(found[1], timeout=30)  # pip is signed in nowhere
    assert answer.status_code == 200
    wheel.write_bytes(answer.content)
    done = subprocess.run(
        [sys.executable, "-c", "from homeport_client.__main__ import main; main(['--version'])"],
        env={"PYTHONPATH": str(wheel), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("homeport ")


RUNS = """
import os, signal, sys
path = os.environ["LOG_DIR"] + "/runs"
open(path, "a").write("x")
count = os.path.getsize(path)
print("run", count, flush=True)
if count == 1:
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(143 if count == 2 else 1)
"""


def test_by_exit_code_each_attempt_has_its_log_and_the_last_ends_the_command(
    homeport: CommandLine,
) -> None:
    by_code = ("--restart-policy", "exit_code", "--retries", 5)
    done = homeport(
        *("submit", *SMALL, "--name", "codes", *by_code, "--wait", "--", "python", "-c", RUNS),
        code=1,
    )
    assert "worker-0 ended with exit code 1." in done.stderr
    shown = homeport("get", "codes").stdout
    assert re.findall(r"^ +(\d)  (\w+) +.* (\d+)  worker-0", shown, re.MULTILINE) == [
        ("1", "first", "137"),
        ("2", "retry", "143"),
        ("3", "retry", "1"),
    ]
    for number in (1, 2, 3):
        assert homeport("logs", "codes", "--attempt", number).stdout == f"run {number}\n"


def test_a_failing_program_ends_the_command_with_its_own_code(
    homeport: CommandLine, project: Path, tmp_path: Path
) -> None:
    words = ("submit", project, *SMALL, "--name", "fails", "--wait", "--", "python", "train.py")
    done = homeport(*words, 3, 0.1, 7, code=7)
    assert "exit code 7" in done.stderr
    assert "Read the end of its log." in done.stderr

    log = homeport("logs", "fails")
    assert log.stdout.splitlines()[:2] == ["hello", "line 0 coloured "]
    assert "files ['.gitignore', 'package', 'train.py']" in log.stdout, "nothing ignored was sent"
    assert "\x1b" not in log.stdout
    assert "\x1b[35m" in homeport("logs", "fails", "--raw").stdout
    assert homeport("logs", "fails", "--tail", "1").stdout.startswith("files ")
    assert "worker-0 ended with exit code 7." in homeport("get", "fails").stdout

    def listed() -> bool:
        paths = homeport("artifacts", "list", "fails", "-o", "name").stdout
        return "report.txt" in paths and "model.bin" in paths

    wait_for("its files are kept", listed, timeout_s=30)
    homeport("artifacts", "download", "fails", "-d", tmp_path / "files")
    (model,) = (tmp_path / "files").rglob("model.bin")
    assert model.read_bytes() == bytes(range(256)) * 4000
    model.with_name(model.name + ".homeport-part").write_bytes(b"left by somebody else")
    model.unlink()
    homeport("artifacts", "download", "fails", "*.bin", "-d", tmp_path / "files")
    assert model.read_bytes() == bytes(range(256)) * 4000

    again = homeport(*words, 1, 0, 0)
    assert "has this code already" in again.stderr
    assert "has succeeded" in again.stderr


class Cable:
    """A connection to the portal that a test can cut: a proxy on a port of its own."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _address = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            end.close()

    def cut(self) -> None:
        """All that is open breaks off in the midst of whatever is said."""
        self.cuts += 1
        cut, self._open = self._open, []
        for end in cut:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def close(self) -> None:
        self._listener.close()
        self.cut()


@pytest.fixture
def cable(portal: Portal) -> Iterator[Cable]:
    made = Cable(portal.port)
    yield made
    made.close()


def through(homeport: CommandLine, cable: Cable) -> None:
    """From now on the command line reaches the portal by this cable."""
    path = homeport.home / "config/homeport/contexts.json"
    text = re.sub(r"localhost:\d+\"", f'localhost:{cable.port}"', path.read_text())
    path.write_text(text)


def test_a_log_is_followed_through_cut_connections_without_gap_or_repeat(
    homeport: CommandLine, project: Path, cable: Cable
) -> None:
    through(homeport, cable)
    identity = submit(homeport, project, "followed", "python", "train.py", 300, 0.03, 0)
    following = homeport.start("logs", "-f", identity)
    for seen in (20, 80, 150, 220):
        wait_for(f"line {seen}", lambda at=seen: f"line {at} " in homeport.out, timeout_s=90)
        cable.cut()
    assert following.wait(120) == 0, homeport.err
    numbers = [int(number) for number in re.findall(r"^line (\d+)", homeport.out, re.MULTILINE)]
    assert numbers == list(range(300))
    assert "the connection was lost; going on" in homeport.err
    assert "\x1b" not in homeport.out


def test_ctrl_c_leaves_the_training_alone_and_says_how_to_go_on(
    homeport: CommandLine, project: Path
) -> None:
    identity = submit(homeport, project, "left", "python", "train.py", 100_000, 0.05, 0)
    following = homeport.start("logs", "-f", "left")
    wait_for("some lines", lambda: "line 10 " in homeport.out, timeout_s=90)
    following.send_signal(signal.SIGINT)
    assert following.wait(20) == 130
    first = re.findall(r"^line (\d+)", homeport.out, re.MULTILINE)
    resume = re.search(r"homeport (logs -f \w+ --resume)", homeport.err)
    assert resume is not None, homeport.err
    assert homeport.json("get", identity)["state"] == "running"

    following = homeport.start(*resume[1].split())
    wait_for("new lines", lambda: "line " in homeport.out, timeout_s=30)
    following.send_signal(signal.SIGINT)
    following.wait(20)
    second = re.findall(r"^line (\d+)", homeport.out, re.MULTILINE)
    assert int(second[0]) == int(first[-1]) + 1

    homeport("stop", "left", "--reason", "seen enough")
    wait_for("it is stopped", lambda: homeport.json("get", identity)["state"] == "stopped")
    refused = homeport("delete", "left", code=2)
    assert "--yes" in refused.stderr
    homeport("delete", "-y", "left")
    homeport("get", identity, code=4)


def test_the_queue_and_the_nodes_are_told(homeport: CommandLine, project: Path) -> None:
    quota = homeport.json("whoami")["tenant"]["quota"]["gpu"]
    program = ("python", "-c", "import time; time.sleep(600)")
    words = ("submit", *SMALL, "--gpu", quota, "-o", "name")
    holding = homeport(*words, "--name", "holds", "--", *program).stdout.strip()
    wait_for("it runs", lambda: homeport.json("get", holding)["state"] == "running")
    waiting = homeport(*words, "--name", "waits", "--", *program).stdout.strip()
    try:
        seen = wait_for(
            "it waits for GPUs",
            lambda: [row for row in homeport.json("queue") if row["id"] == waiting],
        )
        assert seen[0]["name"] == "waits"
        shown = homeport("queue").stdout
        assert waiting[:8] in shown
        assert "waits" in shown
        nodes = homeport("top", "node").stdout
        assert f"{quota}/4" in nodes
        assert "holds" in nodes
        assert homeport.json("top", "node")[0]["gpu"]["allocated"] == quota
        never = homeport(*words, "--gpu", quota + 1, "--name", "x", "--dry-run", "--", "x", code=5)
        assert "the whole quota is" in never.stderr
    finally:
        homeport("delete", "-y", holding, waiting)


def test_finished_trainings_go_with_all_that_they_left_but_their_folders(
    homeport: CommandLine, project: Path, portal: Portal, lin: Rest
) -> None:
    homeport("login", portal.url, "-u", "lin", "--context", "lin", stdin=PASSWORD + "\n")
    failed = [submit(homeport, project, f"old {n}", "python", "train.py", 1, 0, 3) for n in (1, 2)]
    runs = submit(homeport, project, "runs", "python", "train.py", 600, 1, 0)
    jobs = portal.home / "store" / lin.tenant()["id"] / "jobs"
    wait_for(
        "logs and files of both are kept",
        lambda: all(
            homeport.json("get", one)["state"] == "failed"
            and "report.txt" in homeport("artifacts", "list", one, "-o", "name").stdout
            for one in failed
        ),
        timeout_s=120,
    )
    asked = ("prune", "--since", "0s", "--state", "failed")
    shown = homeport(*asked, "--dry-run").stdout.splitlines()
    assert shown[1].split()[:2] == ["failed", "2"]
    assert "no terminal to ask at" in homeport(*asked, code=2).stderr
    assert all((jobs / one).is_dir() for one in failed)
    assert "Deleted 2 trainings, " in homeport(*asked, "--yes").stderr
    assert homeport("list", "-o", "name").stdout.split() == [runs]
    wait_for(
        "the object store has forgotten them",
        lambda: not any((jobs / one).exists() for one in failed),
    )
    assert homeport.json("get", runs)["state"] in {"starting", "running"}
    left = (portal.home / "onebox/node/volumes").rglob("report.txt")
    folders = {f"old-{n}-{short_id(UUID(one))}" for n, one in enumerate(failed, 1)}
    assert folders == {part for path in left for part in path.parts if part in folders}
    homeport("stop", runs)


def test_signing_out_ends_the_token(homeport: CommandLine, portal: Portal) -> None:
    saved = json.loads((homeport.home / "config/homeport/contexts.json").read_text())
    (context,) = saved["contexts"].values()
    rest = Rest(portal, context["token"])
    assert rest.call("GET", "me/").status_code == 200
    homeport("logout")
    assert rest.call("GET", "me/").status_code == 401
    assert "homeport login" in homeport("list", code=3).stderr


def test_a_lead_sees_the_team(portal: Portal, homeport: CommandLine, project: Path) -> None:
    identity = submit(homeport, project, "of ada", "python", "train.py", 1, 0, 0)
    homeport("login", portal.url, "-u", "lee", "--context", "lead", stdin=PASSWORD + "\n")
    assert identity[:8] not in homeport("list", "--context", "lead").stdout
    assert identity[:8] in homeport("list", "-A", "--context", "lead").stdout
    assert "of ada" in homeport("list", "-A", "--owner", "ada").stdout
    refused = homeport("delete", "-y", identity, code=5)
    assert "only its owner or an admin may delete it" in refused.stderr


@pytest.mark.tensorflow
def test_a_doctor_finds_all_of_it_well_and_leaves_nothing_also_when_it_is_ended(
    homeport: CommandLine, ada: Rest
) -> None:
    def left() -> list[str]:
        rows = [*ada.get("jobs/")["results"], *ada.get("tensorboards/")["results"]]
        names = [row["name"] for row in rows]
        names += [row["file_name"] for row in ada.get("bundles/")["results"]]
        return [name for name in names if name.startswith("homeport-doctor-")]

    examined = json.loads(homeport("doctor", "--limit", 600, "-o", "json", timeout_s=900).stdout)
    outcomes = {step["name"]: step["outcome"] for step in examined["checks"]}
    assert set(outcomes.values()) == {"passed"}, examined
    assert len(outcomes) == 12
    assert left() == []

    for signal_number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 130)):
        running = homeport.start("doctor")
        wait_for("its training runs", lambda: "training" in homeport.out, timeout_s=60)
        assert len(left()) == 2
        running.send_signal(signal_number)
        assert running.wait(timeout=90) == code, homeport.err
        assert "delete" in homeport.out
        assert left() == []


@pytest.mark.tensorflow
def test_a_distributed_training_is_submitted_and_followed(
    homeport: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "ps"
    folder.mkdir()
    (folder / "ps_v1.py").write_text((ROOT / "docs/examples/ps_v1.py").read_text())
    (folder / "job.yaml").write_text(
        "name: from a file\nimage: tensorflow/tensorflow:2.21.0\nsource: {dir: .}\n"
        "topology: tf-ps\ncluster_flags: true\n"
        "command: [python, ps_v1.py, '--log_dir={{log_dir}}']\n"
        "replicas:\n  worker: {count: 2, cpu: 1, memory: 2Gi}\n  ps: {count: 1, cpu: 1, memory: 1Gi}\n"
    )
    done = homeport("submit", "-f", folder / "job.yaml", "--follow", timeout_s=420)
    for name in ("worker-0", "worker-1", "ps-0    "):
        assert f"{name} | server up" in done.stdout
    assert max(global_steps(done.stdout)) >= 1990
    assert "has succeeded" in done.stderr
