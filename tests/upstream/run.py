"""`make test-cluster`: builds and starts an upstream cluster, tries everything on it, and stops it.

Tried are the contract (tests/contract), the pods of onebox's node half (deploy/onebox/tests/onebox_tests/whole) and what
only upstream can judge (tests/upstream). With CONTRACT_KUBECONFIG that cluster is used in place of
one of our own; the tests of tests/upstream that need a control plane to stop and start still build
theirs. `--only NAME` and `--without NAME` choose among the calls, `--test ID` single tests; what
follows goes to pytest.

Everything happens in one folder, and a run fails if anything of it is left in the end. It fails too
if our own cluster, built before, takes more than a minute to start.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from deploy.testcluster import binaries
from deploy.testcluster.cluster import TestCluster
from deploy.testcluster.controlplane import ControlPlaneError, Options
from deploy.testcluster.node import NodeError, NodeOptions
from deploy.testcluster.ports import free_port
from tests.contract import results
from tests.tools.children import alone, raise_when_asked, run_to_the_end, say
from tests.upstream import left

EXIT_FAILED = 1
EXIT_NO_CLUSTER = 2
GIVEN = "CONTRACT_KUBECONFIG"
START_S = 60.0  # when nothing has to be built
KEPT = ("KEEP_UPSTREAM", "KEEP_E2E")  # who sets one of these wants to look at what is left


FILES = ("tests/", "deploy/onebox/tests/")  # so begins a word that names tests


@dataclass(frozen=True)
class Call:
    """One pytest process: Playwright's event loop and pytest-asyncio's cannot share one.

    Attributes:
        needs_our_node: it knows where onebox's node half keeps things.
        has_own: it starts control planes of its own.
        needs_kwok: some of its nodes are played.
        is_part: some of its tests were chosen, by files; its marks may leave none of them.
    """

    name: str
    title: str
    arguments: tuple[str, ...]
    needs_our_node: bool = False
    has_own: bool = False
    needs_kwok: bool = False
    is_part: bool = False

    def only(self, tests: Sequence[str]) -> "Call | None":
        """The call with those of the tests alone that lie below its files; None: none does."""
        files = [word for word in self.arguments if word.startswith(FILES)]
        own = [test for test in tests if any(_lies_below(test, file) for file in files)]
        words = [word for word in self.arguments if word not in files]
        return replace(self, arguments=(*words, *own), is_part=True) if own else None


def _lies_below(test: str, file: str) -> bool:
    return test.startswith((f"{file}/", f"{file}::"))


NODE_TESTS = ("deletion", "gpus", "kubectl", "logs", "network", "pods", "volumes", "workloads")
FAULTS = "tests/upstream/test_faults.py"
CONTRACT = Call("contract", "the contract", ("tests/contract",))
CALLS = (
    CONTRACT,
    Call(
        "pods",
        "pods on onebox's node half",
        tuple(f"deploy/onebox/tests/onebox_tests/whole/test_{name}.py" for name in NODE_TESTS),
        needs_our_node=True,
    ),
    Call(
        "upstream",
        "what only upstream judges",
        ("-m", "upstream and not e2e and not slow", "tests/upstream", f"--ignore={FAULTS}"),
        needs_kwok=True,
    ),
    Call(
        "main-job", "Homeport's main job", ("-m", "upstream and e2e and not slow", "tests/upstream")
    ),
    # Last and alone: what has to come right within half a minute is not tried beside other work.
    Call(
        "faults",
        "faults of a control plane",
        ("-m", "upstream and not slow", FAULTS),
        has_own=True,
        needs_kwok=True,
    ),
)
NO_TESTS = 5  # pytest's exit code


@contextmanager
def cluster(folder: Path, problems: list[str]) -> Iterator[Mapping[str, str]]:
    """What tests need to know of the given cluster, or of our own while the context is open.

    Args:
        folder: for our own.
        problems: what is wrong is added there, in words.
    """
    given = os.environ.get(GIVEN)
    if given:
        say(f"Testing on the cluster of {given}.")
        yield {}
        return
    port = free_port()
    began_s = time.monotonic()
    is_built = binaries.is_built(binaries.KUBERNETES, binaries.ETCD)
    if not is_built:
        say(f"Building what is missing in {binaries.cache_root()} (once, some minutes) ...")
    say(f"Starting Kubernetes {binaries.KUBERNETES.version} and a node that runs pods ...")
    node = NodeOptions(forwards=[str(port)], has_egress=True)
    # The contract waits until the cluster has forgotten something.
    options = Options(compaction_s=5, is_audited=True)
    with TestCluster(folder / "upstream", options, node, say) as started:
        took_s = time.monotonic() - began_s
        say(f"It is ready after {took_s:.1f} s, until the tests are over.")
        if is_built and took_s > START_S:
            problems.append(f"The cluster took {took_s:.0f} s to start, more than {START_S:.0f} s.")
        yield {
            GIVEN: str(started.kubeconfig),
            "CONTRACT_AUDIT_LOG": str(started.control_plane.audit_log),
            "CONTRACT_PORTAL_PORT": str(port),
            "CONTRACT_PORTAL_URL": "http://10.244.0.1:8000",
        }


def run(call: Call, environment: Mapping[str, str], to_pytest: Sequence[str]) -> bool:
    """Whether the call passed. HOMEPORT_RESULTS, where it is set, begins the name of its JUnit file."""
    say(f"== {call.title}")
    began_s = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *call.arguments]
    results = os.environ.get("HOMEPORT_RESULTS")
    command += [f"--junitxml={results}.{call.name}.xml", "--durations=30"] if results else []
    code = run_to_the_end([*command, *to_pytest], {**os.environ, **environment})
    say(f"== {call.title}: exit {code} after {time.monotonic() - began_s:.0f} s")
    is_part = call.is_part or bool(to_pytest)
    return code == 0 or (code == NO_TESTS and is_part)  # others than were chosen


def has_parity() -> bool:
    """Whether both clusters answer alike, once both have been asked; prints the report."""
    passed = True
    if results.load("onebox") is None:
        say("== the contract, on onebox as well")
        without = {name: text for name, text in os.environ.items() if name != GIVEN}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        passed = run_to_the_end([*command, *CONTRACT.arguments], without) == 0
    say("== parity")
    command = [sys.executable, "-m", "tests.contract.report"]
    command += ["--given"] if os.environ.get(GIVEN) else []
    return subprocess.call(command) == 0 and passed


def chosen(arguments: Sequence[str]) -> tuple[list[Call], list[str]]:
    """The calls that the command line asks for, and the rest of it."""
    names = [call.name for call in CALLS]
    parser = argparse.ArgumentParser(prog="python -m tests.upstream.run", allow_abbrev=False)
    parser.add_argument("--only", action="append", choices=names, metavar="NAME")
    parser.add_argument("--without", action="append", choices=names, default=[], metavar="NAME")
    parser.add_argument("--test", action="append", default=[], metavar="ID")
    given, to_pytest = parser.parse_known_args(arguments)
    wanted = set(given.only or names) - set(given.without)
    calls = [call for call in CALLS if call.name in wanted]
    if given.test:
        calls = [only for call in calls if (only := call.only(given.test))]
    return calls, to_pytest


def main() -> int:
    """Exit code 0 when everything passed, 2 when there can be no cluster."""
    calls, to_pytest = chosen(sys.argv[1:])
    kwok = (binaries.KWOK,) if any(call.needs_kwok for call in calls) else ()
    raise_when_asked()
    products = (binaries.KUBERNETES, binaries.ETCD, *kwok)
    if why_not := "" if os.environ.get(GIVEN) else binaries.why_not(*products, say=say):
        print(f"There is no upstream cluster to test on. {why_not}", file=sys.stderr)
        # A machine that proves the project must have all that the proof needs.
        return EXIT_FAILED if os.environ.get("CI") else EXIT_NO_CLUSTER
    problems: list[str] = []
    try:
        with _folder(problems) as folder:
            on_cluster = [call for call in calls if not call.has_own]
            passed = _try_on_cluster(folder, on_cluster, to_pytest, problems)
            passed += [run(call, {}, to_pytest) for call in calls if call.has_own]
    except (binaries.NoBinariesError, ControlPlaneError, NodeError) as error:
        problems.append(str(error))
    except KeyboardInterrupt:
        return 130
    finally:
        for problem in problems:
            print(problem, file=sys.stderr, flush=True)
    return 0 if not problems and all(passed) else EXIT_FAILED


@contextmanager
def _folder(problems: list[str]) -> Iterator[Path]:
    """Where everything happens; what is left of it afterwards is a problem."""
    folder = Path(tempfile.mkdtemp(prefix="homeport-test-cluster-"))
    folder.chmod(0o755)  # pods run as other users
    os.environ["TMPDIR"] = str(folder)
    before = left.by_default()
    try:
        yield folder
    finally:
        if any(map(os.environ.get, KEPT)):
            say(f"Kept: {folder}")
        else:
            found = left.remove(folder) + left.made_by_default(before)
            if found:
                problems.append(f"This run left something behind: {'; '.join(found)}.")
            else:
                say("Nothing is left of it but the programs in the cache.")


def _try_on_cluster(
    folder: Path, calls: Sequence[Call], to_pytest: Sequence[str], problems: list[str]
) -> list[bool]:
    if not calls:
        return []
    with cluster(folder, problems) as environment:
        able = [call for call in calls if environment or not call.needs_our_node]
        passed = [run(call, environment, to_pytest) for call in able]
    if CONTRACT in calls and not to_pytest:
        passed.append(has_parity())
    return passed


if __name__ == "__main__":
    sys.exit(alone(main))
