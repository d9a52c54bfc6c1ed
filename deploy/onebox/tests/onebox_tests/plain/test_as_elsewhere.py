"""Where pods can be made in no way at all, the start says what is missing.

That pods are in a plain container as elsewhere is tried by the same tests with `--as plain`
(deploy/onebox/tests/onebox_tests/ways.py).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from onebox.testing import IN_PLAIN_CONTAINER


@pytest.mark.parametrize("how", ["busy", "refused"])
def test_where_calls_cannot_be_answered_either_it_says_what_is_missing(
    tmp_path: Path, how: str
) -> None:
    drop = [*IN_PLAIN_CONTAINER, "--no-notification", how]
    ended = subprocess.run(
        [*drop, sys.executable, "-m", "onebox", "--home", str(tmp_path / "onebox")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 3, ended.stderr
    assert "onebox cannot run pods on this machine: Pods cannot run here:" in ended.stderr
    assert "Without namespaces, by answering their system calls, they cannot run" in ended.stderr
    assert "Traceback" not in ended.stderr
