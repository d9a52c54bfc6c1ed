"""A child ends with its launcher, in two steps, and never outlives it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.child import Child
from tests.tools.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"
# A launcher of one child, which prints the child's pid.
LAUNCHER = f"""
import pathlib, sys, time
from deploy.child import Child
child = Child("c", [sys.executable, "-c", {SLEEPS!r}], {{}}, pathlib.Path("."), pathlib.Path(sys.argv[1]))
child.start()
print(child.process.pid, flush=True)
time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def child(tmp_path: Path, program: str, *, grace_s: float = 5.0) -> Child:
    log = tmp_path / "log"
    made = Child("program", [sys.executable, "-c", program], {}, ROOT, log, grace_s)
    made.start()
    return made


def up(made: Child) -> Child:
    wait_for("the child is up", lambda: "up" in made.last_words())
    return made


def test_sigterm_is_enough_for_a_well_behaved_child(tmp_path: Path):
    made = up(child(tmp_path, SLEEPS))
    made.stop(lambda: False)
    assert made.exit_code == -signal.SIGTERM


def test_a_stubborn_child_is_killed_after_its_grace(tmp_path: Path):
    made = up(child(tmp_path, STUBBORN, grace_s=0.3))
    made.stop(lambda: False)
    assert made.exit_code == -signal.SIGKILL


def test_who_hurries_need_not_wait_for_the_grace(tmp_path: Path):
    made = up(child(tmp_path, STUBBORN, grace_s=60))
    began = time.monotonic()
    made.stop(lambda: True)
    assert time.monotonic() - began < 5
    assert made.exit_code == -signal.SIGKILL


def test_a_child_dies_with_a_launcher_that_is_killed(tmp_path: Path):
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(tmp_path / "log")], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert launcher.stdout is not None
    pid = int(launcher.stdout.readline())
    try:
        assert is_alive(pid)
        launcher.kill()
        launcher.communicate()
        wait_for("the child is gone", lambda: not is_alive(pid))
    finally:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_child_hears_signals_that_its_launcher_blocks(tmp_path: Path):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        made = up(child(tmp_path, SLEEPS))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    made.stop(lambda: False)
    assert made.exit_code == -signal.SIGTERM


def test_the_last_words_are_the_end_of_the_log(tmp_path: Path):
    made = child(tmp_path, "for n in range(100): print('line', n)")
    wait_for("it ended", lambda: not made.is_running)
    assert made.exit_code == 0
    assert made.last_words(lines=2) == "    line 98\n    line 99"


@pytest.mark.parametrize("times", [1, 2])
def test_stopping_what_does_not_run_is_harmless(tmp_path: Path, times: int):
    made = Child("never", ["true"], {}, tmp_path)
    for _ in range(times):
        made.stop(lambda: False)
    assert made.exit_code is None
