"""How the replicas of a training learn about each other: lists of addresses, and TF_CONFIG.

Addresses are names that are known before anything starts (`NAME-worker-0.NAME:2222`); the runner
waits until each of them resolves before it starts the program.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from jobs.rules.topologies import Topology

PORT = 2222  # of every replica; means nothing outside the training's own pods

Hosts = Mapping[str, Sequence[str]]


def hosts(
    topology: Topology, counts: Mapping[str, int], address: Callable[[str, int], str]
) -> dict[str, list[str]]:
    """role -> addresses by index, roles in the topology's order.

    Args:
        topology: whose roles are listed.
        counts: role -> number of replicas.
        address: (role, index) -> `host:port`.
    """
    return {
        role.name: [address(role.name, index) for index in range(counts[role.name])]
        for role in topology.roles
    }


def tf_config(spec: Hosts, role: str, index: int) -> str | None:
    """TF_CONFIG of one replica as JSON; None for a training of one replica, which needs none.

    https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable
    """
    if sum(len(addresses) for addresses in spec.values()) <= 1:
        return None
    cluster = {name: list(addresses) for name, addresses in spec.items() if addresses}
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}}, sort_keys=True)
