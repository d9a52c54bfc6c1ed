"""How many small faults the tests find: draws some in a commit, tries each against the tests.

    .venv/bin/python -m tests.mutants reach    # once: which tests run which lines
    .venv/bin/python -m tests.mutants draw     # the same number from each of ROOMS; prints them
    .venv/bin/python -m tests.mutants run      # tries them; prints what became of each

`--checkout` names where the version lies that is tried, with a .venv of its own for its tests; the hash
of its HEAD decides what is drawn from the lines that the tests run. Its files are changed in copies.
It is drawn once: all that is known of a commit is kept in its checkout's var/mutants/COMMIT, so that
`reach` and `run` may be stopped (control-C) and go on where they were; `run 7 12` tries these two
again. `--jobs` go at a time.

The tests are those of LANES. A fault is tried against those of them that run its line, the quickest
first, until one fails or takes too long, twice. A line that runs while modules are imported is run for
all: then it is those that run a function which reads what it makes, by the names in it. What fails
without a fault is left out. Too long is a matter of the processor's time, so that a busy machine finds
nothing; a test that only waits is given up in the end.
"""

import argparse
import asyncio
import hashlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from coverage import CoverageData
from coverage.exceptions import CoverageException

from tests.run import ROOT, say, share_images
from tests.tools import watched
from tests.tools.copies import Checkout, Copy, Said, Test, in_copies
from tests.tools.mutations import Mutant, mutants_of
from tests.tools.readers import TOPS, parts_of, readers

# What is compared, by its folders and files, of all versions: those that a commit has count.
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
        "jobs/reconciler",
    ),
    "the reconciler of services": (
        "jobs/kinds/interactive/lifecycle.py",
        "jobs/kinds/interactive/observe.py",
        "jobs/kinds/interactive/startup.py",
        "jobs/kinds/notebook.py",
        "jobs/kinds/tensorboard.py",
        "jobs/services/reconciler",
    ),
    "rules of services": (
        "jobs/kinds/interactive/manifests.py",
        "jobs/kinds/interactive/opening.py",
        "jobs/kinds/interactive/tokens.py",
        *(
            f"jobs/{folder}/{name}.py"
            for folder in ("services", "workloads")
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
                "usage",
            )
        ),
    ),
    "tenants": ("tenants",),
}
PER_ROOM = 20
LANES = ("unit", "faults")
# A process of tests that run a fault takes no longer than this, the first of them no longer than that.
TOGETHER_S, FIRST_S = 60.0, 5.0
FIRST_FILES = 5  # each has to be imported
REACH_FILES = 6  # in one process
# Tests may take this many times the processor's time that they did, and this much more; and so for the
# clock's, with which the machine may be busy.
SLOWER, MORE_S = 4, 60.0
CLOCK_SLOWER, CLOCK_MORE_S = 10, 300.0
REACH_S = (600.0, 1200.0)  # of the processor, of the clock, for one test
ENDED = {0, 5}  # pytest's exit code: 5, there are no tests
SHOWN = 200  # characters of a line in the table


@dataclass(frozen=True)
class Result:
    """What became of one fault; `test` is empty when none of those that were tried found it."""

    test: str
    is_late: bool
    tried: int


