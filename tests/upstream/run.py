"""`make test-cluster`: builds and starts an upstream cluster, tries everything on it, and stops it.

Tried are the contract (tests/contract), the pods of onebox's node half (tests/onebox/whole) and what
only upstream can judge (tests/upstream). With CONTRACT_KUBECONFIG that cluster is used in place of
one of our own; the tests of tests/upstream that need a control plane to stop and start still build
theirs.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.testcluster import binaries
from deploy.testcluster.cluster import TestCluster
from deploy.testcluster.controlplane import ControlPlaneError, Options, free_port
from deploy.testcluster.node import NodeError, NodeOptions

EXIT_FAILED = 1
EXIT_NO_CLUSTER = 2
GIVEN = "CONTRACT_KUBECONFIG"
NEITHER = (
    "There is no upstream cluster to test on: neither Go 1.26 or newer, which builds one "
    "(https://go.dev/dl), nor CONTRACT_KUBECONFIG, which names a kubeconfig of yours. "
    "Install the one or set the other."
)


@dataclass(frozen=True)
class Call:
    """One pytest process: Playwright's event loop and pytest-asyncio's cannot share one."""

    title: str
    arguments: tuple[str, ...]
    needs_our_node: bool = False


NODE_TESTS = ("deletion", "gpus", "kubectl", "logs", "network", "pods", "volumes", "workloads")
CALLS = (
    Call("the contract", ("tests/contract",)),
    Call(
        "pods on onebox's node half",
        tuple(f"tests/onebox/whole/test_{name}.py" for name in NODE_TESTS),
        needs_our_node=True,
    ),
    Call(
        "what only upstream judges", ("-m", "upstream and not e2e and not slow", "tests/upstream")
    ),
    Call("Homeport's main job", ("-m", "upstream and e2e and not slow", "tests/upstream")),
)
NO_TESTS = 5  # pytest's exit code
_PUT_AWAY_S = 90.0


def say(text: str) -> None:
    print(text, flush=True)


@contextmanager
def cluster() -> Iterator[Mapping[str, str]]:
    """What tests need to know of the given cluster, or of our own while the context is open."""
    given = os.environ.get(GIVEN)
    if given:
        say(f"Testing on the cluster of {given}.")
        yield {}
        return
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="homeport-test-cluster-"))
    folder.chmod(0o755)  # pods run as other users
    began_s = time.monotonic()
    try:
        if not binaries.is_built(binaries.KUBERNETES, binaries.ETCD):
            say(f"Building what is missing in {binaries.cache_root()} (once, some minutes) ...")
        say(f"Starting Kubernetes {binaries.KUBERNETES.version} and a node that runs pods ...")
        node = NodeOptions(forwards=[str(port)], has_egress=True)
        # The contract waits until the cluster has forgotten something.
        options = Options(compaction_s=5)
        with TestCluster(folder, options, node, say) as started:
            say(f"It is ready after {time.monotonic() - began_s:.0f} s, until the tests are over.")
            yield {
                GIVEN: str(started.kubeconfig),
                "CONTRACT_PORTAL_PORT": str(port),
                "CONTRACT_PORTAL_URL": "http://10.244.0.1:8000",
            }
        say("The cluster is stopped; nothing of it is left but the programs in the cache.")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(call: Call, environment: Mapping[str, str]) -> bool:
    """Whether the call passed."""
    say(f"== {call.title}")
    began_s = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *call.arguments]
    code = _wait(subprocess.Popen([*command, *sys.argv[1:]], env={**os.environ, **environment}))
    say(f"== {call.title}: exit {code} after {time.monotonic() - began_s:.0f} s")
    return code in {0, NO_TESTS}


def _wait(tests: subprocess.Popen[bytes]) -> int:
    """Their exit code. Who is interrupted lets them put away what they started."""
    try:
        return tests.wait()
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):  # Ctrl-C reached them too
            tests.send_signal(signal.SIGINT)
        try:
            tests.wait(_PUT_AWAY_S)
        except subprocess.TimeoutExpired:
            tests.kill()
        raise


def main() -> int:
    """Exit code 0 when everything passed, 2 when there can be no cluster."""
    is_built = binaries.is_built(binaries.KUBERNETES, binaries.ETCD)
    if not (os.environ.get(GIVEN) or is_built or binaries.find_go()):
        print(NEITHER, file=sys.stderr)
        return EXIT_NO_CLUSTER
    # A shell that runs this in the background has it ignored, and tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGHUP, _stop)
    try:
        with cluster() as environment:
            calls = [call for call in CALLS if environment or not call.needs_our_node]
            passed = [run(call, environment) for call in calls]
            say("== parity")
            subprocess.call([sys.executable, "-m", "tests.contract.report"])
    except (binaries.NoBinariesError, ControlPlaneError, NodeError) as error:
        print(error, file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130
    return 0 if all(passed) else EXIT_FAILED


def _stop(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
