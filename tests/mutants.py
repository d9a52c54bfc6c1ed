"""How many small faults the tests find: draws some in a commit, tries each against the tests.

    .venv/bin/python -m tests.mutants reach   # once: which test files run which lines
    .venv/bin/python -m tests.mutants draw    # the same number from each of ROOMS; prints them
    .venv/bin/python -m tests.mutants run     # tries them; writes the table, tests/mutants.txt

`--commit` names the commit to try, HEAD if it is not said: its files are changed, in copies, and its
hash decides what is drawn from the lines that the tests run. It is drawn once: all that is known of a
commit is kept in var/mutants/COMMIT, so that `reach` and `run` may be stopped (control-C) and go on
where they were; `run 7 12` tries these two again. Best with nothing else on the machine: how long a
file takes in `reach` decides when it is tried and how long it may take. `--jobs` go at a time.

The tests are those of LANES. A fault is tried against the files of them that run its line, the quickest
first, until one test fails or takes too long, twice. What fails without a fault is left out.
"""

import argparse
import asyncio
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from coverage import CoverageData
from coverage.exceptions import CoverageException

from onebox.testing.processes import naming
from tests import lanes
from tests.run import ROOT, say, share_images
from tests.tools.mutations import Mutant, mutants_of

# What is compared, by its folders and files; a later version of the same room may lie elsewhere.
ROOMS: Mapping[str, tuple[str, ...]] = {
    "rules": ("jobs/rules",),
    "the reconciler of trainings": (
        "jobs/engine",
        "jobs/leader",
        "jobs/kinds/crashes.py",
        "jobs/kinds/lifecycle.py",
        "jobs/kinds/notes.py",
        "jobs/kinds/state.py",
        "jobs/kinds/training",
    ),
    "the reconciler of services": (
        "jobs/kinds/interactive",
        "jobs/kinds/notebook.py",
        "jobs/kinds/tensorboard.py",
    ),
    "rules of services": tuple(
        f"jobs/services/{name}.py"
        for name in (
            "actions",
            "boards",
            "fit",
            "holders",
            "manifests",
            "opening",
            "startup",
            "submission",
            "tickets",
            "tokens",
        )
    ),
    "tenants": ("tenants",),
}
PER_ROOM = 20
LANES = ("unit", "faults")
# Files that run in one process; together no longer than this, where one alone is not.
TOGETHER_S = 60.0
# Tests may take this many times as long as they did, and this much more.
SLOWER, MORE_S = 4, 60.0
REACH_S = 1200.0  # for one file
PUT_AWAY_S = 20.0
MEMORY_BYTES = 8 * 1024**3  # of a process: a fault may ask for all there is
PYTEST = ("-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider", "--hypothesis-seed=0")
SHOWN = 200  # characters of a line in the table

_FAILED = re.compile(r"^(tests/.+?) (?:FAILED|ERROR)\b", re.MULTILINE)
_NOT_LOADED = re.compile(r"^ERROR (tests/\S+)", re.MULTILINE)
_BEGUN = re.compile(r"^(tests/\S+::.+?)(?: [A-Z]+ .*)?$", re.MULTILINE)
_NO_TESTS = 5  # pytest's exit code

T = TypeVar("T")


@dataclass(frozen=True)
class Reach:
    """What one test file does without a fault.

    Attributes:
        failed: tests that fail already, or only because their lines are counted.
        lines: those of the rooms that it runs, by path.
    """

    took_s: float
    failed: list[str]
    lines: dict[str, list[int]]


@dataclass(frozen=True)
class Result:
    """What became of one fault; `test` is empty when none found it."""

    test: str
    is_late: bool
    took_s: float


