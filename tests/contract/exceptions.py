"""Where onebox may differ from upstream: each place with a reason and what a user sees.

`exceptions.toml` has three lists. `[[exception]]` is meant to stay. `[[gap]]` is known and to be
mended; it counts as different in the report. An exception that excuses nothing any more is a failure.
`[[node]]` is how pods live otherwise than under a kubelet: the same node half runs them on both
clusters, so no comparison tells; the tests that it names do.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tests.contract.compare import Difference

FILE = Path(__file__).with_name("exceptions.toml")


@dataclass(frozen=True)
class Excuse:
    """One line of the file.

    Attributes:
        sentence: what a user of onebox sees because of it.
        places: "TRANSCRIPT PATH", both with `*`: where the difference may be.
        tests: behaviours that do not hold on onebox, by the name of their test.
        is_gap: it is to be mended.
    """

    id: str
    reason: str
    sentence: str
    places: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    is_gap: bool = False

    def place_of(self, transcript: str, path: str) -> str:
        """The place that covers a path of a transcript; empty: none does."""
        for place in self.places:
            wanted, _, inner = place.partition(" ")
            if fnmatchcase(transcript, wanted) and fnmatchcase(path, inner or "*"):
                return place
        return ""


def load() -> list[Excuse]:
    """Every line of the file."""
    content = tomllib.loads(FILE.read_text())
    return [
        Excuse(
            found["id"],
            found["reason"],
            found["sentence"],
            tuple(found.get("places", ())),
            tuple(found.get("tests", ())),
            is_gap=sort == "gap",
        )
        for sort in ("exception", "gap")
        for found in content.get(sort, ())
    ]


def of_the_node() -> list[Excuse]:
    """Where the node half differs from a kubelet."""
    return [
        Excuse(found["id"], found["reason"], found["sentence"], tests=tuple(found["tests"]))
        for found in tomllib.loads(FILE.read_text())["node"]
    ]


@dataclass(frozen=True)
class Judgement:
    """What is left of the differences of one transcript.

    Attributes:
        used: (id, place) of each line that excused something.
    """

    failures: list[Difference]
    used: set[tuple[str, str]]


def judge(transcript: str, found: Iterable[Difference], excuses: Iterable[Excuse]) -> Judgement:
    """Sort out which differences are excused."""
    excuses = list(excuses)
    failures: list[Difference] = []
    used: set[tuple[str, str]] = set()
    for difference in found:
        matching = [
            (excuse.id, place)
            for excuse in excuses
            if (place := excuse.place_of(transcript, difference.path))
        ]
        used.update(matching)
        if not matching:
            failures.append(difference)
    return Judgement(failures, used)
