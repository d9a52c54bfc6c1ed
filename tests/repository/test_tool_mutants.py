"""What the tool that plants faults changes, what it draws, and which of them it says are found."""

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests import mutants
from tests.tools import copies, mutations, readers
from tests.tools.mutations import mutants_of

PROGRAM = b'''"""What it is for."""

log = logger()


@dataclass(frozen=True)
class Room:
    size: "int" = 3


def fits(room, count: "Literal['x']") -> bool:
    """More than 1."""
    if room is None or not (count <= room.size + 1):
        log.info("key")
        raise Full(room, count, why=_("a key"), kind="full", text=f"{count + 1}")
    room.taken += count
    return (
        count
        in ROOMS["small"]
    )
'''
TEST = "if room is None or not (count <= room.size + 1):"
RAISE = 'raise Full(room, count, why=_("a key"), kind="full", text=f"{count + 1}")'
CHANGES = {
    (8, "constant changed", 'size: "int" = 4'),
    (13, "condition negated", f"if not ({TEST[3:-1]}):"),
    (13, "and/or swapped", TEST.replace("or", "and")),
    (13, "comparison changed", TEST.replace("is", "is not")),
    (13, "comparison changed", TEST.replace("<=", ">")),
    (13, "boundary moved", TEST.replace("<=", "<")),
    (13, "arithmetic changed", TEST.replace("+", "-")),
    (13, "constant changed", TEST.replace("1", "2")),
    (15, "statement removed", "pass"),
    (15, "argument dropped", RAISE.replace(', why=_("a key")', "")),
    (15, "argument dropped", RAISE.replace(', kind="full"', "")),
    (15, "argument dropped", RAISE.replace(', text=f"{count + 1}"', "")),
    (15, "arguments swapped", RAISE.replace("room, count", "count, room")),
    (15, "constant changed", RAISE.replace("full", "fullX")),
    (16, "arithmetic changed", "room.taken -= count"),
    (16, "statement removed", "pass"),
    (18, "return value changed", 'not (count in ROOMS["small"])'),
    (19, "comparison changed", 'not in ROOMS["small"]'),
    (19, "constant changed", 'in ROOMS["smallX"]'),
}


def test_operators_change_one_thing_each_and_leave_alone_what_no_test_should_notice():
    found = mutants_of("room.py", PROGRAM)
    assert {(each.line, each.operator, each.shown(PROGRAM)[1]) for each in found} == CHANGES
    assert len(found) == len(CHANGES)
    assert all(each.is_program(PROGRAM) for each in found)
    broken = next(each for each in mutants_of("a.py", b"act(\n    a=1,\n)") if not each.text)
    assert not broken.is_program(b"act(\n    a=1,\n)")


def test_a_draw_is_even_over_lines_the_same_again_and_another_for_another_commit():
    lines = b"".join(b"if a < %d and b: act(c=1, d=2)\n" % n for n in range(100))
    sources = {"a.py": lines, "b.py": b"x = 1\n" + lines}
    reached = {"a.py": set(range(11, 101)), "b.py": {1}}
    drawn = mutants.draw(sources, reached, 70, "0d1432e")
    assert drawn == mutants.draw(dict(reversed(sources.items())), reached, 70, "0d1432e")
    assert len({(each.path, each.line) for each in drawn}) == 70
    assert min(each.line for each in drawn if each.path == "a.py") > 10
    # Seven operators know each line, and some of them more than one change.
    counts = Counter(each.operator for each in drawn)
    assert len(counts) == 7
    assert all(2 <= count <= 20 for count in counts.values()), counts
    assert not {*drawn} >= {*mutants.draw(sources, reached, 30, "another")}
    assert len(mutants.draw(sources, reached, 999, "0d1432e")) == 91


READ = {
    "jobs/a.py": b"""
from functools import partial
SMALL, LARGE = 1, 2
SIZES = [size for size in (SMALL,)]

def small(size):
    return size + SMALL

class Room(Base):
    width: Large = LARGE
    height = field("high", default=3)

    def area(self):
        return 1
""",
    "portal/b.py": b"""
from jobs import a
from other import SMALL, height

def sizes(width=a.SIZES):
    def inner(room: a.Room):
        return 1
    return inner

def grown(room):
    return room.height
""",
    "tests/test_a.py": b"def test_sizes():\n    assert small(1) == 2\n",
}


@pytest.mark.parametrize(
    ("line", "functions"),
    [
        (3, {("jobs/a.py", 7), ("jobs/a.py", 14)}),
        (7, {("tests/test_a.py", 2)}),
        (11, {("jobs/a.py", 14), ("portal/b.py", 11)}),
    ],
    ids=["constant", "function that is called while modules are imported", "field"],
)
def test_who_reads_what_a_module_makes_is_known_by_names(
    line: int, functions: set[tuple[str, int]]
):
    parts = {path: readers.parts_of(source) for path, source in READ.items()}
    found = readers.readers(parts, "jobs/a.py", line)
    assert {(path, first) for path, spans in found.items() for first, _ in spans} == functions