class Kept:
    """What is known of one commit, in a folder below var/."""

    def __init__(self, commit: str) -> None:
        self.commit = git("rev-parse", "--verify", f"{commit}^{{commit}}").strip()
        self.folder = ROOT / "var" / "mutants" / self.commit
        for name in ("reach", "results", "logs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    def files(self, paths: Iterable[str] = ()) -> list[str]:
        """The commit's files below these paths."""
        return git("ls-tree", "-r", "--name-only", self.commit, "--", *paths).splitlines()

    def source(self, path: str) -> bytes:
        return git("show", f"{self.commit}:{path}").encode()

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name.replace('/', '.')}.log"

    def keep(self, kind: str, name: str, what: Reach | Result) -> None:
        path = self.folder / kind / f"{name.replace('/', '.')}.json"
        path.with_suffix(".new").write_text(json.dumps(asdict(what)))
        path.with_suffix(".new").replace(path)

    def reach(self) -> dict[str, Reach]:
        """By test file, of those that have been looked at."""
        return {
            file: Reach(**json.loads(path.read_text()))
            for file in test_files(self)
            if (path := self.folder / "reach" / f"{file.replace('/', '.')}.json").exists()
        }

    def result(self, mutant: Mutant) -> Result | None:
        """None while it has not been tried."""
        path = self.folder / "results" / f"{_digest(mutant)}.json"
        return Result(**json.loads(path.read_text())) if path.exists() else None


def git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def _digest(*what: object) -> str:
    return hashlib.sha256(repr(what).encode()).hexdigest()


def test_files(kept: Kept) -> list[str]:
    found = [lanes.files_of(lane) for lane in lanes.LANES if lane.name in LANES]
    return sorted(set().union(*found) & set(kept.files(["tests"])))


class Copy:
    """A checkout of its own, in which one call of pytest runs at a time."""

    def __init__(self, folder: Path, commit: str) -> None:
        self.folder = folder
        self._temporary = folder.with_name(f"{folder.name}t")
        self._writes = 0
        git("clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(folder))
        self._git("checkout", "--quiet", "--detach", commit)

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

    async def run(self, words: Sequence[str], limit_s: float, log: Path) -> int | None:
        """The exit code of Python with these words; None: it took too long. Nothing is left of it."""
        self._temporary.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            "TMPDIR": str(self._temporary),
            "HOMEPORT_FAULT_PART": "0",  # which part is tried would depend on the day
        }
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *words,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        try:
            async with asyncio.timeout(limit_s):
                return await process.wait()
        except TimeoutError:
            return None
        finally:
            await self._put_away(process)

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
        git("-C", str(self.folder), *words)


async def in_copies(
    kept: Kept, items: Sequence[T], jobs: int, act: Callable[[T, Copy], Awaitable[None]]
) -> None:
    """Has each item's act done, as many at a time as there are copies."""
    waiting = deque(items)

    async def work(folder: Path) -> None:
        copy = Copy(folder, kept.commit)
        while waiting:
            await act(waiting.popleft(), copy)
            copy.restore()

    # A short name: sockets of tests lie below it.
    with tempfile.TemporaryDirectory(prefix="m-", ignore_cleanup_errors=True) as made:
        Path(made).chmod(0o755)  # some tests run as another user
        async with asyncio.TaskGroup() as group:
            for number in range(min(jobs, len(items))):
                group.create_task(work(Path(made) / str(number)))


async def reach(kept: Kept, files: Sequence[str], jobs: int) -> None:
    """Runs each test file under coverage and keeps which lines of the rooms it runs."""

    async def look(file: str, copy: Copy) -> None:
        with tempfile.TemporaryDirectory(prefix="homeport-reach-") as made:
            Path(made).chmod(0o777)  # what tests start as another user writes there too
            settings = Path(made, "coveragerc")
            paths = (path for paths in ROOMS.values() for path in paths)
            included = (f"{path}/*" if not path.endswith(".py") else path for path in paths)
            settings.write_text(
                "[run]\nparallel = true\npatch = subprocess\n"
                f"data_file = {made}/lines\ninclude =\n"
                + "".join(f"    {copy.folder}/{path}\n" for path in included)
            )
            words = ("-m", "coverage", "run", f"--rcfile={settings}", *PYTEST, *lanes.NO_BROWSER)
            began_s, log = time.monotonic(), kept.log(file)
            code = await copy.run((*words, file), REACH_S, log)
            took_s = round(time.monotonic() - began_s, 1)
            failed = sorted(set(_FAILED.findall(log.read_text(errors="replace"))))
            if code not in {0, 1, _NO_TESTS} or (code == 1 and not failed):
                say(f"{file} cannot be used, exit {code}: {log}")
                failed = [file]
            kept.keep("reach", file, Reach(took_s, failed, _lines(Path(made), copy.folder)))
            say(f"{file}: {took_s} s, {len(failed)} failed")

    await in_copies(kept, files, jobs, look)


