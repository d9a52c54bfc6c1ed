"""`make test-node`: builds and starts two real nodes, tries everything on them, and stops them.

Words after it go to pytest, in place of all tests here. Where there can be no nodes (an ordinary user, no namespaces) it says
why and is left out, with exit code 0; with CI set that is a failure. A run fails if anything of it
is left in the end, on this machine or in its folder.

With `prepare` as its only word it builds all that it needs and stops. With `or-left-out` as the first one it ends
with the code `LEFT_OUT` and the reason where this machine gives no nodes that run a pod.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.testcluster import binaries
from deploy.testcluster.nodes import images, products
from tests.image import build
from tests.lanes import INSIDE, LEFT_OUT, NODES, OVERLAY, OWN_NODES, QUIET
from tests.nodes.conftest import LEFT_OUT_BECAUSE
from tests.nodes.installed import IMAGE
from tests.nodes.left import of_network, of_nodes, packet_filters
from tests.upstream import left

_KEPT = "KEEP_NODES"


def say(text: str) -> None:
    print(text, flush=True)


def prepare() -> int:
    """Builds and fetches everything, each part once; the last line says why where that cannot be."""
    try:
        if why_not := products.why_not(say):
            raise binaries.NoBinariesError(f"there can be no real nodes here: {why_not}")
        build.check_tools()
        products.prepare(say)
        images.layers(say)
        build.archive(IMAGE)
    except (binaries.NoBinariesError, build.NoBuilderError) as error:
        say(" ".join(str(error).split()))
        return 1
    return 0


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
    signal.signal(signal.SIGINT, signal.default_int_handler)
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
    before, filters = left.by_default(), packet_filters()
    pytest = [sys.executable, "-m", "pytest"]
    if words:
        code = subprocess.call([*pytest, *words])
    else:
        overlay = os.environ | {"NODES_OVERLAY": "yes"}
        calls = (
            (OWN_NODES, os.environ),
            (INSIDE, os.environ),
            (NODES, os.environ),
            (OVERLAY, overlay),
        )
        code = max(subprocess.call([*pytest, *QUIET, *w], env=env) for w, env in calls)
    if os.environ.get(_KEPT):
        say(f"Kept: {folder}")
        return code
    found = of_nodes() + of_network() + left.remove(folder) + left.made_by_default(before)
    found += ["rules of packet filters"] if packet_filters() != filters else []
    say(f"This run left behind: {'; '.join(found)}." if found else "Nothing is left of it.")
    if reason.exists() and not found:
        say(reason.read_text())
        reason.unlink()
        return LEFT_OUT
    return int(code != 0 or bool(found))


if __name__ == "__main__":
    sys.exit(main())
