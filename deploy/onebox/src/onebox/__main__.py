"""`python -m onebox`: a Kubernetes cluster on this one Linux machine.

Exit codes: 0 after a signal, 1 after a fault, 2 for wrong options, 3 when this machine cannot
run pods; each but the first with a sentence on stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from onebox.node.options import add_node_arguments
from onebox.supervisor import Plan, Supervisor, SupervisorFault


def default_home() -> Path:
    """The folder of onebox in Homeport's own."""
    return Path(os.environ.get("HOMEPORT_HOME") or "var") / "onebox"


def parse_plan(arguments: list[str]) -> Plan:
    """Read the command line; exits with a sentence when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m onebox",
        description="A Kubernetes cluster on this machine, for Homeport and kubectl.",
    )
    parser.add_argument(
        "--home",
        type=Path,
        default=default_home(),
        metavar="DIR",
        help="where everything is kept (default: $HOMEPORT_HOME/onebox)",
    )
    parser.add_argument(
        "--port", type=int, metavar="N", help="port of the API (default: chosen once, remembered)"
    )
    add_node_arguments(parser)
    given = parser.parse_args(arguments)
    first, last = given.node_port_range
    ports = ("--node-port-range", f"{first}-{last}")
    api = ports if given.port is None else (*ports, "--port", str(given.port))
    node = ["--gpus", given.gpus, "--egress", given.egress, *ports]
    if given.cpu is not None:
        node += ["--cpu", str(given.cpu)]
    for port, pod_port in given.forward:
        node += ["--forward", f"{port}:{pod_port}"]
    if given.volumes_dir is not None:
        node += ["--volumes-dir", str(given.volumes_dir.absolute())]
    if given.images_dir is not None:
        node += ["--images-dir", str(given.images_dir)]
    return Plan(given.home.absolute(), api, tuple(node), given.grace)


def main() -> int:
    """Run onebox until a signal; returns the exit code."""
    os.umask(0o077)  # state, keys and logs of people; the node sets its own for what pods see
    began_s = time.monotonic()
    plan = parse_plan(sys.argv[1:])

    def say_ready() -> None:
        took_s = time.monotonic() - began_s
        print(f"onebox is ready after {took_s:.1f} s: KUBECONFIG={plan.kubeconfig}", flush=True)

    try:
        Supervisor(plan).run(say_ready)
    except SupervisorFault as error:
        print(f"onebox: {error}", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
