"""Clones of a checkout in which tests are run, several at a time, whatever a fault makes of them.

For `tests/mutants.py`.
"""

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from onebox.testing.processes import naming
from tests import lanes
from tests.tools import watched

PUT_AWAY_S = 20.0
MEMORY_BYTES = 8 * 1024**3  # of a process: a fault may ask for all there is
PYTEST = (
    *("-v", "--tb=short", "-p", "no:cacheprovider", "--hypothesis-seed=0"),
    *("-p", "no:faulthandler"),  # it would end the watch over the clock's time
)

T = TypeVar("T")


class Checkout:
    """A version of the project, with a .venv of its own for its tests."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.commit = self.git("rev-parse", "HEAD").strip()

    def git(self, *words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=self.path, check=True, capture_output=True, text=True
        ).stdout

    def files(self, paths: Iterable[str] = ()) -> list[str]:
        """The commit's files below these paths."""
        return self.git("ls-tree", "-r", "--name-only", self.commit, "--", *paths).splitlines()

    def source(self, path: str) -> bytes:
        return self.git("show", f"{self.commit}:{path}").encode()

    @property
    def python(self) -> str:
        return str(self.path / ".venv" / "bin" / "python")


@dataclass(frozen=True)
class Test:
    """What one test does without a fault; `fixtures` names those that it shares, too."""

    took_s: float
    cpu_s: float
    failed: bool
    fixtures: list[str]


@dataclass(frozen=True)
class Said:
    """What a process of tests has told.

    Attributes:
        tests: those that have ended, in their order.
        begun: one that has not, or "".
        code: its exit code.
    """

    tests: dict[str, Test]
    begun: str
    code: int

    @property
    def failed(self) -> str:
        """The first that failed or did not end, "" without one."""
        failed = (name for name, test in self.tests.items() if test.failed)
        return next(failed, "") or self.begun

    @property
    def is_late(self) -> bool:
        """A limit ended it."""
        return self.code == -signal.SIGXCPU or (self.code == 1 and bool(self.begun))


class Copy:
    """A clone of a checkout, in which one call of pytest runs at a time."""

    def __init__(self, folder: Path, checkout: Checkout) -> None:
        self.folder = folder
        self._checkout = checkout
        self._temporary = folder.with_name(f"{folder.name}t")
        self._writes = 0
        words = ("clone", "--quiet", "--shared", "--no-checkout", str(checkout.path), str(folder))
        checkout.git(*words)
        self._git("checkout", "--quiet", "--detach", checkout.commit)

    def write(self, path: str, text: bytes) -> None:
        file = self.folder / path
        file.write_bytes(text)
        # Compiled files are known by time and length: no two of the same length have the same time.
        self._writes += 1
        os.utime(file, (self._writes, self._writes))

    def restore(self) -> None:
        """As it was, but for compiled files; also what tests left, such as Hypothesis' examples."""
        self._git("checkout", "--quiet", "--", ".")
        self._git("clean", "-ffdxq", "-e", "__pycache__")

    async def run(
        self,
        words: Iterable[str],
        limits_s: Mapping[str, tuple[float, float]],
        log: Path,
        chosen: Sequence[str] | None = None,
        count: str = "",
    ) -> Said:
        """Runs tests as tests/tools/watched.py says. Nothing is left of it."""
        self._temporary.mkdir(exist_ok=True)
        report, request = self._temporary / "report", self._temporary / "request"
        request.write_text(
            json.dumps(
                {
                    "words": [*PYTEST, *lanes.NO_BROWSER, *words],
                    "report": str(report),
                    "chosen": chosen,
                    "count": count,
                    "limits_s": limits_s,
                }
            )
        )
        environment = {
            **os.environ,
            "TMPDIR": str(self._temporary),
            "PYTHONHASHSEED": "0",  # or tests of a set would have other names each time
            "HOMEPORT_FAULT_PART": "0",  # which part is tried would depend on the day
        }
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                self._checkout.python,
                watched.__file__,
                str(request),
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        try:
            await process.wait()
            lines = report.read_text().splitlines() if report.exists() else []
        finally:
            await self._put_away(process)
        tests, begun = {}, ""
        for line in lines:
            told = json.loads(line)
            begun = told.pop("begins", "")
            if not begun:
                name = told.pop("test")
                tests[name] = Test(**told)
        return Said(tests, begun, process.returncode or 0)

    async def _put_away(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), PUT_AWAY_S)
        for pid in naming(str(self._temporary)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await process.wait()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def _git(self, *words: str) -> None:
        self._checkout.git("-C", str(self.folder), *words)


async def in_copies(
    checkout: Checkout, items: Sequence[T], jobs: int, act: Callable[[T, Copy], Awaitable[None]]
) -> None:
    """Has each item's act done, as many at a time as there are copies."""
    waiting = deque(items)

    async def work(folder: Path) -> None:
        copy = Copy(folder, checkout)
        while waiting:
            await act(waiting.popleft(), copy)
            copy.restore()

    # A short name: sockets of tests lie below it.
    with tempfile.TemporaryDirectory(prefix="m-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)  # some tests run as another user
        async with asyncio.TaskGroup() as group:
            for number in range(min(jobs, len(items))):
                group.create_task(work(Path(made) / str(number)))
