"""A node loses its power: the cluster says so, the other node goes on, and it comes back."""

from collections.abc import Iterator

import pytest

from deploy.testcluster.node import is_ready
from deploy.testcluster.nodes.cluster import NodeCluster
from tests.nodes.left import of_nodes
from tests.nodes.pods import OPEN, Pods, reaches_from_here, server
from tests.tools.waiting import wait_for

NAMESPACE = "power"


@pytest.fixture
def two(cluster: NodeCluster, pods: Pods) -> Iterator[list[str]]:
    """A pod on each node, ready; their addresses."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    pods.apply(space)
    path = ("-n", NAMESPACE, "get", "serviceaccount", "default")
    wait_for("it has an account", lambda: pods.ask(*path).is_done)
    made = [server(NAMESPACE, f"on-{node.number}", node.name) for node in cluster.nodes]
    for one in made:  # else a node that is back after 5 s finds its pod deleted
        one["spec"]["tolerations"] = [{"operator": "Exists", "effect": "NoExecute"}]
    pods.apply(*made)
    pods.wait_until_ready(NAMESPACE, "on-1", "on-2")
    yield [pods.address(NAMESPACE, f"on-{node.number}") for node in cluster.nodes]
    pods.remove(NAMESPACE)


def test_a_node_without_power(cluster: NodeCluster, pods: Pods, two: list[str]) -> None:
    first, second = cluster.nodes
    restarts = pods.get("-n", NAMESPACE, "pod", "on-1")["status"]["containerStatuses"]
    first.cut_power()
    try:
        assert of_nodes([first.number]) == [], "nothing of it is left but its disk"
        assert not reaches_from_here(two[0], OPEN)
        wait_for(
            "the cluster knows",
            lambda: not is_ready(cluster.control_plane, first.name),
            timeout_s=90,
        )
        assert is_ready(cluster.control_plane, second.name)
        assert reaches_from_here(two[1], OPEN)
        assert pods.python(NAMESPACE, "on-2", "print(6 * 7)").out.strip() == "42"
    finally:
        cluster.start(first)
        cluster.wait_until_ready(first)

    def is_back() -> bool:
        status = pods.get("-n", NAMESPACE, "pod", "on-1")["status"]
        states = status["containerStatuses"]
        return bool(states[0]["ready"] and states[0]["restartCount"] > restarts[0]["restartCount"])

    wait_for("its pod is started again", is_back, timeout_s=90)
    address = pods.address(NAMESPACE, "on-1")
    wait_for("and is reached", lambda: reaches_from_here(address, OPEN), timeout_s=30)
