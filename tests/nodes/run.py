"""`make test-node`: builds and starts two real nodes, tries everything on them, and stops them.

Words after it go to pytest, in place of all tests here. Where there can be no nodes (an ordinary user, no namespaces) it says
why and is left out, with exit code 0; with CI set that is a failure. A run fails if anything of it
is left in the end, on this machine or in its folder.

With `prepare` as its only word it builds all that it needs and stops. That, and the tests with `or-left-out` as the first
word, end with the code `LEFT_OUT` and the reason where this machine gives no nodes that run a pod.
"""

import os
import sys
import tempfile
from pathlib import Path

from deploy.testcluster import binaries
from deploy.testcluster.nodes import images, network, products
from tests.image import build
from tests.lane import LEFT_OUT, QUIET
from tests.lanes import APART, INSIDE, NODES, OVERLAY, OWN_NODES
from tests.nodes.conftest import LEFT_OUT_BECAUSE
from tests.nodes.installed import IMAGE
from tests.nodes.left import of_network, of_nodes, packet_filters
from tests.tools.children import alone, raise_when_asked, run_to_the_end, say
from tests.upstream import left

_KEPT = "KEEP_NODES"
_APART = "HOMEPORT_PREPARES_APART"  # it has mounts of its own


def prepare() -> int:
    """Builds and fetches everything, each part once; the last line says why where that cannot be.

    Mounts of what builds images are its own, and go with it. What others wait for too is built first, and all
    else gives way to them.
    """
    try:
        if why_not := products.why_not(say):
            say(f"there can be no real nodes here: {why_not}")
            return LEFT_OUT
        if not os.environ.get(_APART):
            command = ["unshare", "--mount", "--propagation=private", sys.executable, "-m"]
            os.execvpe(
                command[0], [*command, "tests.nodes.run", "prepare"], os.environ | {_APART: "yes"}
            )
        build.check_tools()
        for product in (binaries.KUBERNETES, binaries.ETCD):
            for name in product.programs:
                binaries.program(product, name, say)
        os.nice(10)
        products.prepare(say)
        images.layers(say)
        build.archive(IMAGE)
    except (binaries.NoBinariesError, build.NoBuilderError) as error:
        say(" ".join(str(error).split()))
        return 1
    return 0


def run(*words: str, **environment: str) -> int:
    """pytest's exit code."""
    return run_to_the_end([sys.executable, "-m", "pytest", *words], os.environ | environment)


def main() -> int:
    """Exit code 0 when everything passed or was left out."""
    words = sys.argv[1:]
    if words == ["prepare"]:
        return prepare()
    if may_be_left_out := words[:1] == ["or-left-out"]:
        words.pop(0)
    if why_not := products.why_not(say):
        say(f"There are no real nodes to test on, which is left out: {why_not}")
        return 1 if os.environ.get("CI") else 0
    raise_when_asked()
    try:
        products.prepare(say)
        images.layers(say)
    except binaries.NoBinariesError as error:
        say(str(error))
        return 1
    folder = Path(tempfile.mkdtemp(prefix="homeport-test-node-"))
    folder.chmod(0o755)  # pods run as other users
    os.environ["TMPDIR"] = str(folder)
    reason = Path(f"{folder}-left-out")
    if may_be_left_out:
        os.environ[LEFT_OUT_BECAUSE] = str(reason)
    before, devices, filters = left.by_default(), of_network(), packet_filters()
    try:
        if words:
            code = run(*words)
        else:
            apart = [(file,) for file in APART]
            calls = [(tests, "") for tests in (OWN_NODES, INSIDE, *apart, NODES)]
            if why_not := network.why_no_overlay():
                say(f"Nodes with an overlay network are left out: {why_not}")
            else:
                calls.append((OVERLAY, "yes"))
            code = max(run(*QUIET, *tests, NODES_OVERLAY=is_so) for tests, is_so in calls)
    except KeyboardInterrupt:
        left.remove(folder)
        raise
    if os.environ.get(_KEPT):
        say(f"Kept: {folder}")
        return code
    found = of_nodes() + [line for line in of_network() if line not in devices]
    found += left.remove(folder) + left.made_by_default(before)
    found += ["rules of packet filters"] if packet_filters() != filters else []
    say(f"This run left behind: {'; '.join(found)}." if found else "Nothing is left of it.")
    if reason.exists() and not found:
        say(reason.read_text())
        reason.unlink()
        return LEFT_OUT
    return int(code != 0 or bool(found))


if __name__ == "__main__":
    sys.exit(alone(main))
