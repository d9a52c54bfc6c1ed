"""`python -m tests.contract.report`: in how far onebox behaves as upstream does.

Compares the results of the last run of `python -m pytest tests/contract` on each side. The exit code
is 0 when every behaviour without an exception is the same on both. With `--given`, upstream is a
cluster that somebody gave, and what a test skipped there with a reason is told and no fault: it may
compact once in five minutes, or have no node.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from dataclasses import dataclass

from tests.contract import exceptions, results
from tests.contract.results import Behaviour, Results

_WIDTH = 110


@dataclass(frozen=True)
class Parity:
    """Names of behaviours, sorted into five.

    Attributes:
        excepted: differ where `exceptions.toml` says that they may.
        skipped: a given cluster cannot be asked, and the test says why.
        untried: were run on one side only, or skipped there.
    """

    same: list[str]
    excepted: list[str]
    skipped: list[str]
    different: list[str]
    untried: list[str]

    @property
    def percent(self) -> float:
        """Of the behaviours that no exception is for and that can be tried, how many are the same."""
        of = len(self.same) + len(self.different) + len(self.untried)
        return 100 * len(self.same) / of if of else 0.0


def parity(onebox: Results, upstream: Results, *, is_given: bool = False) -> Parity:
    """Compare two runs.

    Args:
        is_given: upstream is not a cluster of our own making.
    """
    found = Parity([], [], [], [], [])
    gaps = {excuse.id for excuse in exceptions.load() if excuse.is_gap}
    for name in sorted(onebox.behaviours.keys() | upstream.behaviours.keys()):
        pair = (onebox.behaviours.get(name), upstream.behaviours.get(name))
        _sort_of(pair, gaps, found, is_given).append(name)
    return found


def _sort_of(
    pair: tuple[Behaviour | None, Behaviour | None], gaps: set[str], found: Parity, is_given: bool
) -> list[str]:
    here, there = pair
    if is_given and _outcome(here) == "passed" and _outcome(there) == "skipped":
        return found.skipped if there and there.why else found.untried
    if here is None or there is None or "skipped" in (here.outcome, there.outcome):
        return found.untried
    if here.outcome != "passed" or there.outcome != "passed" or gaps & set(here.excuses):
        return found.different
    return found.excepted if here.excuses else found.same


def _outcome(found: Behaviour | None) -> str:
    return found.outcome if found else ""


def text(*, is_given: bool = False) -> tuple[str, bool]:
    """The report, and whether parity is whole."""
    both = {side: results.load(side) for side in ("onebox", "upstream")}
    missing = [side for side, found in both.items() if found is None]
    if missing:
        sides = " and ".join(missing)
        return f"No results of {sides} for what is here now: run the contract there first.", False
    onebox, upstream = both["onebox"], both["upstream"]
    assert onebox is not None
    assert upstream is not None
    found = parity(onebox, upstream, is_given=is_given)
    excuses = [excuse for excuse in exceptions.load() if not excuse.is_gap]
    gaps = [excuse for excuse in exceptions.load() if excuse.is_gap]
    total = len(onebox.behaviours.keys() | upstream.behaviours.keys())
    lines = [
        f"Parity of onebox ({onebox.version}) with upstream Kubernetes ({upstream.version})",
        "",
        f"  behaviours tried                {total:4}",
        f"  the same on both                {len(found.same):4}",
        f"  the same but for an exception   {len(found.excepted):4}",
        *([f"  skipped on the given cluster    {len(found.skipped):4}"] if found.skipped else []),
        f"  different                       {len(found.different):4}",
        f"  not tried on both               {len(found.untried):4}",
        f"  parity                          {found.percent:6.1f} %",
        "",
    ]
    listed_names = (
        ("Different", found.different),
        ("Not tried", found.untried),
        ("Skipped", found.skipped),
    )
    for title, names in listed_names:
        if names:
            lines += [f"{title}:", *(_why(name, onebox, upstream) for name in names), ""]
    node = "Not compared, as onebox's node half runs the pods of both; it differs from a kubelet"
    for title, listed in (
        ("Exceptions", excuses),
        ("Gaps", gaps),
        (node, exceptions.of_the_node()),
    ):
        if listed:
            lines.append(f"{title} ({len(listed)}):")
            for excuse in listed:
                lines += _wrapped(f"- {excuse.id}: {excuse.sentence} ({excuse.reason})")
            lines.append("")
    return "\n".join(lines).rstrip(), not found.different and not found.untried


def _wrapped(line: str) -> list[str]:
    return textwrap.wrap(line, _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _why(name: str, onebox: Results, upstream: Results) -> str:
    parts = []
    for side, run in (("onebox", onebox), ("upstream", upstream)):
        found = run.behaviours.get(name)
        parts.append(f"{side} {'not run' if found is None else found.outcome}")
        if found is not None and found.excuses:
            parts[-1] += f" ({', '.join(found.excuses)})"
        if found is not None and found.outcome == "skipped":
            parts[-1] += f" ({found.why})"
    return f"  - {name}: {', '.join(parts)}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.contract.report", description=__doc__)
    parser.add_argument("--given", action="store_true", help="skips with a reason are no fault")
    content, is_whole = text(is_given=parser.parse_args().given)
    print(content)
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
