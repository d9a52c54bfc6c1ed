"""How much time programs have to save when their replica is asked to end: for each reason, in each topology.

The runner is the first process of a process namespace, as it is in a container.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jobs.pod.protocol import codes
from jobs.rules.topologies import TOPOLOGIES
from onebox.testing.processes import descendants
from tests.e2e.endings import REASONS
from tests.jobs.pod.pods import FakeDoor, Pod
from tests.jobs.pod.test_runner import AWAY
from tests.tools.missing import is_missing

AS_FIRST = ("unshare", "--map-current-user", "--keep-caps", "--pid", "--fork", "--mount-proc")
SAVE = """
import os, signal, sys, time
def save(*_):
    print("saving", os.getpid(), flush=True)
    time.sleep(float(os.environ["SAVE_S"]))
    open(os.path.join(os.environ["LOG_DIR"], f"saved-{os.environ['WHO']}"), "w").write("x")
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True: signal.pause()
"""
# How people start a program; `save` is one that saves when it is asked to end.
SHAPES = {
    "itself": "{save}",
    "by exec": "exec {save}",
    "by a shell": "{save}; echo over",
    "by a shell of another folder": "cd . && {save}",
    "by a file": "./run.sh",
    "by a shell in a shell": "bash -c 'set -e; {save}; true'",
    "in the background, waited for": "{save} & wait",
    "behind a pipe": "{save} | cat",
    "between two pipes": "yes | {save} | cat",
    "between two pipes, waited for": "trap : TERM; yes | {save} | cat; true",
    "in a session of its own, waited for": "setsid --wait {save}; true",
    "in a session of its own, left alone": "setsid {save} & sleep 60",
    "by a program that starts another": (
        "{python} -c 'import subprocess, sys; subprocess.run(sys.argv[1:])' {save}"
    ),
    # Which kills what it has started, when it is asked to end itself.
    "by mpirun": "./prterun -c 'trap \"kill -9 \\$!; exit\" TERM; {save} & wait'",
}


@dataclass
class Ended:
    """One pod whose runner is the first process of its namespace."""

    pod: Pod
    process: "subprocess.Popen[bytes]"
    asked_s: float = 0.0
    output: bytes = field(default=b"", init=False)

    @property
    def runner(self) -> int:
        return descendants(self.process.pid)[0]

    def wait_until_ready(self, line: bytes = b"ready\n") -> None:
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        if b"unshare" in first:
            is_missing("be root, or allow user namespaces (unshare --pid)")
        assert first == line

    def ask(self, number: int = signal.SIGTERM) -> None:
        self.asked_s = time.monotonic()
        os.kill(self.runner, number)

    def wait(self, timeout_s: float = 60) -> float:
        """Seconds that it took; the output is there then."""
        self.output, _ = self.process.communicate(timeout=timeout_s)
        return time.monotonic() - self.asked_s


def save_command(pod: Pod) -> str:
    program = pod.root / "workspace/save.py"
    program.write_text(SAVE)
    return f"{sys.executable} {program}"


def start(pod: Pod, words: str, *, save_s: float, who: str = "main") -> Ended:
    """Starts a command by `sh -c`."""
    save = save_command(pod)
    script = pod.root / "workspace/run.sh"
    script.write_text(f"#!/bin/bash\nset -e\n{save}\n")
    script.chmod(0o755)
    shutil.copy("/bin/bash", pod.root / "workspace/prterun")
    command = words.format(save=save, python=sys.executable)
    pod.config["command"] = save.split() if words == "{save}" else ["sh", "-c", command]
    pod.config["env"] = {"SAVE_S": str(save_s), "WHO": who}
    pod.wrapper = [*AS_FIRST, *pod.wrapper]
    return Ended(pod, pod.start())


def begin(pod: Pod, words: str, *, save_s: float, line: bytes = b"ready\n") -> Ended:
    """Starts a command and waits for the line that it says first."""
    one = start(pod, words, save_s=save_s)
    one.wait_until_ready(line)
    return one


def wait_for_all(running: Sequence[Ended]) -> list[float]:
    """The seconds that each took, whichever ended first."""
    with ThreadPoolExecutor(len(running)) as pool:
        return list(pool.map(Ended.wait, running))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Pod]]:
    """A pod of a role, with a door of its own."""
    made: list[Pod] = []

    def one(topology: str = "single", role: str = "worker") -> Pod:
        pod = Pod(tmp_path / f"{len(made)}", FakeDoor())
        pod.config.update(topology=topology, grace_s=24, hosts={role: ["localhost:2222"]})
        pod.environ["HOMEPORT_ROLE"] = role
        made.append(pod)
        return pod

    yield one
    for pod in made:
        pod.close()
        pod.door.close()


def saved(pod: Pod, who: str = "main") -> bool:
    return (Path(pod.config["folder"]) / f"saved-{who}").exists()


def test_a_program_saves_for_five_seconds_however_it_was_started(make: Callable[..., Pod]) -> None:
    """Each shape in a pod of its own, all at the same time."""
    running = {shape: start(make(), words, save_s=5) for shape, words in SHAPES.items()}
    for one in running.values():
        one.wait_until_ready()
    for one in running.values():
        one.ask()
    took_s = dict(zip(running, wait_for_all([*running.values()]), strict=True))
    for shape, one in running.items():
        assert saved(one.pod), shape
        assert one.output.count(b"saving") == 1, f"{shape}: each is asked once"
        assert b"saved\n" in one.output, shape
        assert b"saved\n" in one.pod.door.log(f"{one.pod.environ['HOMEPORT_ROLE']}-0-1"), shape
        assert one.pod.message["reason"] == codes.STOPPED, shape
        assert 5 <= took_s[shape] < 12, f"{shape}: no longer than it takes, for nothing else"


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_leaves_every_topology_its_time(make: Callable[..., Pod], reason: str) -> None:
    """Of each topology a role that runs a command of its own, another one and another shape for each reason."""
    way, turn = REASONS[reason], list(REASONS).index(reason)
    shapes = list(SHAPES.values())
    running = []
    for number, topology in enumerate(TOPOLOGIES.values()):
        roles = [role.name for role in topology.roles if not role.program]
        pod = make(topology.name, roles[turn % len(roles)])
        if way == "volume":
            pod.wrapper = [sys.executable, "-c", AWAY]
        shape = shapes[(number + turn) % len(shapes)]
        running.append(start(pod, shape, save_s=1))
    for one in running:
        one.wait_until_ready()
    for one in running:
        if way == "signal":
            one.ask()
        if way == "volume":
            (one.pod.root / "data-is-gone").touch()
    wait_for_all(running)
    for one in running:
        role, seen = one.pod.environ["HOMEPORT_ROLE"], (reason, one.pod.config, one.output)
        assert saved(one.pod), seen
        assert b"saved\n" in one.pod.door.log(f"{role}-0-1"), seen


def test_what_ignores_the_request_takes_the_grace_and_no_longer(make: Callable[..., Pod]) -> None:
    pod = make()
    pod.config["grace_s"] = 8
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    words = f"setsid {sys.executable} -c '{deaf}; time.sleep(60)' & wait"
    one = begin(pod, words, save_s=0, line=b"1\n")
    one.ask()
    assert 6 <= one.wait() < 8, "killed in time to ship what it wrote"
    assert pod.message["uploaded"] is True


def test_what_ends_when_asked_is_not_waited_for_any_longer(make: Callable[..., Pod]) -> None:
    """Of each shape; what takes no time to save ends the replica at once."""
    running = {shape: start(make(), words, save_s=0) for shape, words in SHAPES.items()}
    for one in running.values():
        one.wait_until_ready()
    took_s = {}
    for shape, one in running.items():  # one after another: each is timed
        one.ask()
        took_s[shape] = one.wait()
        assert saved(one.pod), shape
    assert max(took_s.values()) < 4, took_s


def test_a_child_that_is_left_behind_unasked_is_ended_at_once(make: Callable[..., Pod]) -> None:
    one = begin(make(), "setsid {save} & until [ -e go ]; do sleep 0.1; done", save_s=30)
    one.asked_s = time.monotonic()
    (one.pod.root / "workspace/go").touch()
    assert one.wait() < 5
    assert not saved(one.pod)
    assert b"saving" not in one.output
    assert one.pod.message["reason"] == codes.COMPLETED


def test_a_shell_from_outside_is_no_program_of_the_replica(make: Callable[..., Pod]) -> None:
    """Somebody looks around in the container by `kubectl exec`, in a shell that ignores SIGTERM."""
    one = begin(make(), "{save}; true", save_s=0)
    into = ("nsenter", "--target", str(one.runner), "--pid", "--mount", "--user")
    deaf = [*into, "--preserve-credentials", "sh", "-c", "trap '' TERM; echo in; sleep 60"]
    with subprocess.Popen(deaf, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as outside:
        assert outside.stdout is not None
        assert outside.stdout.readline() == b"in\n"
        one.ask()
        took_s = one.wait()
        outside.kill()
    assert took_s < 4
    assert saved(one.pod)
