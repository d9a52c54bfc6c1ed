"""What a measurement found: both sides of each repeat, the goal, and whether the run counts."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

VOID_SPREAD = 2.0  # the other side alone differs more than this from its own median


@dataclass(frozen=True)
class Goal:
    """`at_most` or `at_least` a limit; a hard one fails the whole run."""

    limit: float
    at_least: bool = False
    hard: bool = False

    def is_met(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {figure(self.limit)}"


def at_most(limit: float) -> Goal:
    return Goal(limit)


def at_least(limit: float) -> Goal:
    return Goal(limit, at_least=True)


def exactly_none() -> Goal:
    """A hard gate: not even one."""
    return Goal(0, hard=True)


@dataclass(frozen=True)
class Result:
    """One line of the table.

    Attributes:
        row: as performance.md numbers them: `M1`.
        what: a few words.
        value: the ratio, or the figure itself where there is no other side.
        goal: None: a figure to know, without one.
        unit: behind the value; empty for a ratio.
        sides: both sides in words, for who wants to know what the ratio is made of.
        void: why this figure says nothing; empty when it does.
    """

    row: str
    what: str
    value: float
    goal: Goal | None
    unit: str = ""
    sides: str = ""
    void: str = ""

    @property
    def is_met(self) -> bool:
        return self.goal is None or self.goal.is_met(self.value)

    @property
    def verdict(self) -> str:
        if self.void and not self.is_gate:
            return "void"
        if self.goal is None:
            return ""
        if self.is_met:
            return "met"
        return "FAILED" if self.is_gate else "missed"

    @property
    def is_gate(self) -> bool:
        return self.goal is not None and self.goal.hard

    @property
    def fails_the_run(self) -> bool:
        return self.is_gate and not self.is_met

    def on(self, cluster: str) -> "Result":
        """The same, said to be of real pods on this cluster."""
        return replace(self, what=f"{self.what}, real pods on {cluster}")


@dataclass
class Sides:
    """The same measure of both sides, repeat by repeat, ours and theirs taken in turn."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    def add(self, ours: float, theirs: float) -> None:
        self.ours.append(ours)
        self.theirs.append(theirs)

    @property
    def ratio(self) -> float:
        """Median of the repeats' own ratios: what loads the machine loads both sides of one."""
        pairs = zip(self.ours, self.theirs, strict=True)
        return statistics.median(one / other if other else float("inf") for one, other in pairs)

    @property
    def void(self) -> str:
        """In words, when the side that never changes did not hold still."""
        return void_because(self.theirs)

    def result(self, row: str, what: str, goal: Goal | None, unit: str, other: str) -> Result:
        """The line of their ratio; `unit` is that of both, `other` names the other side."""
        sides = self.words(unit, other)
        return Result(row, what, self.ratio, goal, sides=sides, void=self.void)

    def words(self, unit: str, other: str, scale: float = 1.0) -> str:
        mine, its = statistics.median(self.ours) * scale, statistics.median(self.theirs) * scale
        return f"{figure(mine)} {unit} to {other}'s {figure(its)}"


def void_because(values: Sequence[float]) -> str:
    """Why repeats of one thing that does not change cannot be trusted; empty when they can."""
    if not values:
        return "nothing was measured"
    middle = statistics.median(values)
    for value in values:
        if value <= 0 or middle <= 0 or max(value / middle, middle / value) > VOID_SPREAD:
            return (
                f"the other side alone gave {figure(value)} in one repeat and "
                f"{figure(middle)} in the middle: the machine was too restless"
            )
    return ""


def figure(value: float) -> str:
    """A number as short as it can be read."""
    if value == float("inf"):
        return "endless"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.2g}" if abs(value) < 0.1 else f"{value:.2f}"


HEAD = "| row | what | measured | goal | verdict | both sides |\n|---|---|---|---|---|---|"


def line_of(result: Result) -> str:
    """One row of a Markdown table."""
    value = f"{figure(result.value)} {result.unit}".strip()
    goal = "" if result.goal is None else str(result.goal)
    cells = [result.row, result.what, value, goal, result.verdict, result.sides]
    return f"| {' | '.join(cells)} |"


def summary(results: Sequence[Result]) -> str:
    """What the run comes to, in sentences."""
    failed = [result.row for result in results if result.fails_the_run]
    void = [result for result in results if result.verdict == "void"]
    missed = [result.row for result in results if result.verdict == "missed"]
    words = [f"{len(results)} figures, {sum(r.verdict == 'met' for r in results)} goals met."]
    if missed:
        words.append(f"Missed: {', '.join(dict.fromkeys(missed))}.")
    words += [f"{result.row} ({result.what}) is void: {result.void}." for result in void]
    if failed:
        words.append(f"A hard gate FAILED: {', '.join(dict.fromkeys(failed))}.")
    return "\n".join(words)
