"""Runs the tests in lanes side by side, since most of them wait more than they compute.

    .venv/bin/python -m tests.run [test|test-all|ci] [--only LANE]... [--spent-s SECONDS] [words for pytest]

Each lane (tests/lanes.py) is a process of its own: Playwright's event loop and pytest-asyncio's
cannot share one. A run has a folder below var/test-results: of every lane its log, a JUnit file and
its slowest tests.

A machine that does everything at once is slow now and then. What failed beside other lanes is
therefore tried once more when they are over, alone, where it is only a few tests; the end of the
output names each that passed then, and the log of its failure is kept.

However a run ends, also by SIGKILL or because nobody reads any more what it says, its lanes end, and all that they
started with them (tests/tools/guard.py).

`ci` ends itself after `ENDS_S`, which is a failure; what did not run is named then. Lanes with `inputs` come last and end
earlier, without a failure; they are named as well.
"""

import argparse
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from tests import builds, due, lanes
from tests.builds import Build, Next, last_line
from tests.lane import FILES, LEFT_OUT, Lane, Need, NeedError, needs_browser
from tests.outcomes import Case, Outcome, line_of, read_cases
from tests.tools import browsers, children, servers, sizes

ROOT = Path(__file__).resolve().parents[1]
KEPT_RUNS = 10
SLOWEST = 30
TOLD_EVERY_S = 60.0
ENDS_S = {"ci": 86 * 60.0}
# Of lanes with inputs: what failed in others is tried again in the time that is left.
INPUTS_END_S = 66 * 60.0
_NO_TIME = "there was no time for it, and it has not passed with these files yet"
_PROVEN = "there was no time for it, and it has passed with the same files before"
_PERCENT = re.compile(rb"\[\s*(\d+)%\]")


say = children.say


@dataclass
class Running:
    """A lane at work."""

    lane: Lane
    process: subprocess.Popen[bytes]
    log: Path
    name: str  # of its files
    began_s: float = field(default_factory=time.monotonic)

    def progress(self) -> str:
        found = _PERCENT.findall(self.log.read_bytes())
        return f"{self.name} {found[-1].decode()} %" if found else self.name


