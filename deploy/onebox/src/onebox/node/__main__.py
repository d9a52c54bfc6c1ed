"""`python -m onebox.node`: the node half of onebox as a program.

Exit codes: 0 after a signal, 1 after a fault, 2 for wrong options, 3 when this machine cannot
run pods; each but the first with a sentence on stderr.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from onebox.node.client import KubeconfigError
from onebox.node.options import parse_options
from onebox.node.process import NodeFault, run_node
from onebox.node.spec import SandboxUnavailable

EXIT_FAULT = 1
EXIT_OPTIONS = 2
EXIT_NO_SANDBOX = 3


def main() -> int:
    """Run the node; returns the exit code."""
    # Its folder is nobody else's (0700); what lies in it is mounted into pods, which are other users.
    os.umask(0o022)
    options = parse_options(sys.argv[1:])
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s node %(levelname)s %(name)s: %(message)s"
    )
    try:
        asyncio.run(run_node(options))
    except SandboxUnavailable as error:
        print(f"onebox cannot run pods on this machine: {error}", file=sys.stderr)
        return EXIT_NO_SANDBOX
    except KubeconfigError as error:
        print(f"onebox node: {error}", file=sys.stderr)
        return EXIT_OPTIONS
    except NodeFault as error:
        print(f"onebox node: {error}", file=sys.stderr)
        return EXIT_FAULT
    return 0


if __name__ == "__main__":
    sys.exit(main())
