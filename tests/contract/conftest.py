"""The cluster under test, the scripts' runs, and the results for the report."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.contract import clusters, exceptions, report, results
from tests.contract.clusters import Cluster
from tests.contract.kube import Json, Kube
from tests.contract.results import Behaviour, Results
from tests.contract.script import Script, all_scripts, namespace, outcome
from tests.contract.tape import Tape

HERE = Path(__file__).parent
SIDE_BY_SIDE = 5  # most of a script's time is waiting for controllers
_results = pytest.StashKey[Results]()
_side = pytest.StashKey[str]()
_excuses = pytest.StashKey[list[exceptions.Excuse]]()  # whose tests have to fail here
_whole = pytest.StashKey[bool]()  # every behaviour was tried
_config: pytest.Config | None = None  # the hook of reports is not told its session


def pytest_configure(config: pytest.Config) -> None:
    # Here, and not as the session starts: by then a run of all tests does not know this file yet.
    global _config
    config.addinivalue_line("markers", "needs_pods: a node has to run the pods")
    config.stash[_results] = Results("")
    config.stash[_excuses] = []
    _config = config


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster of CONTRACT_KUBECONFIG, else a onebox."""
    with clusters.opened("onebox") as found:
        request.config.stash[_side] = found.side
        if found.side == "onebox":
            request.config.stash[_excuses] = exceptions.load()
        elif found.has_kubelet:
            request.config.stash[_excuses] = exceptions.of_the_node()
        request.config.stash[_results].version = found.version
        request.config.stash[_results].tree = results.tree()
        yield found


@pytest.fixture(scope="session")
def kube(cluster: Cluster) -> Kube:
    return cluster.kube


@pytest.fixture
def tape(kube: Kube) -> Iterator[Tape]:
    """A namespace of the test's own, with the means of the scripts."""
    with namespace(kube) as name:
        yield Tape(kube, name)


@dataclass
class Plays:
    """Runs of scripts, side by side; each once in a session.

    Attributes:
        asked: every script that a test of this session asks for.
    """

    kube: Kube
    pool: ThreadPoolExecutor
    asked: dict[str, Script]
    runs: dict[str, Future[tuple[list[Json], Exception | None]]] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin all that can run side by side."""
        for found in self.asked.values():
            if not found.is_alone:
                self._begin(found)

    def _begin(self, found: Script) -> None:
        self.runs[found.name] = self.pool.submit(outcome, found, self.kube)

    def of(self, name: str) -> tuple[list[Json], Exception | None]:
        """The transcript of a script on this cluster, and what stopped it."""
        if name not in self.runs:
            wait(self.runs.values())
            self._begin(self.asked[name])
        return self.runs[name].result()


@pytest.fixture(scope="session")
def plays(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Plays]:
    """Begins every script that a test of this session asks for."""
    asked = {
        item.callspec.params["script_name"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and hasattr(item, "callspec")
        and "script_name" in item.callspec.params
    }
    scripts = {name: found for name, found in all_scripts().items() if name in asked}
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        made = Plays(cluster.kube, pool, scripts)
        made.begin()
        yield made


@pytest.fixture(autouse=True)
def _has_what_it_needs(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("needs_pods"):
        found: Cluster = request.getfixturevalue("cluster")
        if not found.has_node:
            pytest.skip("no node runs pods on this cluster")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """On onebox, a test that `exceptions.toml` names has to fail, and under a kubelet one of `[[node]]` there."""
    made = yield
    assert isinstance(made, pytest.TestReport)
    if made.when == "call":
        for excuse in item.config.stash[_excuses]:
            if _name_of(made.nodeid) in map(_name_of, excuse.tests):
                _excuse(made, excuse.id)
    return made


def _excuse(made: pytest.TestReport, excuse_id: str) -> None:
    if made.outcome == "failed":
        made.outcome = "passed"
        made.longrepr = None
        made.user_properties.append(("excuses", [excuse_id]))
    elif made.outcome == "passed":
        made.outcome = "failed"
        made.longrepr = f"it works: take {excuse_id} out of exceptions.toml"


def _name_of(nodeid: str) -> str:
    """The name of a behaviour: its test with its parameter, without folders."""
    return nodeid.rpartition("tests/contract/")[2]


def _is_ours(nodeid: str) -> bool:
    return "tests/contract/" in nodeid


def _is_behaviour(nodeid: str) -> bool:
    """Whether a test is about the cluster, and not about the contract itself."""
    return _is_ours(nodeid) and "test_bookkeeping.py" not in nodeid


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not _is_behaviour(report.nodeid) or _config is None:
        return
    name = _name_of(report.nodeid)
    found = _config.stash[_results].behaviours.setdefault(name, Behaviour(_sentence(name)))
    if report.when == "call" or report.outcome != "passed":
        worse = found.outcome == "failed"
        found.outcome = "failed" if worse else report.outcome
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        found.why = report.longrepr[2].removeprefix("Skipped: ")
    for key, value in report.user_properties:
        if key == "excuses" and report.when == "call":
            found.excuses = list(value)


def _sentence(name: str) -> str:
    _, _, test = name.partition("::test_")
    called, _, parameter = test.partition("[")
    words = (parameter.rstrip("]").partition(".")[2] or called).replace("_", " ")
    return words[:1].upper() + words[1:]


def pytest_sessionfinish(session: pytest.Session) -> None:
    side = session.config.stash.get(_side, "")
    ours = [item for item in session.items if _is_ours(item.nodeid)]
    files = {_name_of(item.nodeid).partition("::")[0] for item in ours}
    found = session.config.stash[_results]
    is_whole = (
        files == {file.name for file in HERE.glob("test_*.py")}
        and found.behaviours.keys() == {_name_of(i.nodeid) for i in ours if _is_behaviour(i.nodeid)}
        and not session.config.option.keyword
    )
    if side and is_whole:
        session.config.stash[_whole] = True
        found.save(side)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.config.stash.get(_whole, False):
        terminalreporter.section("contract")
        terminalreporter.write_line(report.text()[0])