class Run:
    """Lanes that begin in order as soon as there are processors for them.

    Attributes:
        folder: for what is kept of this run.
        outcomes: of the lanes that are over.
        not_tried: lanes that cannot be had here, with the reason of each, or for which there was no time.
        cut_off: names of what had not ended when the time was over.

    Args:
        began_s, ends_s: monotonic; nothing runs after the second.
        proven: where lanes with inputs are left out when there is no time, the names of those that have passed with
            the same inputs.
    """

    def __init__(
        self,
        waiting: Sequence[Lane],
        folder: Path,
        to_pytest: Sequence[str],
        *,
        began_s: float | None = None,
        ends_s: float = math.inf,
        proven: Collection[str] | None = None,
    ) -> None:
        self.folder = folder
        self.outcomes: list[Outcome] = []
        self.not_tried: list[tuple[Lane, str]] = []
        self.cut_off: list[str] = []
        self._began_s = time.monotonic() if began_s is None else began_s
        self._ends_s = ends_s
        self._proven = proven
        self._waiting = list(waiting)
        self._builds = {lane.name: Build(lane, folder) for lane in waiting if lane.prepared_by}
        self._running: list[Running] = []
        self._to_pytest = to_pytest
        # A little more than there is: no lane keeps its processors busy all the time.
        self._room = 1.25 * max(2, len(os.sched_getaffinity(0)))

    def until_all_are_over(self) -> None:
        """Begins lanes as there is room for them, and waits for the last one."""
        told_s = time.monotonic()
        while self._waiting or self._running:
            if time.monotonic() > self._ends_s:
                self.cut_off += [it.name for it in self._running]
                self.cut_off += [lane.name for lane in self._waiting]
                self.stop()
                return
            if self._proven is not None and self._spent_s() > INPUTS_END_S:
                self._end_those_with_inputs(self._proven)
            if children.has_lost_reader():
                raise BrokenPipeError
            self._begin()
            time.sleep(0.1)
            for running in list(self._running):
                self._reap(running)
            if time.monotonic() - told_s > TOLD_EVERY_S:
                told_s = time.monotonic()
                built = [
                    f"{lane.name} ({self._builds[lane.name].last_line})"
                    for lane in self._waiting
                    if lane.name in self._builds
                ]
                say(f"   {', '.join([running.progress() for running in self._running] or built)}")

    def _end_those_with_inputs(self, proven: Collection[str]) -> None:
        """Those that wait do not begin; what has failed by then has failed."""
        running = [it for it in self._running if it.lane.inputs]
        children.stop(*(it.process for it in running))
        self._running = [it for it in self._running if it not in running]
        ended = [lane for lane in self._waiting if lane.inputs]
        for it in running:
            cases = self._cases(it.name)
            if any(case.outcome == "failed" for case in cases):
                took_s = time.monotonic() - it.began_s
                self.outcomes.append(Outcome(it.lane, 1, took_s, 0, cases))
                say(it.log.read_text(errors="replace"))
            else:
                ended.append(it.lane)
        for lane in ended:
            self._leave_out(lane, _PROVEN if lane.name in proven else _NO_TIME)

    def _cases(self, name: str) -> tuple[Case, ...]:
        files = [*self.folder.glob(f"{name}.xml"), *self.folder.glob(f"{name}.*.xml")]
        return read_cases(sorted(files))

    def try_again(self) -> None:
        """Tries what failed once more, lane by lane, with nothing beside it, if there is time."""
        if self.cut_off:
            return
        self._proven = None  # a second try of a lane with inputs has all the time that is left
        for number, first in enumerate(self.outcomes):
            tests = first.to_try_again
            if not tests:
                continue
            self._start(first.lane, tests)
            self.until_all_are_over()
            if self.cut_off:
                return
            second = self.outcomes.pop()
            if second.code == 0 and second.count("passed") >= len(tests):
                cases = [case for case in first.cases if case.outcome != "failed"]
                cases += [case for case in second.cases if case.outcome == "passed"]
                first = replace(first, code=0, cases=tuple(cases), unsteady=tuple(tests))
                self.outcomes[number] = first

    def _begin(self) -> None:
        for lane in list(self._waiting):
            build = self._builds.get(lane.name)
            if build and (step := build.next(self._spent_s())) is not Next.BEGIN:
                self._hold(lane, build, step)
                continue
            used = sum(running.lane.load for running in self._running)
            if not self._running or used + lane.load <= self._room:
                self._waiting.remove(lane)
                self._start(lane)

    def _spent_s(self) -> float:
        return time.monotonic() - self._began_s

    def _hold(self, lane: Lane, build: Build, step: Next) -> None:
        """Does what follows where what a lane needs is not there; a lane for which it cannot be had waits no longer."""
        match step:
            case Next.BUILD_AGAIN:
                why = build.last_line
                say(f"== {lane.name}: what it needs was not built, and is once more: {why}")
                build.start_again()
            case Next.LEAVE_OUT:
                self._leave_out(lane, build.last_line)
            case Next.GIVE_UP:
                late = f"what it needs was not built after {builds.BUILT_S / 60:.0f} minutes"
                self._leave_out(lane, f"{late} ({build.last_line})")
            case Next.FAIL:
                say(f"== {lane.name}: what it needs was not built")
                say(build.text)
                self.outcomes.append(Outcome(lane, build.code, self._spent_s(), 0, ()))
                self._waiting.remove(lane)

    def _leave_out(self, lane: Lane, why: str) -> None:
        say(f"== left out: {lane.name}, because {why}")
        self.not_tried.append((lane, why))
        if lane in self._waiting:
            self._waiting.remove(lane)
        if build := self._builds.pop(lane.name, None):
            build.stop()

    def _start(self, lane: Lane, tests: Sequence[str] = ()) -> None:
        is_beside = bool(self._running or self._waiting)
        name = f"{lane.name}-again" if tests else lane.name
        log = self.folder / f"{name}.log"
        results = {"HOMEPORT_RESULTS": str(self.folder / name)}
        say(f"== {name}: {', '.join(tests) or lane.title}")
        with log.open("wb") as output:
            process = children.start(
                [*lane.program, *self._arguments(lane, name, tests)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={
                    **(lane.beside if is_beside else {}),
                    **os.environ,
                    **results,
                    servers.OF_LANE: " ".join(sorted(lane.packages)),
                },
            )
        self._running.append(Running(lane, process, log, name))

    def _arguments(self, lane: Lane, name: str, tests: Sequence[str]) -> list[str]:
        if not lane.is_pytest:
            return [*lane.arguments, *(f"--test={test}" for test in tests)]
        kept = [f"--junitxml={self.folder / name}.xml", f"--durations={SLOWEST}"]
        return [*only(lane.arguments, tests), *kept, *self._to_pytest]

    def _reap(self, running: Running) -> None:
        pid, status, used = os.wait4(running.process.pid, os.WNOHANG)
        if not pid:
            return
        code = running.process.returncode = os.waitstatus_to_exitcode(status)
        self._running.remove(running)
        if code == 5 and self._to_pytest:  # no test of this lane was chosen
            code = 0
        took_s = time.monotonic() - running.began_s
        name = running.name
        if code == LEFT_OUT and name == running.lane.name:
            self._leave_out(running.lane, last_line(running.log))
            return
        used_s = used.ru_utime + used.ru_stime
        outcome = Outcome(running.lane, code, took_s, used_s, self._cases(name))
        self.outcomes.append(outcome)
        self._keep_slowest(outcome)
        say(f"== {line_of(outcome)}")
        if code:
            say(running.log.read_text(errors="replace"))

    def _keep_slowest(self, outcome: Outcome) -> None:
        slowest = sorted(outcome.cases, key=lambda case: -case.took_s)[:SLOWEST]
        text = "".join(f"{case.took_s:8.2f}  {case.name}\n" for case in slowest)
        (self.folder / f"{outcome.lane.name}.slowest").write_text(text)

    def stop(self) -> None:
        """End what runs, with all that it started."""
        for build in self._builds.values():
            build.stop()
        children.stop(*(running.process for running in self._running))


def only(arguments: Sequence[str], tests: Sequence[str]) -> list[str]:
    """Words for pytest with these tests in place of its files; as they are without tests."""
    if not tests:
        return list(arguments)
    files = (*FILES, "--ignore=", "--deselect=")
    return [*(word for word in arguments if not word.startswith(files)), *tests]


def new_folder() -> Path:
    """A folder for what is kept of this run; old ones go."""
    results = Path(os.environ.get("TEST_RESULTS") or ROOT / "var" / "test-results")
    results.mkdir(parents=True, exist_ok=True)
    made = sorted(path for path in results.iterdir() if path.is_dir() and not path.is_symlink())
    for old in made[: -KEPT_RUNS + 1]:
        shutil.rmtree(old, ignore_errors=True)
    folder = results / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}"
    folder.mkdir()
    return folder


