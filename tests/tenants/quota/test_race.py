"""Many leads at once never give more than the budget."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.tenants.quota.race import BUDGET, THREADS, TRIES

ROOT = Path(__file__).resolve().parents[3]


def test_sixteen_leads_at_once_never_overshoot_the_budget(tmp_path: Path):
    environment = {
        **os.environ,
        "HOMEPORT_HOME": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "portal.settings",
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.tenants.quota.race"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    # Nobody failed in another way, such as with a locked database.
    assert found["changed"] + found["refused"] == THREADS * TRIES
    assert done.stderr == ""
    # The budget was really contended for.
    assert found["refused"] > 0
    assert BUDGET - 2 <= found["most"] <= BUDGET
    assert found["total"] <= BUDGET