def _lines(folder: Path, checkout: Path) -> dict[str, list[int]]:
    """What the processes of one test file have run, by path from the checkout."""
    found: dict[str, set[int]] = {}
    for file in folder.glob("lines.*"):
        data = CoverageData(str(file))
        with suppress(CoverageException):  # of a process that was killed while it wrote
            data.read()
        for name in data.measured_files():
            path = str(Path(name).relative_to(checkout))
            found.setdefault(path, set()).update(data.lines(name) or ())
    return {path: sorted(lines) for path, lines in sorted(found.items())}


def drawn(kept: Kept) -> list[Mutant]:
    """The faults of a commit: of each room the same number, in its order; the same when asked again.

    Raises:
        SystemExit: not every test file has been looked at, or a room has too few lines.
    """
    once = kept.folder / "drawn.json"
    if once.exists():
        return [Mutant(**each) for each in json.loads(once.read_text())]
    reaches = kept.reach()
    missing = set(test_files(kept)) - set(reaches)
    if missing:
        raise SystemExit(f"`reach` has not looked at {len(missing)} of the test files yet.")
    found = []
    for room, paths in ROOMS.items():
        sources = {
            path: kept.source(path)
            for path in kept.files(paths)
            if path.endswith(".py") and "/migrations/" not in path
        }
        reached = {
            path: {line for reach in reaches.values() for line in reach.lines.get(path, ())}
            for path in sources
        }
        chosen = draw(sources, reached, PER_ROOM, kept.commit)
        if len(chosen) < PER_ROOM:
            raise SystemExit(f"{room}: the tests run only {len(chosen)} lines that can be changed.")
        found += chosen
    once.write_text(json.dumps([asdict(mutant) for mutant in found], indent=1))
    return found


def draw(
    sources: Mapping[str, bytes], reached: Mapping[str, set[int]], count: int, seed: str
) -> list[Mutant]:
    """So many faults, or fewer where there are no more, each in a line of its own; sorted.

    All lines are as likely, whatever can be changed in them, and in a line all operators.
    """

    def key(mutant: Mutant) -> list[str]:
        line, rest = (mutant.path, mutant.line), (mutant.start, mutant.end, mutant.text)
        told = (line, (*line, mutant.operator), (*line, mutant.operator, *rest))
        return [_digest(seed, *each) for each in told]

    all_of_them = [
        mutant
        for path, source in sources.items()
        for mutant in mutants_of(path, source)
        if mutant.runs_at in reached[path]
    ]
    chosen: dict[tuple[str, int], Mutant] = {}
    for mutant in sorted(all_of_them, key=key):
        line = (mutant.path, mutant.line)
        is_new = len(chosen) < count and line not in chosen
        if is_new and mutant.is_program(sources[mutant.path]):
            chosen[line] = mutant
    return [mutant for _, mutant in sorted(chosen.items())]


@dataclass(frozen=True)
class Chosen:
    """The test files for one fault, the quickest first, and the tests of them to leave out."""

    took_s: dict[str, float]
    left_out: list[str]

    def limit_s(self, tests: Iterable[str]) -> float:
        return SLOWER * sum(self.took_s.get(test.partition("::")[0], 0) for test in tests) + MORE_S

    def together(self) -> Iterator[list[str]]:
        """Files that are tried in one process."""
        files: list[str] = []
        for file, took_s in self.took_s.items():
            if files and sum(self.took_s[each] for each in files) + took_s > TOGETHER_S:
                yield files
                files = []
            files.append(file)
        if files:
            yield files


def chosen_for(mutant: Mutant, reaches: Mapping[str, Reach]) -> Chosen:
    found = {
        file: reach
        for file, reach in sorted(reaches.items(), key=lambda item: (item[1].took_s, item[0]))
        if mutant.runs_at in reach.lines.get(mutant.path, ()) and file not in reach.failed
    }
    failed = [test for reach in found.values() for test in reach.failed]
    return Chosen({file: reach.took_s for file, reach in found.items()}, failed)


