"""`make test-node`: builds and starts two real nodes, tries everything on them, and stops them.

Words after it go to pytest, in place of all tests here. Where there can be no nodes (an ordinary user, no namespaces) it says
why and is left out, with exit code 0; with CI set that is a failure. A run fails if anything of it
is left in the end, on this machine or in its folder.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.testcluster import binaries
from deploy.testcluster.nodes import images, products
from tests.lanes import NODES, OVERLAY, OWN_NODES, QUIET
from tests.nodes.left import of_network, of_nodes, packet_filters
from tests.upstream import left

_KEPT = "KEEP_NODES"


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    """Exit code 0 when everything passed or was left out."""
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
    before, filters = left.by_default(), packet_filters()
    pytest = [sys.executable, "-m", "pytest"]
    if words := sys.argv[1:]:
        code = subprocess.call([*pytest, *words])
    else:
        overlay = os.environ | {"NODES_OVERLAY": "yes"}
        calls = ((OWN_NODES, os.environ), (NODES, os.environ), (OVERLAY, overlay))
        code = max(subprocess.call([*pytest, *QUIET, *w], env=env) for w, env in calls)
    if os.environ.get(_KEPT):
        say(f"Kept: {folder}")
        return code
    found = of_nodes() + of_network() + left.remove(folder) + left.made_by_default(before)
    found += ["rules of packet filters"] if packet_filters() != filters else []
    say(f"This run left behind: {'; '.join(found)}." if found else "Nothing is left of it.")
    return int(code != 0 or bool(found))


if __name__ == "__main__":
    sys.exit(main())
