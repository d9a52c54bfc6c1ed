"""Every test file is in a lane, and what `make test` leaves out is there and has its seconds."""

import ast
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tests import builds, due, lanes, outcomes, run
from tests.lane import FILES, LEFT_OUT, Lane, files_below, files_of
from tests.lanes import LANES, LATER
from tests.outcomes import TRIED_AGAIN, Case, Outcome, read_cases

ROOT = Path(__file__).resolve().parents[2]


UNIT = next(lane for lane in LANES if lane.name == "unit")
# Rules, the engine's decisions, tenancy, who may call what, but for the waits of signing in.
DECISIVE = (
    "jobs/rules",
    "jobs/kinds",
    "jobs/engine/test_admission.py",
    "jobs/engine/test_lives.py",
    "jobs/engine/test_served_lives.py",
    "jobs/pod_api",
    "portal/routes/test_by_setting.py",
    "portal/routes/test_routes.py",
    "portal/routes/test_secrets.py",
    "portal/routes/test_sockets.py",
    "portal/server/test_doors.py",
    "tenants",
)
SIGNING_IN = {"tests/tenants/people/test_oidc.py", "tests/tenants/people/test_sign_in_limit.py"}


def test_every_test_file_is_in_a_lane():
    covered = set().union(*(files_of(lane) for lane in LANES))
    there = set().union(*map(files_below, FILES))
    assert covered == there


def test_tests_of_a_browser_lie_where_its_lanes_look():
    mark = "pytest.mark." + "e2e"
    marked = {
        file.relative_to(ROOT / "tests").parts[0]
        for file in (ROOT / "tests").rglob("test_*.py")
        if mark in file.read_text()
    }
    assert marked <= {"e2e", "nodes", lanes.UPGRADE, *lanes.OTHERS}


def test_what_make_test_leaves_out_is_there_slowest_first():
    for file in LATER:
        assert (ROOT / file).is_file(), file
        assert file.split("/")[1] in (*lanes.FOLDERS, lanes.UPGRADE), file
    assert list(LATER.values()) == sorted(LATER.values(), reverse=True)
    assert not files_of(UNIT) & set(LATER)


def test_what_decides_is_tried_by_every_make_test():
    decisive = set().union(*(files_below(f"tests/{place}") for place in DECISIVE))
    assert all((ROOT / file).is_file() for file in decisive)
    assert decisive - SIGNING_IN <= files_of(UNIT)


def test_the_short_part_of_the_nodes_is_a_part_of_it():
    [node] = lanes.lanes_of("node")
    [short] = [lane for lane in lanes.lanes_of("ci") if lane.prepared_by]
    assert set(lanes.SHORT_NODES) == files_of(short) < files_of(node)


def _takes(lane: Lane, mark: str) -> bool:
    """Whether a lane runs tests with this mark and no other; those of no mark are run as well."""
    words = lane.arguments
    expression = words[words.index("-m") + 1] if "-m" in words else ""
    return not expression or Expression.compile(expression).evaluate(
        lambda name, /, **_: name == mark
    )


@pytest.mark.parametrize(
    ("mark", "folder", "need", "others"),
    [
        ("s3", "tests/portal/storage", "s3_server", {"unit", "servers"}),
        ("postgresql", "tests/upgrade", "database_servers", {"unit", "later"}),
    ],
)
def test_what_needs_a_server_of_its_own_is_run_by_the_lane_alone_that_names_it(
    mark: str, folder: str, need: str, others: set[str]
) -> None:
    """A test that has the server in another lane fails (`servers.check_named`)."""
    there = files_below(folder)
    runs = [lane for lane in LANES if files_of(lane) & there]
    assert others < {lane.name for lane in runs}
    [by] = [lane for lane in runs if _takes(lane, mark)]
    assert files_of(by) == there
    assert [need.__name__ for need in by.needs] == [need]
    marked = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "tests").rglob("*.py")
        if f"pytest.mark.{mark}" in file.read_text() and file != Path(__file__)
    }
    assert marked
    assert all(name.startswith(f"{folder}/") for name in marked), marked


def test_make_test_needs_nothing_but_a_browser():
    assert not set().union(*(lane.packages for lane in lanes.lanes_of("test")))
    needs = {need.__name__ for lane in lanes.lanes_of("test") for need in lane.needs}
    assert needs == {"browser"}