def keep_sizes(folder: Path) -> None:
    """How long files and folders are."""
    counted = sizes.measured()
    for name, shown in (("folders", sizes.by_folder(counted)), ("files", counted)):
        text = "\n".join(sizes.table(shown))
        (folder / f"sizes-{name}.txt").write_text(text + "\n")


def share_images() -> None:
    """What a cluster of one lane has installed all others have; packages come from the person's own
    cache.
    """
    os.environ.setdefault("ONEBOX_IMAGES_DIR", str(ROOT / "var" / "test-images"))
    if "UV_CACHE_DIR" not in os.environ:
        said = subprocess.run(
            [sys.executable, "-m", "uv", "cache", "dir"], capture_output=True, text=True, check=True
        )
        os.environ["UV_CACHE_DIR"] = said.stdout.strip()


def left_out(chosen: list[Lane]) -> list[tuple[str, list[Lane]]]:
    """What is missing here, with the lanes that need it; those are taken out of `chosen`."""
    if any(needs_browser(lane) for lane in chosen):
        browsers.ensure(say)
    without: dict[str, list[Lane]] = {}
    for lane in list(chosen):
        reasons = [reason for need in lane.needs if (reason := _missing(need))]
        for reason in reasons[:1]:
            without.setdefault(reason, []).append(lane)
            chosen.remove(lane)
    return list(without.items())


