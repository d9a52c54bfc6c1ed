"""Under which addresses the replicas of a training find each other.

Addresses are names that are known before anything starts (`NAME-worker-0.NAME:2222`); the runner
waits until each of them resolves before it starts the program. Where a training asks for IP addresses
instead, the runner puts these in their places (`jobs/pod/peers.py`).
"""

from collections.abc import Callable, Mapping

from jobs.rules.topologies import Topology

PORT = 2222  # of every replica; means nothing outside the training's own pods


def addresses(
    topology: Topology, counts: Mapping[str, int], address: Callable[[str, int], str]
) -> dict[str, list[str]]:
    """role -> addresses by index, roles in the topology's order.

    Args:
        topology: of whose roles those are listed that others talk to.
        counts: role -> number of replicas.
        address: (role, index) -> `host:port`.
    """
    return {
        role.name: [address(role.name, index) for index in range(counts[role.name])]
        for role in topology.meeting(counts)
    }