class Kept(Checkout):
    """What is known of the commit of a checkout, in a folder below its var/."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.folder = self.path / "var" / "mutants" / self.commit
        for name in ("reach", "results", "logs"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    @cached_property
    def test_files(self) -> list[str]:
        asked = (
            "from tests.lane import files_of; from tests.lanes import LANES;"
            f" found = [files_of(lane) for lane in LANES if lane.name in {LANES!r}];"
            " print(*set().union(*found), sep='\\n')"
        )
        words = [self.python, "-c", asked]
        said = subprocess.run(words, cwd=self.path, check=True, capture_output=True, text=True)
        return sorted({*said.stdout.split()} & {*self.files(["tests"])})

    def log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name.replace('/', '.')}.log"

    def keep(self, kind: str, name: str, what: object) -> None:
        path = self.folder / kind / f"{name}.json"
        path.with_suffix(".new").write_text(json.dumps(what))
        path.with_suffix(".new").replace(path)

    def looked_at(self) -> set[str]:
        """The test files of which is known what they run."""
        kept = (self.folder / "reach").glob("*.json")
        return {file for path in kept for file in json.loads(path.read_text())["files"]}

    def result(self, mutant: Mutant) -> Result | None:
        """None while it has not been tried."""
        path = self.folder / "results" / f"{_digest(mutant)}.json"
        return Result(**json.loads(path.read_text())) if path.exists() else None


def _digest(*what: object) -> str:
    return hashlib.sha256(repr(what).encode()).hexdigest()


async def reach(kept: Kept, jobs: int) -> None:
    """Runs the test files under coverage, some in a process, and keeps which test runs which lines."""

    async def look(files: Sequence[str], copy: Copy) -> None:
        name, began_s = _digest(*files), time.monotonic()
        log = kept.log(files[0])
        with tempfile.TemporaryDirectory(prefix="homeport-reach-") as made:
            Path(made).chmod(0o777)  # what tests start as another user writes there too
            settings = Path(made, "coveragerc")
            settings.write_text(
                f"[run]\nparallel = true\ndata_file = {made}/lines\ncontext = ${{WATCHED-}}\n"
                "disable_warnings = no-data-collected\ninclude =\n"
                + "".join(f"    {copy.folder}/{top}/*\n" for top in TOPS)
            )
            said = await copy.run(files, {"": REACH_S}, log, count=str(settings))
            is_whole = said.code in {*ENDED, 1} and not said.begun
            if not is_whole and len(files) > 1:
                say(f"{files[0]} and so on end with {said.code}: each alone")
                for file in files:
                    await look([file], copy)
                return
            if not is_whole:
                say(f"{files[0]} cannot be used, exit {said.code}: {log}")
            _keep_lines(Path(made), copy.folder, kept.folder / "reach" / f"{name}.coverage")
        failed = [test for test, told in said.tests.items() if told.failed]
        if failed:  # that may be so only while lines are counted, or on a busy machine
            again = await copy.run(_files(failed), {"": REACH_S}, kept.log(f"{name}.again"), failed)
            passed = {test for test, told in again.tests.items() if not told.failed}
            failed = [test for test in failed if test not in passed]
        tests = {
            test: {**asdict(told), "failed": test in failed or not is_whole}
            for test, told in said.tests.items()
        }
        kept.keep("reach", name, {"files": files, "tests": tests})
        took_s = round(time.monotonic() - began_s)
        say(f"{', '.join(files)}: {len(tests)} tests, {took_s} s; failed: {failed}")

    left = [file for file in kept.test_files if file not in kept.looked_at()]
    groups = [left[at : at + REACH_FILES] for at in range(0, len(left), REACH_FILES)]
    await in_copies(kept, groups, jobs, look)


def _files(tests: Iterable[str]) -> list[str]:
    """Of these tests, in the order of the first of each."""
    return list(dict.fromkeys(test.partition("::")[0] for test in tests))


def _keep_lines(folder: Path, checkout: Path, kept: Path) -> None:
    """Puts together what the processes of some tests have run, by path from the checkout."""
    kept.unlink(missing_ok=True)
    together = CoverageData(str(kept))
    for file in folder.glob("lines.*"):
        data = CoverageData(str(file))
        with suppress(CoverageException):  # of a process that was killed while it wrote
            data.read()
            together.update(data, map_path=lambda path: str(Path(path).relative_to(checkout)))
    together.close()


class Reach:
    """Which tests run which lines.

    Raises:
        SystemExit: not every test file has been looked at.
    """

    def __init__(self, kept: Kept) -> None:
        missing = {*kept.test_files} - kept.looked_at()
        if missing:
            raise SystemExit(f"`reach` has not looked at {len(missing)} of the test files yet.")
        self._lines = CoverageData(no_disk=True)
        self.tests: dict[str, Test] = {}
        for path in sorted((kept.folder / "reach").glob("*.json")):
            found: dict[str, Any] = json.loads(path.read_text())["tests"]
            self.tests |= {test: Test(**told) for test, told in found.items()}
            if (lines := path.with_suffix(".coverage")).exists():
                data = CoverageData(str(lines))
                data.read()
                self._lines.update(data)
        programs = [path for path in kept.files(TOPS) if path.endswith(".py")]
        self._parts = {path: parts_of(kept.source(path)) for path in [*programs, *kept.test_files]}
        # The contexts in which runs what a test needs.
        self._own = {
            name: {name, name.partition("::")[0]}
            | {
                watched.shared(scope, name.partition("::")[0], fixture)
                for fixture in test.fixtures
                for scope in ("module", "session")
            }
            for name, test in self.tests.items()
        }

    def lines(self, path: str) -> set[int]:
        """Those that any test runs."""
        return set(self._lines.lines(path) or ())

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Those that run its line, the quickest first, without those that fail anyway.

        Those that run it themselves come before those that only read what it has made.
        """
        running = self._running(mutant.path, {mutant.runs_at})
        first = running - {""}
        if "" in running or not self._is_in_function(mutant.path, mutant.runs_at):
            found = readers(self._parts, mutant.path, mutant.runs_at)
            for path, spans in found.items():
                lines = {line for first, last in spans for line in range(first, last + 1)}
                # Of test files no lines are counted: all their tests are meant.
                running |= {path} | self._running(path, lines)
        passing = sorted(
            (not self._own[name] & first, test.took_s, name)
            for name, test in self.tests.items()
            if not test.failed
        )
        chosen = [name for *_, name in passing if self._own[name] & running - {""}]
        return chosen or [name for *_, name in passing]

    def _running(self, path: str, lines: set[int]) -> set[str]:
        """The contexts in which any of these lines runs."""
        by_line = self._lines.contexts_by_lineno(path)
        return {context for line in lines for context in by_line.get(line, ())}

    def _is_in_function(self, path: str, line: int) -> bool:
        spans = (part.span for part in self._parts[path] if part.is_function)
        return any(first <= line <= last for first, last in spans)


