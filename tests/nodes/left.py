"""What a cluster of nodes left on this machine, in words."""

import re
import subprocess
from collections.abc import Sequence

from deploy.testcluster.nodes import network, sweep
from deploy.testcluster.nodes.cluster import COUNT
from deploy.testcluster.nodes.node import cgroup_of


def of_nodes(numbers: Sequence[int] = range(1, COUNT + 1)) -> list[str]:
    """Cgroups of these nodes."""
    return [f"the cgroup {path}" for number in numbers for path in sweep.left(cgroup_of(number))]


def of_network() -> list[str]:
    """Devices and routes on this machine."""
    said = ""
    for words in (["link"], ["route", "show", "table", "all"]):
        said += subprocess.run(["ip", *words], capture_output=True, text=True, check=True).stdout
    traces = (
        network.DEVICE,
        network.HOST,
        *(r.split("/")[0] for r in (network.NODES, network.PODS)),
    )
    return [line.strip() for line in said.splitlines() if any(trace in line for trace in traces)]


def packet_filters() -> list[str]:
    """This machine's own rules, without counters and the time of day."""
    said = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    lines = (re.sub(r"\[\d+:\d+\]", "", line) for line in said.splitlines())
    return [line for line in lines if not line.startswith("#")]