STARTS = """import pytest
from tests.tools import kubeflow, servers
@pytest.mark.parametrize(("package", "start"), [
    ("redis-server", lambda folder: servers.redis(folder).__enter__()),
    ("postgresql", lambda folder: servers.postgres(folder).__enter__()),
    ("go", lambda folder: servers.s3(folder).__enter__()),
    ("go", lambda folder: kubeflow.source()),
    ("openssh-server", lambda folder: servers.find_program("sshd", "openssh-server")),
])
def test_starts(tmp_path, package, start):
    with pytest.raises(AssertionError, match=f"^{package} is not among what the lane needs"):
        start(tmp_path / "server")
def test_has_what_its_row_names():
    servers.find_program("sh", "a-shell")
"""


def test_a_test_fails_that_starts_a_program_which_its_lane_does_not_name(tmp_path: Path) -> None:
    """Also where it is installed."""
    file = tmp_path / "test_starts.py"
    file.write_text(STARTS)
    words = ("-p", "no:xdist", "-c", "/dev/null", "--rootdir", str(tmp_path), str(file))
    tried = run.Run([replace(UNIT, arguments=words, uses=("a-shell",))], tmp_path, [])
    tried.until_all_are_over()
    log = tmp_path / f"{UNIT.name}.log"
    assert [(one.passed, one.failed) for one in tried.outcomes] == [(6, 0)], log.read_text()


PROGRAM = re.compile(r'(?:find_program\([^)]*?"|check_named\(")([a-z-]+)"(?:, "/[^"]+")?\)')


def test_every_package_of_which_tests_start_a_program_is_in_a_row():
    named = set().union(*(lane.packages for lane in LANES))
    started = {
        package
        for file in (ROOT / "tests").rglob("*.py")
        if file != Path(__file__)
        for package in PROGRAM.findall(file.read_text())
    }
    assert started - {"postgresql"} == named - {"postgresql"}  # which has several programs
    assert "postgresql" in named


def test_names_of_lanes_are_theirs_alone():
    names = [lane.name for command in ("ci", "image", "node") for lane in lanes.lanes_of(command)]
    assert len(names) == len(set(names)) == len(LANES)


OURS = ("deploy", "jobs", "portal", "tenants", "tests")


