"""The tests of pods again, as an ordinary user with user namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from .bench import IS_ROOT

HERE = Path(__file__).resolve().parent
NOBODY = 65534
TIMEOUT_S = 300
# Everything that depends on who runs it.
FILES = (
    *("test_containers.py", "test_isolation.py", "test_limits.py", "test_logs_written.py"),
    *("test_network.py", "test_start_and_end.py"),
    "test_services.py::test_a_cluster_ip_leads_to_the_ready_endpoints_in_turn",
    "test_services.py::test_a_node_port_leads_from_the_host_to_the_pod",
    "test_dns.py::test_pods_look_names_up",
    "test_images.py::test_requirements_are_installed_compiled_and_run_as_the_pods_user",
)


@pytest.mark.skipif(not IS_ROOT, reason="these tests run as an ordinary user already")
def test_everything_holds_for_an_ordinary_user_too():
    home = tempfile.mkdtemp(prefix="onebox-nobody-")
    os.chown(home, NOBODY, NOBODY)
    change_user = [sys.executable, str(HERE / "ordinary_user.py"), str(NOBODY), str(NOBODY), home]
    options = ["-q", "-p", "no:cacheprovider", "--basetemp", f"{home}/pytest"]
    argv = [*change_user, sys.executable, "-m", "pytest", *options]
    argv += [str(HERE / name) for name in FILES]
    try:
        ended = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            cwd=HERE.parents[2],
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            timeout=TIMEOUT_S,
            check=False,
        )
    finally:
        shutil.rmtree(home, ignore_errors=True)
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-3000:]
