"""What became of a lane: its tests, as its JUnit files tell of them, and how it ended."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lane import Lane

ROOT = Path(__file__).resolve().parents[1]
# Of one lane; more than that are no accident.
TRIED_AGAIN = 6


@dataclass(frozen=True)
class Case:
    """One test of a JUnit file."""

    name: str
    took_s: float
    outcome: str  # passed, failed or skipped
    why: str = ""  # skipped

    @property
    def node_id(self) -> str:
        """As pytest takes it; the module for what failed before there was a test."""
        module, _, name = self.name.rpartition("::")
        path = module.replace(".", "/") + ".py"
        return f"{path}::{name}" if module and (ROOT / path).exists() else ""


@dataclass(frozen=True)
class Outcome:
    """How a lane ended.

    Attributes:
        cpu_s: processor seconds of the lane and of what it waited for.
        unsteady: the tests that failed beside other lanes and passed alone.
    """

    lane: Lane
    code: int
    took_s: float
    cpu_s: float
    cases: tuple[Case, ...]
    unsteady: tuple[str, ...] = ()

    def count(self, outcome: str) -> int:
        return sum(case.outcome == outcome for case in self.cases)

    @property
    def failed(self) -> int:
        """Failures; a lane that did not end well without one counts as one."""
        return self.count("failed") or int(self.code != 0)

    @property
    def passed(self) -> int:
        """Tests that passed; a lane that passed and has no tests to tell of is one."""
        return self.count("passed") if self.lane.has_results else int(self.code == 0)

    @property
    def is_whole(self) -> bool:
        """Every test passed, and none at its second try."""
        return self.code == 0 and not self.failed and not self.unsteady

    @property
    def to_try_again(self) -> list[str]:
        """The few tests that failed, where nothing else of the lane did."""
        failed = {case.node_id for case in self.cases if case.outcome == "failed"}
        is_all = self.code == 1 and "" not in failed
        return sorted(failed) if is_all and len(failed) <= TRIED_AGAIN else []


def read_cases(paths: Sequence[Path]) -> tuple[Case, ...]:
    """The tests of JUnit files; what cannot be read was never finished and counts for nothing."""
    found = []
    for path in paths:
        try:
            document = ET.parse(path)
        except ET.ParseError:
            continue
        for case in document.iter("testcase"):
            told = {child.tag for child in case}
            outcome, why = "passed", ""
            if told & {"failure", "error"}:
                outcome = "failed"
            elif "skipped" in told:
                outcome = "skipped"
                why = " ".join(child.get("message", "") for child in case.iter("skipped"))
            name = "::".join((case.get("classname", ""), case.get("name", "")))
            found.append(Case(name, float(case.get("time", 0)), outcome, why))
    return tuple(found)


def line_of(outcome: Outcome) -> str:
    counts = [f"{outcome.passed} passed"]
    for name in ("failed", "skipped"):
        if outcome.count(name):
            counts.append(f"{outcome.count(name)} {name}")
    ended = "" if outcome.code == 0 else f", exit {outcome.code}"
    took = f"{outcome.took_s:.0f} s, {outcome.cpu_s:.0f} s of processor"
    return f"{outcome.lane.name}: {', '.join(counts)}{ended} after {took}"