def _imported(file: Path) -> Iterator[str]:
    """Files and packages of this project that a file imports, from its root on."""
    for node in ast.walk(ast.parse(file.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            path = Path(*name.split("."))
            if name.split(".")[0] in OURS and (ROOT / path).with_suffix(".py").is_file():
                yield str(path.with_suffix(".py"))
            elif name.split(".")[0] in OURS and (ROOT / path / "__init__.py").is_file():
                yield str(path / "__init__.py")


def _read_with(file: str, seen: set[str]) -> None:
    """Adds what a file of the tests imports, and what that imports below `tests` and `deploy`."""
    for found in _imported(ROOT / file):
        if found not in seen:
            seen.add(found)
            if found.startswith(FILES):
                _read_with(found, seen)


@pytest.mark.parametrize(
    "lane", [lane for lane in LANES if lane.inputs], ids=lambda lane: lane.name
)
def test_what_a_lane_imports_is_among_its_inputs(lane: Lane) -> None:
    """Of the product what is imported directly counts, as a whole."""
    read = files_of(lane) or {"tests/upstream/conftest.py", "tests/upstream/test_faults.py"}
    for file in sorted(read):
        _read_with(file, read)
    packages = {
        "jobs/__init__.py",
        "jobs/engine/__init__.py",
        "deploy/__init__.py",
        "portal/__init__.py",
    }
    missing = {
        file
        for file in read - packages
        if not any(file == i or file.startswith(f"{i}/") for i in lane.inputs)
    }
    assert not missing
    assert all((ROOT / path).exists() for path in lane.inputs)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for words in (["init", "-q"], ["config", "user.email", "a@b.c"], ["config", "user.name", "a"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    for name in "abc":
        (tmp_path / name).mkdir()
    return tmp_path


def test_a_lane_is_proven_until_its_inputs_or_its_words_change(repository: Path) -> None:
    those = [replace(UNIT, name=name, inputs=(name, "common")) for name in "abc"] + [UNIT]
    lock = repository / "lanes.lock"

    def commit(changed: str, text: str) -> set[str]:
        (repository / changed).write_text(text)
        subprocess.run(["git", "add", "-A"], cwd=repository, check=True)
        subprocess.run(["git", "commit", "-qm", "a change"], cwd=repository, check=True)
        return due.proven(those, repository, lock)

    assert commit("a/file", "0") == set()
    due.keep([*those[:2], UNIT], repository, lock)  # c has not passed
    assert commit("elsewhere", "1") == {"a", "b"}
    other = [replace(lane, arguments=("other",)) for lane in those]
    assert due.proven(other, repository, lock) == set()
    assert commit("a/file", "1") == {"b"}
    assert commit("a/file", "0") == {"a", "b"}, "as it was when it passed"
    assert commit("common", "1") == set()
    (repository / "b" / "file").write_text("not committed")
    due.keep(those, repository, lock)
    assert commit("elsewhere", "2") == set(), "what passed was no commit"
    assert due.proven(those, repository / "nowhere", lock) == set()


FAILS_AND_WAITS = """import time
def test_fails(): assert False
def test_waits(): time.sleep(600)
"""


def test_a_lane_with_inputs_is_cut_off_without_a_failure_and_not_what_failed_in_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()

    def spent_s(_run: run.Run) -> float:
        """The time is over when one test has failed and both lanes wait in their second."""
        logs = [kept / "waits.log", kept / "fails.log"]
        texts = [log.read_bytes() if log.exists() else b"" for log in logs]
        is_over = texts[0].endswith(b".") and texts[1].endswith(b"F")
        return run.INPUTS_END_S + 1 if is_over else 0

    monkeypatch.setattr(run.Run, "_spent_s", spent_s)
    waits, fails = tmp_path / "test_waits.py", tmp_path / "test_fails.py"
    waits.write_text(FAILS_AND_WAITS.replace("False", "True"))
    fails.write_text(FAILS_AND_WAITS)
    plain = ("-p", "no:xdist", "-c", "/dev/null", "--rootdir", str(tmp_path))
    those = [
        replace(UNIT, name=name, load=load, arguments=(*plain, str(file)), inputs=("docs",))
        for name, load, file in (("waits", 0.5, waits), ("fails", 0.5, fails), ("last", 99, waits))
    ]
    tried = run.Run(those, kept, [], proven={"last"})
    tried.until_all_are_over()
    left_out = {lane.name: why for lane, why in tried.not_tried}
    assert left_out.keys() == {"waits", "last"}
    assert "has not passed with these files yet" in left_out["waits"]
    assert "has passed with the same files before" in left_out["last"]
    assert [(outcome.lane.name, outcome.failed) for outcome in tried.outcomes] == [("fails", 1)]
    assert not tried.cut_off
    assert run.summary(tried, [], is_ci=True) == 1
    assert (
        "waits was left out, which is not a failure: there was no time" in capsys.readouterr().out
    )


JUNIT = """<testsuites><testsuite>
<testcase classname="a" name="passes" time="1.5"/>
<testcase classname="a" name="fails" time="0.1"><failure message="m">text</failure></testcase>
<testcase classname="a" name="has no fixture" time="0"><error message="m"/></testcase>
<testcase classname="a" name="is left out" time="0"><skipped message="m"/></testcase>
</testsuite></testsuites>"""


def test_a_lane_is_counted_from_its_junit_file(tmp_path: Path):
    file, cut = tmp_path / "whole.xml", tmp_path / "cut.xml"
    file.write_text(JUNIT)
    cut.write_text(JUNIT[:200])
    outcome = Outcome(UNIT, 1, 2.0, 1.0, read_cases([file, cut]))
    assert (outcome.passed, outcome.failed, outcome.count("skipped")) == (1, 2, 1)


def test_what_was_skipped_and_what_took_too_long_is_said_and_is_no_failure(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    finished = run.Run([], tmp_path, [])
    cases = (Case("a", 1.0, "passed"), Case("b", 0.0, "skipped", "redis is not there"))
    finished.outcomes.append(Outcome(UNIT, 0, UNIT.goal_s + 1.0, 1.0, cases))
    assert run.summary(finished, [], is_ci=True) == 0
    said = capsys.readouterr().out
    assert "skipped in unit: 1, because redis is not there" in said
    assert f"over its goal: unit, {UNIT.goal_s + 1} s of {UNIT.goal_s} s" in said
    assert said.splitlines()[-1] == "1 passed, 0 failed"


STEADY_AND_NOT = """from pathlib import Path
FLAG = Path(__file__).with_name("flag")
def test_passes(): pass
def test_fails_once():
    assert FLAG.exists() or FLAG.touch()
"""


@pytest.mark.parametrize("inputs", [(), ("docs",)])
def test_the_few_tests_that_failed_beside_others_are_tried_once_more_alone(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    inputs: tuple[str, ...],
) -> None:
    """Also of a lane with inputs when the time of these is over."""
    for module in (run, outcomes):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")
    (tmp_path / "tests").mkdir()
    many = "".join(f"def test_{n}(): assert 0\n" for n in range(TRIED_AGAIN + 1))
    files = {"steady": STEADY_AND_NOT, "broken": "def test_a(): assert 0", "many": many}
    for name, text in files.items():
        (tmp_path / "tests" / f"test_{name}.py").write_text(text)
    chosen = [
        Lane(name, name, (f"tests/test_{name}.py",), "test", 60, inputs=inputs) for name in files
    ]
    tried = run.Run(chosen, tmp_path, [], proven=set())
    tried.until_all_are_over()
    monkeypatch.setattr(run.Run, "_spent_s", lambda _run: run.INPUTS_END_S + 1)
    tried.try_again()
    found = {o.lane.name: (o.passed, o.failed, o.unsteady) for o in tried.outcomes}
    unsteady = "tests/test_steady.py::test_fails_once"
    assert found == {
        "steady": (2, 0, (unsteady,)),
        "broken": (0, 1, ()),
        "many": (0, TRIED_AGAIN + 1, ()),
    }
    assert run.summary(tried, [], is_ci=True) == 1
    said = capsys.readouterr().out
    assert f"unsteady: {unsteady} failed beside other lanes and passed alone" in said
    assert "== broken-again" in said
    assert "== many-again" not in said


def test_a_lane_that_died_without_a_result_has_failed():
    outcome = Outcome(UNIT, -9, 2.0, 1.0, ())
    assert (outcome.passed, outcome.failed) == (0, 1)


LATE, LEFT = "sleep 60", f"echo no nodes here; exit {LEFT_OUT}"
AGAIN = "[ -e FOLDER/tried ] || ! touch FOLDER/tried"


@pytest.mark.parametrize(
    ("prepared", "program", "why"),
    [
        ("echo ready", "exit 0", ""),
        ("echo ready", LEFT, "no nodes here"),
        (LEFT, "exit 0", "no nodes here"),
        (f"{AGAIN} || exit 1", "exit 0", ""),
        (f"echo at 3 of 9; {LATE}", "exit 0", "was not built after 0 minutes (at 3 of 9)"),
    ],
    ids=["ready", "no-machine", "no-namespaces", "built-again", "late"],
)
def test_a_lane_whose_needs_cannot_be_had_is_left_out_without_a_failure(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    prepared: str,
    program: str,
    why: str,
):
    monkeypatch.setattr(builds, "BUILT_S", 0.5 if LATE in prepared else 60)
    assert _summary_of(tmp_path, prepared, program) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(
        "0 passed, 0 failed; built was left out, which is not a failure: "
    ) == bool(why)
    assert last.endswith(why or "1 passed, 0 failed")


def _summary_of(folder: Path, prepared: str, program: str) -> int:
    """Of a run of one lane that is prepared by one command."""
    shell = ("sh", "-c")
    prepared_by = (*shell, prepared.replace("FOLDER", str(folder)))
    alone = Lane("built", "", (program,), "ci", 60, program=shell, is_pytest=False)
    done = run.Run([replace(alone, prepared_by=prepared_by, has_results=False)], folder, [])
    done.until_all_are_over()
    done.try_again()
    return run.summary(done, [], is_ci=True)


def test_a_lane_whose_needs_were_not_built_twice_has_failed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert _summary_of(tmp_path, "echo no such package; exit 1", "exit 0") == 1
    told = capsys.readouterr().out
    assert told.count("no such package") == 2
    assert told.splitlines()[-1] == "0 passed, 1 failed"


def test_a_run_whose_time_is_over_ends_itself_and_names_what_did_not_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    base = Lane("", "", (), "ci", 60, program=("sleep", "60"), is_pytest=False)
    chosen = [replace(base, name=name, load=load) for name, load in (("long", 1), ("next", 99))]
    cut = run.Run(chosen, tmp_path, [], ends_s=time.monotonic() + 0.5)
    cut.until_all_are_over()
    cut.try_again()
    assert run.summary(cut, [], is_ci=True) == 1
    said = capsys.readouterr().out.splitlines()
    assert "did not run to the end, because the time was over: long, next" in said
    assert said[-1] == "0 passed, 2 failed"


def test_what_is_missing_is_named_once_and_fails_only_where_all_is_proved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    monkeypatch.setattr(run.browsers, "ensure", lambda say: None)
    monkeypatch.setattr(run.browsers, "find", lambda: None)
    chosen = lanes.lanes_of("test")
    without = run.left_out(chosen)
    assert [lane.name for lane in chosen] == ["unit", "smoke"]
    assert [[lane.name for lane in missed] for _, missed in without] == [["people", "pages"]]
    nothing = run.Run([], tmp_path, [])
    assert run.summary(nothing, without, is_ci=False) == 0
    assert run.summary(nothing, without, is_ci=True) == 1
    said = capsys.readouterr().out
    assert said.count("apt-get install chromium") == 2
    assert said.splitlines()[-1] == "0 passed, 2 failed"