async def try_all(kept: Kept, mutants: Sequence[Mutant], numbers: Sequence[int], jobs: int) -> None:
    """Tries the faults with these numbers, from 1, and keeps what became of each."""
    reaches = kept.reach()

    async def attempt(number: int, copy: Copy) -> None:
        mutant, began_s = mutants[number - 1], time.monotonic()
        copy.write(mutant.path, mutant.applied(kept.source(mutant.path)))
        test, is_late = await finding(copy, chosen_for(mutant, reaches), kept.log(str(number)))
        result = Result(test, is_late, round(time.monotonic() - began_s, 1))
        kept.keep("results", _digest(mutant), result)
        say(f"{number}. {mutant.path}:{mutant.line} {_became(result)}, {result.took_s} s")

    await in_copies(kept, numbers, jobs, attempt)


async def finding(copy: Copy, chosen: Chosen, log: Path) -> tuple[str, bool]:
    """The test that finds what is in a copy, "" without one, and whether it took too long.

    Tests that fail only once are unsteady: they found nothing.
    """
    left_out = list(chosen.left_out)

    async def fails(tests: Sequence[str]) -> tuple[str, bool]:
        words = [*PYTEST, "-x", *lanes.NO_BROWSER, *tests, *(f"--deselect={t}" for t in left_out)]
        code = await copy.run(words, chosen.limit_s(tests), log)
        if code in {0, _NO_TESTS}:
            return "", False
        said = log.read_text(errors="replace")
        named = _FAILED.findall(said)[:1] or _NOT_LOADED.findall(said)[:1]
        return [*named, *_BEGUN.findall(said)[-1:], tests[0]][0].strip(), code is None

    for files in chosen.together():
        while test := (await fails(files))[0]:
            again, is_late = await fails([test])
            if again:
                return again, is_late
            left_out.append(test)
    return "", False


def _became(result: Result | None) -> str:
    if result is None:
        return "not tried yet"
    if not result.test:
        return "NOT FOUND"
    return f"found by {result.test}" + (", which took too long" if result.is_late else "")


def table(kept: Kept, mutants: Sequence[Mutant]) -> Iterator[str]:
    """What is committed: by room each fault with its number, and what became of it."""
    results = [kept.result(mutant) for mutant in mutants]
    is_found = [bool(result and result.test) for result in results]
    yield "Faults drawn by tests/mutants.py, and the test of each that found it."
    yield f"Commit {kept.commit}: {sum(is_found)} of {len(mutants)} found."
    for number, (mutant, result) in enumerate(zip(mutants, results, strict=True)):
        room, place = divmod(number, PER_ROOM)
        if place == 0:
            count = sum(is_found[number : number + PER_ROOM])
            yield f"\n## {list(ROOMS)[room]}: {count} of {PER_ROOM} found\n"
        before, after = (text[:SHOWN] for text in mutant.shown(kept.source(mutant.path)))
        yield f"{number + 1}. {mutant.path}:{mutant.line} {mutant.operator}"
        yield f"    {before}  ->  {after}"
        yield f"    {_became(result)}"


def main(words: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--commit", default="HEAD", help="whose files are changed; its hash draws")
    options.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    looking = commands.add_parser("reach", parents=[options], help="which files run which lines")
    looking.add_argument("files", nargs="*", help="test files to look at again; else all new ones")
    commands.add_parser("draw", parents=[options], help="print what is drawn")
    trying = commands.add_parser("run", parents=[options], help="try what is drawn")
    trying.add_argument("numbers", nargs="*", type=int, help="to try again; else all new ones")
    trying.add_argument("--table", type=Path, default=ROOT / "tests" / "mutants.txt")
    given = parser.parse_args(words)
    kept = Kept(given.commit)
    share_images()
    if given.command == "reach":
        known = kept.reach()
        files = given.files or [file for file in test_files(kept) if file not in known]
        asyncio.run(reach(kept, files, given.jobs))
        return
    mutants = drawn(kept)
    if given.command == "draw":
        say("\n".join(table(kept, mutants)))
        return
    new = [number for number, each in enumerate(mutants, 1) if kept.result(each) is None]
    numbers = given.numbers or new
    try:
        asyncio.run(try_all(kept, mutants, numbers, given.jobs))
    finally:
        given.table.write_text("\n".join(table(kept, mutants)) + "\n")


if __name__ == "__main__":
    main()
