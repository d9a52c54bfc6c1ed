"""The tests of pods and of the whole onebox again, on a machine with neither namespaces nor rights.

What does not hold there is listed here, each with the reason: it is what a plain container costs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.onebox.cluster import OneBox
from tests.onebox.plain.conftest import DROP

ROOT = Path(__file__).resolve().parents[3]
SANDBOX = "tests/onebox/node_sandbox"
WHOLE = "tests/onebox/whole"
NOBODY = "65534"
TIMEOUT_S = 500

OF_PODS = ("containers", "network", "dns", "services", "logs_written", "limits", "start_and_end")
LOST_OF_PODS = {
    "containers": {
        "test_a_mount_inside_the_hosts_programs_says_that_it_is_read_only": "no mount is made",
        "test_containers_of_a_pod_do_not_see_each_others_processes": "one process list for all",
    },
    "network": {
        "test_pods_reach_each_other_by_address": "a peer's address is the real one, 127.x.y.z",
        "test_the_gateway_keeps_its_address_when_pods_come_and_go": "there is no link layer",
        "test_a_pod_knows_its_own_names": "the name server's address is the real one",
    },
    "start_and_end": {
        "test_the_mode_is_the_users": "the mode is plain",
        "test_without_user_namespaces_it_says_which_switch_to_turn": "it takes a namespace",
        "test_a_pod_that_cannot_be_set_up_is_refused_and_leaves_nothing": "any hostname can be had",
    },
}
OF_ALL = ("pods", "network", "volumes", "workloads", "logs", "deletion")
LOST_OF_ALL = {
    "pods": {
        "test_volumes_hold_what_they_should_and_data_survives_the_pod": (
            "sizes of volumes in memory are not enforced"
        ),
    },
}


def selection(folder: str, names: Sequence[str], lost: dict[str, dict[str, str]]) -> list[str]:
    """The words for pytest."""
    chosen = [f"{folder}/test_{name}.py" for name in names]
    for name, tests in lost.items():
        for test in tests:
            chosen += ["--deselect", f"{folder}/test_{name}.py::{test}"]
    return chosen


def run(argv: Sequence[str], **environment: str) -> None:
    ended = subprocess.run(
        argv,
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-3000:]


@pytest.mark.parametrize(
    ("engine", "files"),
    [((), OF_PODS), (("--engine", "docker"), ("network", "dns", "services"))],
    ids=["no-rights", "as-in-docker"],
)
def test_pods_are_as_elsewhere_but_for_what_is_listed(
    engine: tuple[str, ...], files: tuple[str, ...]
) -> None:
    home = tempfile.mkdtemp(prefix="onebox-plain-")
    as_user: list[str] = []
    if os.getuid() == 0:
        os.chown(home, int(NOBODY), int(NOBODY))
        as_user = [sys.executable, f"{SANDBOX}/ordinary_user.py", NOBODY, NOBODY, home]
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", f"{home}/pytest"]
    chosen = selection(SANDBOX, files, LOST_OF_PODS)
    try:
        run([*as_user, *DROP, *engine, sys.executable, "-m", "pytest", *options, *chosen])
    finally:
        shutil.rmtree(home, ignore_errors=True)


def test_the_whole_is_as_elsewhere_but_for_what_is_listed(box: OneBox) -> None:
    chosen = selection(WHOLE, OF_ALL, LOST_OF_ALL)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
    run(argv, CONTRACT_KUBECONFIG=str(box.kubeconfig))


@pytest.mark.parametrize("how", ["busy", "refused"])
def test_where_calls_cannot_be_answered_either_it_says_what_is_missing(
    tmp_path: Path, how: str
) -> None:
    drop = [*DROP, "--no-notification", how]
    ended = subprocess.run(
        [*drop, sys.executable, "-m", "deploy.onebox", "--home", str(tmp_path / "onebox")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 3, ended.stderr
    assert "onebox cannot run pods on this machine: Pods cannot run here:" in ended.stderr
    assert "Without namespaces, by answering their system calls, they cannot run" in ended.stderr
    assert "Traceback" not in ended.stderr
