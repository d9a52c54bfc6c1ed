"""Parts of onebox that die: what goes on, what ends, and what is said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onebox.testing import OneBox, start
from onebox.testing.kube import Kube, RefusedError, Space, container, is_ready, shell, sleeper
from onebox.testing.processes import (
    command_line,
    descendants,
    parent,
    wait_for_below,
    wait_for_none,
)


@pytest.fixture
def own_box(tmp_path: Path):
    box = start(tmp_path / "onebox")
    yield box
    box.stop()


def child(box: OneBox, module: str) -> int:
    """The process of one part of onebox (its forks look alike; parents are listed first)."""
    return next(pid for pid in descendants(box.process.pid) if module in command_line(pid))


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("onebox.api", "the API half was killed by signal 9"),
        ("onebox.node --home", "the node half was killed by signal 9"),
        ("onebox.node.holder", "the sandbox ended by itself"),
    ],
)
def test_when_a_part_dies_all_ends_with_a_sentence(own_box: OneBox, module: str, sentence: str):
    space = Space(Kube(own_box.kubeconfig), "t")
    space.pod("p")
    space.wait_pod("p", "Running")
    below = descendants(own_box.process.pid)
    os.kill(child(own_box, module), signal.SIGKILL)
    assert own_box.process.wait(30) == 1
    assert sentence in own_box.tail()
    wait_for_none(below)


def kill_sandbox_of(box: OneBox, seconds: int) -> None:
    """Kill the init of the pod whose program is `sleep SECONDS`."""
    program = next(
        pid
        for pid in descendants(box.process.pid)
        if command_line(pid).startswith(f"sleep {seconds} ")
    )
    holder = child(box, "onebox.node.holder")
    while parent(program) != holder:
        program = parent(program)
    os.kill(program, signal.SIGKILL)


def test_a_pod_whose_sandbox_dies_starts_again_or_fails_by_its_policy(box: OneBox, space: Space):
    space.pod("always", sleeper(seconds=4321), initContainers=[shell("true", "first")])
    space.pod("never", sleeper(seconds=4322), restartPolicy="Never")
    for name in ("always", "never"):
        space.wait_pod(name, "Running")
    kill_sandbox_of(box, 4321)
    kill_sandbox_of(box, 4322)
    pod = space.wait_pod("always", lambda p: container(p)["restartCount"] == 1)
    assert container(pod)["lastState"]["terminated"]["exitCode"] == 137
    space.wait_pod("always", "Ready")
    space.wait_event("always", "SandboxChanged")
    pod = space.wait_pod("never", "Failed")
    assert container(pod)["state"]["terminated"]["exitCode"] == 137


def test_a_removed_node_comes_back_and_its_pods_run_on(box: OneBox, space: Space):
    node = "/api/v1/nodes/onebox"
    before = space.kube.get(node)["metadata"]["uid"]
    space.pod("p")
    pod = space.wait_pod("p", "Running")
    space.kube.delete(node)
    back = space.kube.wait(node, is_ready)
    assert back["metadata"]["uid"] != before
    assert back["metadata"]["labels"]["kubernetes.io/hostname"] == "onebox"
    after = space.kube.get(space.path("pods", "p"))
    assert container(after)["containerID"] == container(pod)["containerID"]
    space.pod("q")
    space.wait_pod("q", "Running")


class Halves:
    """Both halves without a supervisor, so that one can be restarted alone."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log = (home / "log").open("ab")
        self.running: list[subprocess.Popen[bytes]] = []

    def start_api(self) -> subprocess.Popen[bytes]:
        return self._start(
            "onebox.api",
            *("--home", self.home / "api", "--kubeconfig", self.home / "kubeconfig"),
            *("--node-kubeconfig", self.home / "node.kubeconfig"),
            *("--node-token-file", self.home / "token"),
        )

    def start_node(self) -> subprocess.Popen[bytes]:
        return self._start(
            "onebox.node",
            *("--home", self.home / "node", "--kubeconfig", self.home / "node.kubeconfig"),
            *("--token-file", self.home / "token", "--grace", "1"),
        )

    def _start(self, module: str, *arguments: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
        )
        self.running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline(), (self.home / "log").read_text()
        return process

    def close(self) -> None:
        for process in reversed(self.running):
            if process.poll() is None:
                process.terminate()
            process.wait(20)
            process.stdout.close()
        self.log.close()


@pytest.fixture
def halves(tmp_path: Path):
    made = Halves(tmp_path)
    (tmp_path / "token").write_text("secret")
    yield made
    made.close()


def test_pods_run_on_while_the_api_is_away_and_the_node_comes_back_to_it(halves: Halves):
    api = halves.start_api()
    node = halves.start_node()
    space = Space(Kube(halves.home / "kubeconfig"), "t")
    space.pod("stays", shell("echo before; sleep 1000"))
    space.pod("ends", shell("sleep 98761; exit 3"), restartPolicy="Never")
    before = space.wait_pod("stays", "Running")
    space.wait_pod("ends", "Running")
    asleep = wait_for_below(node.pid, "sleep 98761")
    api.kill()
    api.wait(10)
    # Meanwhile the second pod ends, and nobody can be told.
    below = [pid for pid in descendants(node.pid) if "sleep 98761" in command_line(pid)]
    os.kill(asleep, signal.SIGTERM)
    wait_for_none(below)
    halves.start_api()
    space.kube = Kube(halves.home / "kubeconfig")
    ended = space.wait_pod("ends", "Failed", 30)
    assert container(ended)["state"]["terminated"]["exitCode"] == 3
    after = space.kube.get(space.path("pods", "stays"))
    assert container(after)["containerID"] == container(before)["containerID"]
    space.pod("new")
    space.wait_pod("new", "Running", 30)
    assert space.log("stays") == "before\n"


def test_a_pod_deleted_while_the_node_was_away_leaves_nothing(halves: Halves):
    halves.start_api()
    node = halves.start_node()
    space = Space(Kube(halves.home / "kubeconfig"), "t")
    space.pod("p", sleeper())
    pod = space.wait_pod("p", "Running")
    node.kill()
    node.wait(10)
    space.kube.delete(space.path("pods", "p"), grace_s=0)
    with pytest.raises(RefusedError):
        space.log("p")
    logs = halves.home / "node" / "logs" / f"t_p_{pod['metadata']['uid']}"
    assert logs.exists()
    halves.start_node()
    assert not logs.exists()
    assert not list((halves.home / "node" / "pods").iterdir())
