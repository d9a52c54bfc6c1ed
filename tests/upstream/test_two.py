"""A few viewers, uploads and submits while two web servers and two reconcilers are replaced: nothing is lost or done twice.

Counts only, no times: `python -m tests.scale.two` measures those (docs/scale.md).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.child import Child
from deploy.testcluster import binaries
from tests.e2e.portal import ROOT
from tests.tools import servers
from tests.tools.missing import is_missing
from tests.tools.waiting import wait_for
from tests.upstream.power import need_built

pytestmark = pytest.mark.upstream

VIEWERS = 20
SIZE = (f"--viewers={VIEWERS}", "--uploads=3", "--upload-s=6", "--pods=2", "--pause-s=5")


def test_a_rolling_restart(tmp_path: Path) -> None:
    need_built(binaries.KUBERNETES, binaries.ETCD)
    if subprocess.run(["unshare", "--uts", "true"], check=False, capture_output=True).returncode:
        pytest.skip("each reconciler needs a host name of its own, which only root may give it")
    try:
        servers.find_program("redis-server", "redis-server")
        servers.find_program("nginx", "nginx-light", "/usr/sbin")
    except servers.NoServerError as error:
        is_missing(str(error))
    told = tmp_path / "table.json"
    words = ("tests.scale.two", *SIZE, "--only=restart", f"--json={told}")
    # Late, it is ended with all that it started, which would disturb the tests after it.
    two = Child(
        "two", (sys.executable, "-m", *words), os.environ, ROOT, log=tmp_path / "log", grace_s=60
    )
    two.start()
    try:
        wait_for("it has ended", lambda: two.exit_code is not None, timeout_s=900, interval_s=1)
    finally:
        two.stop(lambda: False)
    assert two.exit_code == 0, two.last_words(60)
    found = json.loads(told.read_text())
    assert found["lines"] > VIEWERS * 10
    assert found["connections of viewers"] >= 2 * VIEWERS  # each web server was replaced
    assert found["uploads"] >= 3
    assert found["submits"] >= 3
