"""What a program has started is found and left its time, whatever begins and ends while /proc is read."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from jobs.pod import program as module
from jobs.pod.processes import LivingProcess, living
from jobs.pod.program import Program
from tests.jobs.pod.pods import wait_until
from tests.jobs.pod.test_endings import AS_FIRST
from tests.tools.missing import is_missing

ROOT = Path(__file__).resolve().parents[3]
# A first process with a child that has a child. `os.listdir` gives the moment at which the child ends.
AS_FIRST_PROCESS = """
import os, signal, sys, time
from jobs.pod.processes import started_by
from jobs.pod.program import Program
program = Program(["true"], {})
program.ended.wait()
forks, (go, tell) = sys.argv[1] == "later", os.pipe()
parent = os.fork()
if parent == 0:
    def fork():
        if os.fork() == 0:
            signal.pause()
    if not forks:
        fork()
    os.read(go, 1)
    if forks:
        fork()
    os._exit(0)
real = os.listdir
if not forks:
    while len(started_by(1)) < 2:
        time.sleep(0.01)
def end_parent():
    os.write(tell, b"x")
    while str(parent) in real("/proc"):
        time.sleep(0.01)
def list_proc(path):
    names = sorted(filter(str.isdigit, real(path)), key=int)
    if forks:
        end_parent()
    else:
        names.reverse()
    for name in names:
        if not forks and name == str(parent):
            end_parent()
        yield name
os.listdir = list_proc
found = program.has_rest() if forks else bool(started_by(1))
os.listdir = real
print(found, len(started_by(1)))
"""
# The writer says its last words when it is asked; the reader takes them when it may.
WRITER = "trap 'echo saved; exit' TERM; echo ready; while :; do sleep 0.05; done"
READER = """
import os, sys, time
print(sys.stdin.readline(), end="", flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.02)
print(sys.stdin.read(), end="")
"""


@pytest.fixture(autouse=True)
def reaps_its_own_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the first process of a container it waits for every child; here the others' are for others to wait for."""

    def reap(program: Program) -> None:
        _, program.status = os.waitpid(program.pid, 0)
        program._process.returncode = 0
        program.ended.set()

    monkeypatch.setattr(Program, "_reap", reap)


@pytest.mark.parametrize("begins", ["before its parent is read", "later"])
def test_a_child_of_a_parent_that_ends_meanwhile_is_still_at_work(begins: str) -> None:
    """Its process id may be smaller than its parent's, and it may have begun after the listing."""
    words = [*AS_FIRST, sys.executable, "-c", AS_FIRST_PROCESS, begins]
    done = subprocess.run(
        words, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    if "unshare" in done.stderr:
        is_missing("be root, or allow user namespaces (unshare --pid)")
    assert done.stdout.endswith("True 1\n"), done


def test_a_reader_has_its_time_from_when_it_is_seen_alone(tmp_path: Path) -> None:
    """However late that is: the last that the writer wrote may still be in the pipe."""
    go = tmp_path / "go"
    pipe = 'sh -c "$0" | "$1" -c "$2" "$3"'
    words = ["sh", "-c", pipe, WRITER, sys.executable, READER, str(go)]
    program = Program(words, dict(os.environ))
    assert os.read(program.output_fd, 100) == b"ready\n"
    program.ask(signal.SIGTERM)
    wait_until(lambda: sum(one.group == program.pid for one in living().values()) == 1)
    program.ask_readers()
    assert program.has_rest()
    go.touch()
    with open(program.output_fd, "rb") as output:
        assert output.read().endswith(b"saved\n")
    wait_until(lambda: not program.has_rest())


# One that says when it has begun, and whether it was asked to end. What begins it, in front of a pipe.
SAVER = (
    "trap 'echo asked; exit' TERM; touch began; for i in $(seq 40); do sleep 0.05; done; echo kept"
)
BEGINS = {
    "by itself, after the listing": (
        "echo ready; until [ -e listed ]; do sleep 0.02; done; {saver}; true",
        "asked",
    ),
    # What a shell has forked and not yet made another program of may lose a signal, so it waits in short sleeps.
    "by a trap": ("trap '{saver}; exit' TERM; echo ready; while :; do sleep 0.05; done", "kept"),
}


@pytest.mark.parametrize("begins", BEGINS)
def test_what_began_before_the_request_is_asked_and_what_a_trap_begins_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begins: str
) -> None:
    """Beside a reader each is asked by itself; the first listing is old when the first is asked."""
    words, said = BEGINS[begins]
    (tmp_path / "saver").write_text(SAVER)
    monkeypatch.chdir(tmp_path)
    sent: list[int] = []

    def send(pid: int, number: int) -> None:
        sent.append(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def list_slowly() -> dict[int, LivingProcess]:
        if sent and said == "kept":
            wait_until((tmp_path / "began").exists)
        found = living()
        if not sent and said == "asked":
            (tmp_path / "listed").touch()
            wait_until((tmp_path / "began").exists)
        return found

    monkeypatch.setattr(module, "_send", send)
    monkeypatch.setattr(module, "living", list_slowly)
    pipe = f"({words.format(saver='sh saver 2>&-')}) | cat"
    program = Program(["sh", "-c", pipe], dict(os.environ))
    assert os.read(program.output_fd, 100) == b"ready\n"
    program.ask(signal.SIGTERM)
    with open(program.output_fd, "rb") as output:
        lines = output.read().splitlines()
    assert [line for line in lines if line != b"Terminated"] == [
        said.encode()
    ]  # as a shell may say of a child
