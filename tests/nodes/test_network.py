"""Pods on two real nodes: names, traffic between nodes, NodePorts, and whom policies let through."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.testcluster.nodes import network
from deploy.testcluster.nodes.cluster import NodeCluster
from tests.nodes.pods import GATE, OPEN, Pods, reaches_from_here, server
from tests.tools.waiting import wait_for

NODE_PORT = 30_080
# Of namespace t1; namespace t2 has none.
BOUNDARY = {
    "podSelector": {},
    "policyTypes": ["Ingress", "Egress"],
    "ingress": [{"from": [{"podSelector": {}}]}],
    "egress": [
        {"to": [{"podSelector": {}}]},
        {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]},
    ],
}
GATES = {
    "podSelector": {},
    "policyTypes": ["Ingress"],
    "ingress": [
        {
            "from": [{"ipBlock": {"cidr": network.CLIENTS}}],
            "ports": [{"protocol": "TCP", "port": GATE}],
        }
    ],
}
PLACED = {  # "namespace/name" -> number of its node
    "t1/a1": 1,
    "t1/a2": 2,
    "t1/a3": 1,
    "t2/b1": 1,
    "t2/b2": 2,
}
HERE, API, NODE = "here", "10.96.0.1", "node"
# Who, whom, port, whether it is let through, and what that shows.
VERDICTS = [
    ("t1/a1", "t1/a3", OPEN, True, "one namespace, one node"),
    ("t1/a1", "t1/a2", OPEN, True, "one namespace, two nodes"),
    ("t2/b1", "t1/a1", OPEN, False, "into a closed namespace, one node"),
    ("t2/b2", "t1/a1", OPEN, False, "into a closed namespace, two nodes"),
    ("t2/b1", "t1/a1", GATE, False, "the gate is for people's addresses"),
    ("t1/a1", "t2/b1", OPEN, False, "out of a closed namespace, one node"),
    ("t1/a1", "t2/b2", OPEN, False, "out of a closed namespace, two nodes"),
    ("t2/b1", "t2/b2", OPEN, True, "a namespace without policies"),
    ("t1/a1", API, 443, False, "the API server, from a closed namespace"),
    ("t2/b1", API, 443, True, "the API server, from one without policies"),
    ("t1/a1", "node/1", 10250, False, "the kubelet of its own node"),
    ("t1/a1", "node/2", 10250, False, "the kubelet of the other node"),
    (HERE, "t1/a1", GATE, True, "people at the gate"),
    (HERE, "t1/a1", OPEN, False, "people beside the gate"),
]


@pytest.fixture(scope="module")
def placed(cluster: NodeCluster, pods: Pods) -> Iterator[dict[str, str]]:
    """The pods of the table, ready; "namespace/name" -> address."""
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in ("t1", "t2")
    ]
    policies = [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"namespace": "t1", "name": name},
            "spec": spec,
        }
        for name, spec in (("boundary", BOUNDARY), ("gate", GATES))
    ]
    pods.apply(*spaces, *policies)
    for namespace in ("t1", "t2"):
        path = ("-n", namespace, "get", "serviceaccount", "default")
        wait_for("it has an account", lambda path=path: pods.ask(*path).is_done)
    pods.apply(
        *(
            server(*name.split("/"), cluster.nodes[number - 1].name)
            for name, number in PLACED.items()
        )
    )
    for name in PLACED:
        pods.wait_until_ready(*name.split("/"))
    yield {name: pods.address(*name.split("/")) for name in PLACED}
    pods.remove("t1", "t2")


def _is_let_through(pods: Pods, placed: dict[str, str], who: str, whom: str, port: int) -> bool:
    address = placed.get(whom, whom)
    if whom.startswith(NODE):
        address = network.address(int(whom.partition("/")[2]))
    if who == HERE:
        return reaches_from_here(address, port)
    return pods.reaches(*who.split("/"), address, port)


def _seen(pods: Pods, placed: dict[str, str]) -> list[str]:
    """The rows that are not as the table has them, in words."""
    return [
        f"{who} -> {whom}:{port} ({what}) is {'closed' if is_open else 'open'}"
        for who, whom, port, is_open, what in VERDICTS
        if _is_let_through(pods, placed, who, whom, port) is not is_open
    ]


def test_both_nodes_are_ready_and_are_what_they_say(cluster: NodeCluster, pods: Pods) -> None:
    nodes = {node["metadata"]["name"]: node for node in pods.get("nodes")["items"]}
    assert set(nodes) == {node.name for node in cluster.nodes}
    for node in cluster.nodes:
        status = nodes[node.name]["status"]
        assert [c["status"] for c in status["conditions"] if c["type"] == "Ready"] == ["True"]
        assert status["nodeInfo"]["kubeletVersion"] == cluster.control_plane.version
        assert status["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")
        assert {"type": "InternalIP", "address": node.address} in status["addresses"]
    boots = {node["status"]["nodeInfo"]["bootID"] for node in nodes.values()}
    assert len(boots) == 1, "they are on one machine"


@pytest.mark.usefixtures("placed")
def test_names_are_found_from_both_nodes(pods: Pods) -> None:
    program = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
    name = "kubernetes.default.svc.cluster.local"
    for who in ("a1", "a2"):
        assert pods.python("t1", who, program, name).out.strip() == API


def test_a_service_leads_to_pods_of_both_nodes(
    cluster: NodeCluster, pods: Pods, placed: dict[str, str]
) -> None:
    spec = {"selector": {"app": "b2"}, "ports": [{"port": 80, "targetPort": OPEN}]}
    meta = {"namespace": "t2", "name": "b"}
    ports = [{"port": 80, "targetPort": OPEN, "nodePort": NODE_PORT}]
    pods.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {**meta, "name": "outside"},
            "spec": {**spec, "type": "NodePort", "ports": ports},
        },
    )
    ask = "import urllib.request as u; print(u.urlopen('http://b', timeout=5).status)"
    for who in ("b1", "b2"):
        wait_for("it answers", lambda who=who: pods.python("t2", who, ask).out.strip() == "200")
    for node in cluster.nodes:
        wait_for(f"{node.name}", lambda node=node: reaches_from_here(node.address, NODE_PORT))


def test_policies_let_through_what_the_table_says(pods: Pods, placed: dict[str, str]) -> None:
    """Rules for a new pod may be a second late, so the first look is until all is as it should be."""
    wait_for("the verdicts", lambda: not _seen(pods, placed), timeout_s=60, interval_s=1)
    assert _seen(pods, placed) == []


def test_policies_hold_while_kube_router_starts_again(
    cluster: NodeCluster, pods: Pods, placed: dict[str, str]
) -> None:
    assert _seen(pods, placed) == []
    for node in cluster.nodes:
        for pid in _inside(node.first_process, "kube-router"):
            os.kill(pid, signal.SIGKILL)
    assert _seen(pods, placed) == [], "rules stay while nobody tends them"
    for node in cluster.nodes:
        wait_for(
            "kube-router is back", lambda node=node: _inside(node.first_process, "kube-router")
        )
    assert _seen(pods, placed) == []


def _inside(first: int, program: str) -> list[int]:
    """Processes of a node that run the program."""
    ours = Path(f"/proc/{first}/ns/pid").readlink()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "ns/pid").readlink() == ours and (
                (place / "comm").read_text().strip() == program
            ):
                found.append(int(place.name))
        except OSError:
            continue
    return found
