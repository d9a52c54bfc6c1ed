"""The other ways to run pods, by which the same tests run: `pytest --as user|plain|docker`.

`user` is an ordinary user with user namespaces; `plain` one with neither namespaces nor rights, as in
a container; `docker` is `plain` where the engine refuses what Docker's own profile does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from onebox.testing import IN_PLAIN_CONTAINER, as_user

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
NOBODY = 65534
WAYS = ("user", "plain", "docker")
BEGUN = "HOMEPORT_TESTS_AS"  # set where the tests run that way already

# What does not hold without namespaces, each with the reason: what a plain container costs.
LOST = {
    "node_sandbox/test_containers.py": {
        "test_a_mount_inside_the_hosts_programs_says_that_it_is_read_only": "no mount is made",
        "test_containers_of_a_pod_do_not_see_each_others_processes": "one process list for all",
    },
    "node_sandbox/test_isolation.py": {
        "test_who_looks_for_network_devices_finds_an_empty_folder": "it is the folder of the machine",
    },
    "node_sandbox/test_network.py": {
        "test_pods_reach_each_other_by_address": "a peer's address is the real one, 127.x.y.z",
        "test_the_gateway_keeps_its_address_when_pods_come_and_go": "there is no link layer",
        "test_a_pod_knows_its_own_names": "the name server's address is the real one",
    },
    "node_sandbox/test_start_and_end.py": {
        "test_the_mode_is_the_users": "the mode is plain",
        "test_without_user_namespaces_it_says_which_switch_to_turn": "it takes a namespace",
        "test_a_pod_that_cannot_be_set_up_is_refused_and_leaves_nothing": "any hostname can be had",
    },
    "whole/test_pods.py": {
        "test_volumes_hold_what_they_should_and_data_survives_the_pod": (
            "sizes of volumes in memory are not enforced"
        ),
    },
}


def is_lost(file: Path, name: str) -> bool:
    """Whether a test of a file does not hold without namespaces."""
    lost = LOST.get(str(file.relative_to(HERE)), {}) if file.is_relative_to(HERE) else {}
    return name.partition("[")[0] in lost


def run(way: str, words: Sequence[str], junit: Path | None) -> int:
    """Runs pytest with these words that way; its exit code.

    Args:
        junit: where its results shall lie, which an ordinary user may not write.
    """
    home = Path(tempfile.mkdtemp(prefix=f"onebox-{way}-"))
    command: list[str] = []
    if os.getuid() == 0:
        os.chown(home, NOBODY, NOBODY)
        command += as_user(NOBODY, home)
    if way != "user":
        command += IN_PLAIN_CONTAINER
        command += ["--engine", "docker"] if way == "docker" else []
    # A folder of the checkout that somebody else may not write.
    settings = (f"{BEGUN}={way}", f"HYPOTHESIS_STORAGE_DIRECTORY={home / 'hypothesis'}")
    command += ["env", *settings, sys.executable, "-m", "pytest", *words]
    results = home / "junit.xml"
    command += [f"--basetemp={home / 'pytest'}", f"--junitxml={results}"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    tests = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        return tests.wait()
    finally:
        tests.wait()  # who is interrupted lets them put away what they started
        if junit is not None and results.exists():
            shutil.copyfile(results, junit)
        shutil.rmtree(home, ignore_errors=True)
