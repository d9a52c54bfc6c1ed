"""The earlier version's command line, by its own end-to-end tests, against today's portal."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from deploy.testcluster.ports import free_port
from tests.e2e.portal import ROOT
from tests.upgrade.conftest import or_skip
from tests.upgrade.old import FIRST, NoHistoryError, old_version

pytestmark = [pytest.mark.e2e, pytest.mark.tensorflow]

# Loaded into the earlier version's pytest: its tests and its command line stay, the launcher that
# they start is today's.
PLUGIN = f"""
import types
import tests.e2e.portal as helper

_start = helper.Portal.start


def start(self, **how):
    theirs = helper.ROOT, helper.sys
    helper.ROOT = helper.Path({str(ROOT)!r})
    helper.sys = types.SimpleNamespace(executable={sys.executable!r})
    try:
        return _start(self, **how)
    finally:
        helper.ROOT, helper.sys = theirs


helper.Portal.start = start
"""
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "todays_portal")
# Its pattern for the file's name knows no version between two releases, which has a plus sign in it; what the portal
# offers today is installed by tests/jobs/client/test_installed.py.
OLD_PATTERN = "tests/e2e/test_cli.py::test_the_portal_offers_the_command_line_that_fits_it"
CALLS_S = 900


def test_its_own_end_to_end_tests_pass() -> None:
    try:
        with old_version(FIRST, with_tests=True) as old, tempfile.TemporaryDirectory() as folder:
            Path(folder, "todays_portal.py").write_text(PLUGIN)
            done = subprocess.run(
                [old.python, *PYTEST, "tests/e2e/test_cli.py", f"--deselect={OLD_PATTERN}"],
                cwd=old.checkout,
                env={
                    **{k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
                    "DJANGO_SETTINGS_MODULE": "tests.settings",
                    "POD_PORT": str(free_port()),
                    "PYTHONPATH": f"{folder}:{old.checkout}",
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=CALLS_S,
            )
    except NoHistoryError as error:
        or_skip(error)
    assert done.returncode == 0, done.stdout[-8000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout, done.stdout[-3000:]
