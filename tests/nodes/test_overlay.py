"""Where an overlay carries pods' traffic, a NodePort of another node comes from that node's overlay address."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deploy.testcluster.nodes import network
from deploy.testcluster.nodes.cluster import NodeCluster
from tests.nodes.pods import GATE, Pods, reaches_from_here, server
from tests.nodes.test_preflight import preflight
from tests.tools.waiting import wait_for

SPACE = "overlay"
NODE_PORT = 30_090


def _policy(cidrs: Sequence[str]) -> dict[str, object]:
    peers = [{"ipBlock": {"cidr": cidr}} for cidr in (network.CLIENTS, *cidrs)]
    ports = [{"protocol": "TCP", "port": GATE}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"namespace": SPACE, "name": "gate"},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": peers, "ports": ports}],
        },
    }


@pytest.fixture
def placed(cluster: NodeCluster, pods: Pods) -> Iterator[None]:
    """A pod on the first node behind a NodePort."""
    pods.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    path = ("-n", SPACE, "get", "serviceaccount", "default")
    wait_for("it has an account", lambda: pods.ask(*path).is_done)
    ports = [{"port": 80, "targetPort": GATE, "nodePort": NODE_PORT}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": SPACE, "name": "gate"},
        "spec": {"type": "NodePort", "selector": {"app": "one"}, "ports": ports},
    }
    pods.apply(_policy([network.NODES]), service, server(SPACE, "one", cluster.nodes[0].name))
    pods.wait_until_ready(SPACE, "one")
    yield
    pods.remove(SPACE)


@pytest.mark.usefixtures("placed")
def test_the_addresses_of_the_overlay_are_those_that_policies_must_name(
    cluster: NodeCluster, pods: Pods
) -> None:
    own, other = (node.address for node in cluster.nodes)
    wait_for("its own node answers", lambda: reaches_from_here(own, NODE_PORT), timeout_s=30)
    # Until its rules have arrived a new pod is open to everybody.
    wait_for(
        "the nodes' addresses alone are not enough",
        lambda: not reaches_from_here(other, NODE_PORT),
        timeout_s=60,
    )
    assert reaches_from_here(own, NODE_PORT)
    pods.apply(_policy(network.of_nodes(is_overlay=True)))
    wait_for("both nodes answer", lambda: reaches_from_here(other, NODE_PORT), timeout_s=30)


@pytest.mark.usefixtures("volumes")
def test_preflight_is_red_without_the_addresses_of_the_overlay_and_green_with_them(
    cluster: NodeCluster, pods: Pods, tmp_path: Path
) -> None:
    pods.must("apply", "-f", "deploy/cluster/")
    code, lines, said = preflight(cluster, tmp_path, NODE_CIDRS=network.NODES)
    assert code == 1, said
    assert lines["NODE_CIDRS"].startswith("FAILED: notebooks would not open through node-2"), said
    assert network.overlay(2) in lines["NODE_CIDRS"], said
    code, lines, said = preflight(cluster, tmp_path)
    assert (code, lines["NODE_CIDRS"][:3]) == (0, "ok:"), said