FITS = """SMALL = 3 <= 3
def fits(count):
    if count < 0:
        count = 0
    return count < 3


def never_run(count):
    return count < 4
"""
# The first is unsteady: it fails the second time that it runs.
TEST_FITS = """from pathlib import Path
from jobs.fits import SMALL, fits
def test_unsteady():
    fits(0)
    with Path("{times}").open("a+") as times:
        times.write("x")
    assert len(Path("{times}").read_text()) != 2
def test_fits():
    assert fits(-1) and fits(2) and not fits(3)
def test_small():
    assert SMALL
def test_fails_without_a_fault():
    assert fits(3)
"""
LANES = """from types import SimpleNamespace
LANES = [SimpleNamespace(name="unit")]
"""
LANE = """def files_of(lane):
    return {"tests/test_fits.py"}
"""


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A repository with one room, and one file of tests that run it."""
    folder = tmp_path / "checkout"
    files = {
        ".gitignore": "/.venv\n/var/\n",
        "pyproject.toml": "[tool.pytest.ini_options]\n",
        "jobs/fits.py": FITS,
        "tests/lane.py": LANE,
        "tests/lanes.py": LANES,
        "tests/test_fits.py": TEST_FITS.replace("{times}", str(tmp_path / "times")),
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / ".venv").symlink_to(sys.prefix)
    for words in (
        ("init", "--quiet"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all"),
    ):
        subprocess.run(("git", *words), cwd=folder, check=True)
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path))
    # It is quicker so; the seed is for a plugin.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(copies, "PYTEST", ("-p", "no:cacheprovider", "-p", "no:faulthandler"))
    monkeypatch.setattr(mutants, "ROOMS", {"fits": ("jobs", "jobs_later")})
    monkeypatch.setattr(mutants, "PER_ROOM", 3)
    boundary = {"boundary moved": mutations.OPERATORS["boundary moved"]}
    monkeypatch.setattr(mutations, "OPERATORS", boundary)
    return folder


def test_a_fault_is_found_one_that_changes_nothing_is_not_and_what_is_known_is_kept(
    checkout: Path, capsys: pytest.CaptureFixture[str]
):
    where = ("--checkout", str(checkout))
    with pytest.raises(SystemExit, match="not looked at 1 of"):
        mutants.main(["draw", *where])
    mutants.main(["reach", *where])
    mutants.main(["draw", *where])
    assert capsys.readouterr().out.count("not tried yet") == 3
    mutants.main(["run", *where, "--jobs", "1"])
    _, told, table = capsys.readouterr().out.partition("Faults drawn")
    assert table.partition("\n\n")[2] == (
        "## fits: 2 of 3 found\n\n"
        "1. jobs/fits.py:1 boundary moved\n"
        "    SMALL = 3 <= 3  ->  SMALL = 3 < 3\n"
        "    found by tests/test_fits.py::test_small\n"
        "2. jobs/fits.py:3 boundary moved\n"
        "    if count < 0:  ->  if count <= 0:\n"
        "    NOT FOUND by 2 tests\n"
        "3. jobs/fits.py:5 boundary moved\n"
        "    return count < 3  ->  return count <= 3\n"
        "    found by tests/test_fits.py::test_fits\n"
    )
    assert (checkout / "jobs" / "fits.py").read_text() == FITS
    mutants.main(["run", *where])  # everything has been tried
    assert capsys.readouterr().out == told + table


@pytest.mark.parametrize(
    "fault",
    [
        b"while True:\n    pass\n",
        b"import time\nSMALL = 1\ndef fits(count):\n    time.sleep(99)\n",
    ],
    ids=["busy", "waiting"],
)
def test_what_takes_too_long_is_found(
    monkeypatch: pytest.MonkeyPatch, checkout: Path, tmp_path: Path, fault: bytes
):
    monkeypatch.setattr(mutants, "MORE_S", 2.0)
    monkeypatch.setattr(mutants, "CLOCK_MORE_S", 20.0 if fault.startswith(b"while") else 4.0)
    copy = copies.Copy(tmp_path / "0", mutants.Kept(checkout))
    copy.write("jobs/fits.py", fault)
    tests = {"tests/test_fits.py::test_fits": copies.Test(0.0, 0.0, False, [])}
    found = asyncio.run(mutants.finding(copy, tests, tmp_path / "log"))
    assert (found.test, found.is_late) == ("tests/test_fits.py::test_fits", True)


def test_quick_tests_go_first_and_then_those_of_a_file_together():
    tests = {
        f"tests/{file}.py::test_{number}": copies.Test(took_s, took_s, False, [])
        for took_s, file, number in [
            (1, "a", 1),
            (3, "b", 1),
            (20, "a", 2),
            (50, "b", 2),
            (70, "a", 3),
        ]
    }
    assert [*mutants.processes_of(tests)] == [
        ["tests/a.py::test_1", "tests/b.py::test_1"],
        ["tests/a.py::test_2", "tests/a.py::test_3"],
        ["tests/b.py::test_2"],
    ]
