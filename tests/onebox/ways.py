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
ROOT = HERE.parents[1]
NOBODY = 65534
WAYS = ("user", "plain", "docker")
BEGUN = "HOMEPORT_TESTS_AS"  # set where the tests run that way already

_SANDBOX, _WHOLE = "tests/onebox/node_sandbox", "tests/onebox/whole"
_OF_PODS = tuple(
    f"{_SANDBOX}/test_{name}.py"
    for name in (
        *("containers", "network", "dns", "services", "logs_written", "limits"),
        "start_and_end",
    )
)
_OF_ALL = tuple(
    f"{_WHOLE}/test_{name}.py"
    for name in ("pods", "network", "volumes", "workloads", "logs", "deletion")
)
_INSTALLED = "test_requirements_are_installed_compiled_and_run_as_the_pods_user"
# What depends on who runs it.
CHOSEN = {
    "user": (
        *(
            f"{_SANDBOX}/test_{name}.py"
            for name in (
                *("containers", "isolation", "limits", "logs_written"),
                *("network", "start_and_end"),
            )
        ),
        f"{_SANDBOX}/test_services.py::test_a_cluster_ip_leads_to_the_ready_endpoints_in_turn",
        f"{_SANDBOX}/test_services.py::test_a_cluster_ip_is_for_its_own_namespace",
        f"{_SANDBOX}/test_services.py::test_a_node_port_leads_from_the_host_to_the_pod",
        f"{_SANDBOX}/test_dns.py::test_pods_look_names_up",
        f"{_SANDBOX}/test_images.py::{_INSTALLED}",
        "tests/contract/test_network_check.py::test_namespaces_are_apart",
    ),
    "plain": (*_OF_PODS, *_OF_ALL),
    "docker": tuple(f"{_SANDBOX}/test_{name}.py" for name in ("network", "dns", "services")),
}
# What does not hold without namespaces, each with the reason: what a plain container costs.
LOST = {
    f"{_SANDBOX}/test_containers.py": {
        "test_a_mount_inside_the_hosts_programs_says_that_it_is_read_only": "no mount is made",
        "test_containers_of_a_pod_do_not_see_each_others_processes": "one process list for all",
    },
    f"{_SANDBOX}/test_network.py": {
        "test_pods_reach_each_other_by_address": "a peer's address is the real one, 127.x.y.z",
        "test_the_gateway_keeps_its_address_when_pods_come_and_go": "there is no link layer",
        "test_a_pod_knows_its_own_names": "the name server's address is the real one",
    },
    f"{_SANDBOX}/test_start_and_end.py": {
        "test_the_mode_is_the_users": "the mode is plain",
        "test_without_user_namespaces_it_says_which_switch_to_turn": "it takes a namespace",
        "test_a_pod_that_cannot_be_set_up_is_refused_and_leaves_nothing": "any hostname can be had",
    },
    f"{_WHOLE}/test_pods.py": {
        "test_volumes_hold_what_they_should_and_data_survives_the_pod": (
            "sizes of volumes in memory are not enforced"
        ),
    },
}


def is_lost(nodeid: str) -> bool:
    """Whether a test does not hold without namespaces."""
    file, _, name = nodeid.partition("::")
    return name.partition("[")[0] in LOST.get(file, {})


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
