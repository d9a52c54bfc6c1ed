"""What a lane of the tests is, what of a machine one may need, and which test files its words name.

The lanes themselves are rows in `tests/lanes.py`.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.tools import browsers, servers

TESTS = Path(__file__).parent
FILES = ("tests/", "deploy/onebox/tests/")  # so begins a word of a lane that names tests

PYTHON = (sys.executable, "-m")
QUIET = ("-q", "-p", "no:cacheprovider")

# Exit code of a lane that cannot be had on this machine; the last line of its log says why.
LEFT_OUT = 77


class NeedError(Exception):
    """A program that a lane needs is not here; the text says what to do."""


def browser() -> None:
    if browsers.find() is None:
        raise NeedError(browsers.NONE)


def database_servers() -> None:
    try:
        servers.postgres_program("postgres")
        servers.find_program("redis-server", "redis-server")
    except servers.NoServerError as error:
        raise NeedError(str(error)) from error


def s3_server() -> None:
    try:
        if servers.needs_go():
            servers.go_for_s3()
    except servers.NoServerError as error:
        raise NeedError(str(error)) from error


Need = Callable[[], None]
# Need -> the packages that have it, by their names in Debian; `go` is fetched where it is not there.
PACKAGES: Mapping[Need, tuple[str, ...]] = {
    browser: (),  # is asked for once, before all lanes
    database_servers: ("postgresql", "redis-server"),
    s3_server: ("go",),
}


@dataclass(frozen=True)
class Lane:
    """One process of tests, with a log and results of its own.

    Attributes:
        name: of its files among the results.
        arguments: for the program.
        command: `make test`, `make test-all`, `make test-image` (`image`), `make test-node` (`node`) or, for
            `.ci/run` alone, `ci`.
        goal_s: more than that is said at the end, and is no failure.
        load: processors that it keeps busy with all its children, at the busiest.
        needs: what has to be on this machine; else the lane is left out.
        uses: packages of which single tests start a program, besides; else these tests are left out. A test that starts
            one of another package fails (`servers.check_named`).
        program: what `arguments` are for; pytest unless it is said otherwise.
        is_pytest: it takes pytest's words.
        has_results: it writes JUnit files.
        beside: added to its environment, where it is not set there, beside other lanes.
        inputs: files and folders that decide how it ends. A lane with inputs comes after those without in `.ci/run`,
            last if it has passed with the same inputs (tests/due.py), and is left out where there is no time for it.
        prepared_by: a command that builds what it needs, from the first moment on, beside all lanes and giving way to
            them. The lane begins when that has ended well. It is left out, with the reason and without being a failure,
            where that takes too long, or where that or the lane itself ends with `LEFT_OUT`.
    """

    name: str
    title: str
    arguments: tuple[str, ...]
    command: str
    goal_s: int
    load: float = 1
    needs: tuple[Need, ...] = ()
    uses: tuple[str, ...] = ()
    program: tuple[str, ...] = (*PYTHON, "pytest", *QUIET)
    is_pytest: bool = True
    has_results: bool = True
    beside: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    prepared_by: tuple[str, ...] = ()

    @property
    def packages(self) -> frozenset[str]:
        """All that its tests may start a program of."""
        return frozenset(self.uses).union(*(PACKAGES[need] for need in self.needs))


def needs_browser(lane: Lane) -> bool:
    return browser in lane.needs


def files_below(word: str) -> set[str]:
    """The test files of a file or folder, given as on the command line."""
    path = TESTS.parent / word.partition("::")[0]
    given = path.rglob("test_*.py") if path.is_dir() else [path]
    return {str(file.relative_to(TESTS.parent)) for file in given}


def files_of(lane: Lane) -> set[str]:
    """The test files that a lane's words name."""
    words = lane.arguments
    left_out = {w.partition("=")[2] for w in words if w.startswith("--ignore=")}
    found = set()
    for word in words:
        if word.startswith(FILES):
            found |= files_below(word)
    return found - left_out
