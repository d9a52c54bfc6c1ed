"""Runs the whole suite in two lanes side by side, since most tests wait more than they compute.

Several pytest calls, because Playwright's event loop and pytest-asyncio's cannot share a process.
What the second lane says is shown when it has ended, so that the two do not mix.
"""

import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import IO

CRASHES = "tests/e2e/test_crash_table.py"


@dataclass(frozen=True)
class Call:
    """One pytest process."""

    title: str
    arguments: tuple[str, ...]


LANES = (
    (
        Call("tests without a browser", ("-m", "not e2e and not slow", "tests")),
        Call("killed around every call", ("-m", "e2e and not slow", CRASHES)),
    ),
    (
        Call(
            "tests in a real browser, on a real cluster",
            ("-m", "e2e and not slow", "tests/e2e", f"--ignore={CRASHES}"),
        ),
    ),
)


@dataclass
class Lane:
    """Runs its calls one after the other; `failed` when one of them did not pass."""

    calls: tuple[Call, ...]
    output: IO[bytes] | None  # None: straight to the terminal
    failed: bool = field(default=False, init=False)

    def run(self) -> None:
        for call in self.calls:
            self._say(f"== {call.title}")
            began_s = time.monotonic()
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                *call.arguments,
                *sys.argv[1:],
            ]
            code = subprocess.call(command, stdout=self.output, stderr=subprocess.STDOUT)
            self._say(f"== {call.title}: exit {code} after {time.monotonic() - began_s:.0f} s")
            self.failed = self.failed or code != 0

    def _say(self, text: str) -> None:
        if self.output is None:
            print(text, flush=True)
        else:
            self.output.write(f"{text}\n".encode())
            self.output.flush()


def main() -> int:
    """Exit code 0 only when every call passed; all of them run."""
    with tempfile.TemporaryFile() as output:
        first, second = Lane(LANES[0], None), Lane(LANES[1], output)
        beside = threading.Thread(target=second.run)
        beside.start()
        first.run()
        beside.join()
        output.seek(0)
        sys.stdout.write(output.read().decode(errors="replace"))
    return 1 if first.failed or second.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