def _missing(need: Need) -> str:
    try:
        need()
    except NeedError as error:
        return str(error)
    return ""


def summary(run: Run, without: Sequence[tuple[str, list[Lane]]], *, is_ci: bool) -> int:
    """Prints what is to be known at the end; the exit code."""
    say("")
    for outcome in run.outcomes:
        say(line_of(outcome))
    for outcome in run.outcomes:
        if outcome.took_s > outcome.lane.goal_s:
            over = f"{outcome.took_s:.0f} s of {outcome.lane.goal_s} s"
            say(f"over its goal: {outcome.lane.name}, {over}")
        reasons = Counter(case.why for case in outcome.cases if case.outcome == "skipped")
        for reason, count in reasons.items():
            why = (reason.splitlines() or ["nobody says why"])[0]
            say(f"skipped in {outcome.lane.name}: {count}, because {why}")
        for test in outcome.unsteady:
            say(f"unsteady: {test} failed beside other lanes and passed alone")
    failed = sum(outcome.failed for outcome in run.outcomes)
    for reason, missed in without:
        names = ", ".join(lane.name for lane in missed)
        say(f"left out: {names}, because {reason}")
        # A machine that proves the project must have all that the proof needs.
        failed += len(missed) if is_ci else 0
    if run.cut_off:
        say(f"did not run to the end, because the time was over: {', '.join(run.cut_off)}")
        failed += len(run.cut_off)
    say(f"Logs, JUnit files and the slowest tests: {run.folder}")
    more = "".join(
        f"; {lane.name} was left out, which is not a failure: {why}" for lane, why in run.not_tried
    )
    say(f"{sum(outcome.passed for outcome in run.outcomes)} passed, {failed} failed{more}")
    return int(failed > 0)


def main() -> int:
    """Exit code 0 only when every lane passed; all of them run."""
    parser = argparse.ArgumentParser(prog="python -m tests.run", allow_abbrev=False)
    parser.add_argument("command", nargs="?", default="test", choices=list(lanes.COMMANDS))
    names = [lane.name for lane in lanes.LANES]
    parser.add_argument("--only", action="append", choices=names, metavar="LANE")
    parser.add_argument(
        "--spent-s", type=float, default=0, help="before this began, on the same run"
    )
    given, to_pytest = parser.parse_known_args()
    began_s = time.monotonic() - given.spent_s
    children.raise_when_asked()
    chosen = [lane for lane in lanes.lanes_of(given.command) if lane.name in (given.only or names)]
    share_images()
    without = left_out(chosen)
    for reason, missed in without:
        say(f"== left out: {', '.join(lane.name for lane in missed)}, because {reason}")
    proven: set[str] | None = None
    if given.command == "ci":
        proven = found = due.proven(chosen)
        chosen.sort(key=lambda lane: (bool(lane.inputs), lane.name in found))
    folder = new_folder()
    if given.command != "test":
        keep_sizes(folder)
    ends_s = began_s + ENDS_S.get(given.command, math.inf)
    run = Run(chosen, folder, to_pytest, began_s=began_s, ends_s=ends_s, proven=proven)
    try:
        run.until_all_are_over()
        run.try_again()
    except KeyboardInterrupt:
        run.stop()
        return children.INTERRUPTED
    except BrokenPipeError:
        run.stop()
        return children.LOST_READER
    if given.command in {"test-all", "ci"} and not to_pytest:
        due.keep(outcome.lane for outcome in run.outcomes if outcome.is_whole)
    return summary(run, without, is_ci=bool(os.environ.get("CI")))


if __name__ == "__main__":
    raise SystemExit(main())
