"""Runs the whole suite in two lanes side by side, since most tests wait more than they compute.

Several pytest calls, because Playwright's event loop and pytest-asyncio's cannot share a process.
What the second lane says is shown when it has ended, so that the two do not mix.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.tools import servers

CRASHES = "tests/e2e/test_crash_table.py"
PORTAL_FOLDERS = ("portal", "tenants", "jobs")
TRAININGS = "tests/e2e/test_first_training.py"
PLAIN = "tests/onebox/plain"
POD_S3_PORT = 9000  # at the embedded cluster's gateway


@dataclass(frozen=True)
class Call:
    """One pytest process.

    Attributes:
        servers: it uses PostgreSQL and Redis in place of SQLite and memory, and an S3 server in
            place of a folder where pods take part.
        module: what is run; the exit code in `may_end` says that it cannot be on this machine.
        beside: added to its environment, where it is not set there, while the other lane works.
    """

    title: str
    arguments: tuple[str, ...]
    servers: bool = False
    module: tuple[str, ...] = ("pytest", "-q", "-p", "no:cacheprovider")
    may_end: int = 0
    beside: Mapping[str, str] = field(default_factory=dict)


LANES = (
    (
        Call("tests without a browser", ("-m", "not e2e and not slow and not upstream", "tests")),
        Call(
            "killed around every call",
            ("-m", "e2e and not slow", CRASHES),
            beside={"HOMEPORT_WITHIN_S": "90"},
        ),
        Call(
            "with PostgreSQL and Redis",
            # The server is thrown away, and its database with it.
            ("-m", "not e2e and not slow", "--reuse-db", *(f"tests/{d}" for d in PORTAL_FOLDERS)),
            servers=True,
        ),
        Call(
            "trainings with PostgreSQL, Redis and S3",
            ("-m", "e2e and not slow", TRAININGS),
            servers=True,
        ),
    ),
    (
        Call(
            "tests in a real browser, on a real cluster",
            ("-m", "e2e and not slow", "tests/e2e", f"--ignore={CRASHES}"),
        ),
        Call("the main job in a plain container", ("-m", "e2e and not slow", PLAIN)),
    ),
)
# `make test-cluster`, where that is asked for as well: TESTS_WITH_UPSTREAM=1.
UPSTREAM = (
    Call(
        "on upstream Kubernetes",
        ("--without", "faults"),
        module=("tests.upstream.run",),
        may_end=2,
    ),
    # That all comes right within half a minute is a promise for a machine that does nothing else.
    Call(
        "faults of an upstream control plane",
        ("--only", "faults"),
        module=("tests.upstream.run",),
        may_end=2,
        beside={"HOMEPORT_WITHIN_S": "90"},
    ),
)


@contextmanager
def environment_of(call: Call) -> Iterator[Mapping[str, str]]:
    """The environment of a call, with its servers while the context is open.

    Raises:
        NoServerError: one of them is not installed.
    """
    if not call.servers:
        yield os.environ
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="homeport-servers-")))
        folder.chmod(0o755)  # PostgreSQL runs as another user
        added = {
            "TESTS_WITH_SERVERS": "1",
            "DATABASE_URL": stack.enter_context(servers.postgres(folder / "postgres")),
            "REDIS_URL": stack.enter_context(servers.redis(folder / "redis")),
        }
        if TRAININGS in call.arguments:
            added |= stack.enter_context(servers.s3(folder / "s3"))
            port = added["S3_ENDPOINT"].rpartition(":")[2]
            added["S3_POD_ENDPOINT"] = f"http://10.244.0.1:{POD_S3_PORT}"
            added["ONEBOX_ARGS"] = f"--forward {port}:{POD_S3_PORT}"
        yield {**os.environ, **added}


@dataclass
class Lane:
    """Runs its calls one after the other; `failed` when one of them did not pass.

    Attributes:
        output: where it says what; None: straight to the terminal.
        is_alone: whether the other lane is over.
    """

    calls: tuple[Call, ...]
    output: IO[bytes] | None
    is_alone: Callable[[], bool]
    failed: bool = field(default=False, init=False)

    def run(self) -> None:
        for call in self.calls:
            self._say(f"== {call.title}")
            began_s = time.monotonic()
            command = [
                sys.executable,
                "-m",
                *call.module,
                *call.arguments,
                *sys.argv[1:],
            ]
            try:
                with environment_of(call) as environment:
                    added = {} if self.is_alone() else call.beside
                    if added:
                        self._say(f"== {call.title}: beside other work, with {dict(added)}")
                    code = subprocess.call(
                        command,
                        stdout=self.output,
                        stderr=subprocess.STDOUT,
                        env={**added, **environment},
                    )
            except servers.NoServerError as error:
                self._say(f"== {call.title}: not run, because {error}")
                # A machine that proves the project must have all that the proof needs.
                self.failed = self.failed or bool(os.environ.get("CI"))
                continue
            self._say(f"== {call.title}: exit {code} after {time.monotonic() - began_s:.0f} s")
            self.failed = self.failed or code not in {0, call.may_end}

    def _say(self, text: str) -> None:
        if self.output is None:
            print(text, flush=True)
        else:
            self.output.write(f"{text}\n".encode())
            self.output.flush()


def main() -> int:
    """Exit code 0 only when every call passed; all of them run."""
    # A shell that runs this in the background has it ignored, and tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryFile() as output:
        also = UPSTREAM if os.environ.get("TESTS_WITH_UPSTREAM") else ()
        is_first_over = threading.Event()
        second = Lane((*LANES[1], *also), output, is_first_over.is_set)
        beside = threading.Thread(target=second.run)
        first = Lane(LANES[0], None, lambda: not beside.is_alive())
        beside.start()
        first.run()
        is_first_over.set()
        beside.join()
        output.seek(0)
        sys.stdout.write(output.read().decode(errors="replace"))
    return 1 if first.failed or second.failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
