"""However a run of tests ends, its lanes end, and all that they started with them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onebox.testing.processes import command_line, naming
from tests.tools.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
GONE_S = 20.0
# In place of pytest, which it behaves like: SIGINT ends it in order, SIGTERM at once. In place of a portal with its
# cluster: processes in sessions of their own, one of which does not end at SIGTERM; FOLDER is in their environment.
LANE = """
import os, subprocess, sys, time
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(); time.sleep(600)"
for program in ("import time; print(); time.sleep(600)", deaf):
    command = [sys.executable, "-c", program]
    started = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
    started.stdout.readline()
open(os.path.join(os.environ["FOLDER"], "ready"), "w").write(str(os.getpid()))
try:
    time.sleep(600)
except KeyboardInterrupt:
    sys.exit(2)
"""
# The runner as it is, with that lane alone.
RUNNER = """
import sys
from tests import lanes, run
from tests.lane import Lane
lane = Lane("sleeping", "", ("-c", sys.argv.pop()), "test", 60, program=(sys.executable,), is_pytest=False)
lanes.LANES = (lane,)
sys.argv[1:] = ["test"]
sys.exit(run.main())
"""
# What `make test-cluster`, `make test-node` and `make bench` are.
ALONE = """
import sys
from tests.tools.children import alone, raise_when_asked, run_to_the_end, say
def main():
    raise_when_asked()
    say("begun")
    return run_to_the_end([sys.executable, "-c", sys.argv[1]])
sys.exit(alone(main))
"""
# name -> the signal, the code that is said; None: nobody reads what it says
ENDINGS: dict[str, tuple[signal.Signals | None, int]] = {
    "SIGINT": (signal.SIGINT, 130),
    "SIGTERM": (signal.SIGTERM, 130),
    "SIGHUP": (signal.SIGHUP, 130),
    "SIGKILL": (signal.SIGKILL, -signal.SIGKILL),
    "no-reader": (None, 128 + signal.SIGPIPE),
}


class Started:
    """A runner at work on a lane of sleeping processes."""

    def __init__(self, program: str, folder: Path) -> None:
        self.folder = folder
        script = folder / "program.py"
        script.write_text(program)
        self.process = subprocess.Popen(
            [sys.executable, str(script), LANE],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "FOLDER": str(folder),
                "TEST_RESULTS": str(folder / "results"),
                "ONEBOX_IMAGES_DIR": str(folder),
                "UV_CACHE_DIR": str(folder),
            },
        )
        wait_for("the lane sleeps", lambda: len(self.left()) > 4 and self.lane, timeout_s=60)

    @property
    def lane(self) -> int:
        """The process that stands for pytest; 0 before it sleeps."""
        ready = self.folder / "ready"
        return int(ready.read_text() or 0) if ready.exists() else 0

    def left(self) -> list[int]:
        return naming(f"FOLDER={self.folder}")

    def wait_until_gone(self, began_s: float) -> None:
        def is_gone() -> bool:
            return not [pid for pid in self.left() if pid != self.process.pid]

        rest_s = GONE_S - (time.monotonic() - began_s)
        try:
            wait_for("nothing is left", is_gone, timeout_s=rest_s)
        except AssertionError as error:
            raise AssertionError([command_line(pid) for pid in self.left()]) from error


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Started]]:
    made: list[Started] = []

    def make(program: str) -> Started:
        made.append(Started(program, tmp_path))
        return made[-1]

    yield make
    for pid in naming(f"FOLDER={tmp_path}"):
        os.kill(pid, signal.SIGKILL)
    for one in made:
        one.process.wait(10)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("program", [RUNNER, ALONE], ids=["lanes", "one-call"])
def test_a_run_that_ends_in_any_way_leaves_no_process(
    start: Callable[[str], Started], program: str, ending: str
) -> None:
    number, code = ENDINGS[ending]
    run = start(program)
    assert run.process.stdout is not None
    began_s = time.monotonic()
    if number is None:
        run.process.stdout.close()
    else:
        run.process.send_signal(number)
    run.wait_until_gone(began_s)
    assert run.process.wait(GONE_S) == code
    if number is not None:
        assert b"Traceback" not in run.process.stdout.read()
        run.process.stdout.close()


@pytest.mark.parametrize("program", [RUNNER, ALONE], ids=["lanes", "one-call"])
def test_a_lane_that_was_killed_leaves_no_process_and_has_failed(
    start: Callable[[str], Started], program: str
) -> None:
    run = start(program)
    began_s = time.monotonic()
    os.kill(run.lane, signal.SIGKILL)
    run.wait_until_gone(began_s)
    told, _ = run.process.communicate(timeout=GONE_S)
    assert run.process.returncode in {1, 128 + signal.SIGKILL}
    if program == RUNNER:
        assert told.decode().splitlines()[-1] == "0 passed, 1 failed"


def test_what_a_test_started_with_a_portal_ends_when_its_pytest_is_killed(tmp_path: Path) -> None:
    """Also where pytest runs by itself, below no guard."""
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom tests.e2e import portal\n"
        "portal.Portal._answers = lambda self: True\n"
        "made = portal.Portal(Path(sys.argv[1]), wrapper=('sh', '-c', 'exec sleep 600'))\n"
        "made.start()\nprint(flush=True)\ntime.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "home")], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    started = [pid for pid in naming(f"HOMEPORT_HOME={tmp_path}") if pid != process.pid]
    assert started
    process.kill()
    process.wait()
    wait_for("it ends", lambda: not naming(f"HOMEPORT_HOME={tmp_path}"), timeout_s=GONE_S)