def drawn(kept: Kept) -> list[Mutant]:
    """The faults of a commit: of each room the same number, in its order; the same when asked again.

    Raises:
        SystemExit: not every test file has been looked at, or a room has too few lines.
    """
    once = kept.folder / "drawn.json"
    if once.exists():
        return [Mutant(**each) for each in json.loads(once.read_text())]
    reached = Reach(kept)
    found = []
    for room, paths in ROOMS.items():
        sources = {
            path: kept.source(path)
            for path in kept.files(paths)
            if path.endswith(".py") and "/migrations/" not in path
        }
        lines = {path: reached.lines(path) for path in sources}
        chosen = draw(sources, lines, PER_ROOM, kept.commit)
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


async def try_all(kept: Kept, mutants: Sequence[Mutant], numbers: Sequence[int], jobs: int) -> None:
    """Tries the faults with these numbers, from 1, and keeps what became of each."""
    reached = Reach(kept)

    async def attempt(number: int, copy: Copy) -> None:
        mutant, began_s = mutants[number - 1], time.monotonic()
        copy.write(mutant.path, mutant.applied(kept.source(mutant.path)))
        tests = {name: reached.tests[name] for name in reached.tests_for(mutant)}
        result = await finding(copy, tests, kept.log(str(number)))
        kept.keep("results", _digest(mutant), asdict(result))
        took_s = round(time.monotonic() - began_s)
        say(f"{number}. {mutant.path}:{mutant.line} {_became(result)}, {took_s} s")

    await in_copies(kept, numbers, jobs, attempt)


async def finding(copy: Copy, tests: Mapping[str, Test], log: Path) -> Result:
    """What these tests, the first of them first, find in a copy.

    Those that fail only once are unsteady: they found nothing.
    """
    limits_s = {
        name: (SLOWER * test.cpu_s + MORE_S, CLOCK_SLOWER * test.took_s + CLOCK_MORE_S)
        for name, test in tests.items()
    }
    limits_s[""] = (MORE_S, CLOCK_MORE_S)
    tried = 0

    async def run(chosen: Sequence[str]) -> tuple[str, Said]:
        """The test that fails, "" without one, and what was said."""
        said = await copy.run(("-x", *_files(chosen)), limits_s, log, chosen)
        return said.failed or (chosen[0] if said.code not in ENDED else ""), said

    for left in processes_of(tests):
        while left:
            test, said = await run(left)
            tried += len(said.tests)
            if not test:
                break
            again, said_again = await run([test])
            if again:
                return Result(again, said_again.is_late, tried)
            left = [
                name
                for name in left
                if name not in said.tests and _function(name) != _function(test)
            ]
    return Result("", False, tried)


def _function(test: str) -> str:
    """A test without its parameters, which a fault may change."""
    return test.partition("[")[0]


def processes_of(tests: Mapping[str, Test]) -> Iterator[list[str]]:
    """The tests that are tried in one process: some that are quick, then the others by their files."""
    left, first, took_s = dict(tests), list[str](), 0.0
    for name, test in tests.items():
        took_s += test.took_s
        if took_s > FIRST_S:
            break
        if len(_files([*first, name])) <= FIRST_FILES:
            first.append(name)
            del left[name]
    yield first
    together, took_s = list[str](), 0.0
    for file in _files(left):
        of_file = [name for name in left if name.startswith(f"{file}::")]
        file_s = sum(left[name].took_s for name in of_file)
        if together and took_s + file_s > TOGETHER_S:
            yield together
            together, took_s = [], 0.0
        together += of_file
        took_s += file_s
    yield together


def _became(result: Result | None) -> str:
    if result is None:
        return "not tried yet"
    if not result.test:
        return f"NOT FOUND by {result.tried} tests"
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
    options.add_argument("--checkout", type=Path, default=ROOT, help="its HEAD is tried")
    options.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("reach", parents=[options], help="which tests run which lines")
    commands.add_parser("draw", parents=[options], help="print what is drawn")
    trying = commands.add_parser("run", parents=[options], help="try what is drawn")
    trying.add_argument("numbers", nargs="*", type=int, help="to try again; else all new ones")
    given = parser.parse_args(words)
    kept = Kept(given.checkout)
    share_images()
    if given.command == "reach":
        asyncio.run(reach(kept, given.jobs))
        return
    mutants = drawn(kept)
    if given.command == "run":
        new = [number for number, each in enumerate(mutants, 1) if kept.result(each) is None]
        asyncio.run(try_all(kept, mutants, given.numbers or new, given.jobs))
    say("\n".join(table(kept, mutants)))


if __name__ == "__main__":
    main()
