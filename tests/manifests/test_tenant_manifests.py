"""Manifests of a tenant: whole documents against golden files, and the rules of its boundary.

`HOMEPORT_WRITE_GOLDEN=1 pytest tests/manifests` rewrites the files; review the difference.
"""

import ipaddress
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from onebox.node import egress
from portal.errors import ConfigurationError
from tenants.manifests import (
    CLOSED_CIDRS,
    GATE_PORT,
    EgressPeer,
    closed_networks,
    observed,
    peer_of,
    render_tenant,
)
from tenants.models import Team, Tenant, User
from tests.tools.addresses import CLOSED, OPEN, PRIVATE

GOLDEN = Path(__file__).parent / "golden"
REPOSITORY = Path(__file__).resolve().parents[2]


def ada(**changes: Any) -> Tenant:
    fields: dict[str, Any] = {
        "id": UUID("9d3f8a52-0d3c-4a0e-b0a3-5f7c2f1d6e11"),
        "namespace": "u-ada-1b2c3d4e",
        "owner": User(id=UUID(int=1), username="ada", first_name="Ada", email="ada@lab.example"),
        "team": Team(id=UUID(int=2), name="vision"),
        "quota_cpu_millicores": 7500,
        "quota_memory_bytes": 16 * 2**30,
        "quota_gpu_count": 2,
        "quota_pods": 20,
        "quota_nodeports": 4,
        "data_volume_bytes": 10 * 2**30,
        "log_volume_bytes": 5 * 2**30,
        **changes,
    }
    return Tenant(**fields)


@pytest.fixture(autouse=True)
def plain_settings(settings: Settings) -> None:
    settings.CLUSTER_CIDRS = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]
    settings.NODE_CIDRS = []
    settings.CLIENT_CIDRS = []
    settings.STORAGE_CLASS = "glusterfs"
    settings.POD_PORTAL_URL = "http://10.244.0.1:8000"
    settings.S3_ENDPOINT = settings.S3_POD_ENDPOINT = ""
    settings.POD_PORTAL_SELECTOR = {}


def check_golden(name: str, documents: list[dict[str, Any]]) -> None:
    path = GOLDEN / name
    text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True, width=100)
    if os.environ.get("HOMEPORT_WRITE_GOLDEN"):
        path.write_text(text)
    assert list(yaml.safe_load_all(path.read_text())) == documents


def test_homeports_doctor_comes_to_the_gates_of_its_own_namespace_alone(settings: Settings) -> None:
    settings.DOCTOR_USER = "ada"
    [gate] = [one for one in render_tenant(ada()) if one["metadata"]["name"] == "homeport-gate"]
    assert gate["spec"]["ingress"][0]["from"] == [
        {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "homeport"}},
            "podSelector": {"matchLabels": {"app.kubernetes.io/component": "doctor"}},
        }
    ]
    settings.DOCTOR_USER = "lin"
    assert "doctor" not in str(render_tenant(ada()))


def test_a_tenant_on_one_machine():
    check_golden("tenant.yaml", render_tenant(ada()))


def test_a_tenant_of_a_lab(settings: Settings):
    settings.NODE_CIDRS = ["10.1.0.0/16"]
    settings.CLIENT_CIDRS = ["131.234.0.7/16"]
    settings.POD_PORTAL_URL = "http://homeport.homeport.svc.cluster.local:8000"
    settings.S3_ENDPOINT = "https://10.1.9.9:9000"
    settings.STORAGE_CLASS = "nfs"
    check_golden("tenant-lab.yaml", render_tenant(ada()))


def test_of_a_namespace_the_portals_pods_alone_are_reached(settings: Settings):
    settings.POD_PORTAL_URL = "http://homeport-pods.homeport.svc.cluster.local:8000"
    settings.POD_PORTAL_SELECTOR = {"component": "web", "app.kubernetes.io/name": "homeport"}
    settings.POD_PORT = 8001
    settings.S3_ENDPOINT = "http://store.minio.svc:9000"
    named = [
        (peer, rule.get("ports"))
        for rule in egress_of(render_tenant(ada()))
        for peer in rule.get("to", [])
        if "namespaceSelector" in peer
    ]
    homeport, minio = (
        {"matchLabels": {"kubernetes.io/metadata.name": name}} for name in ("homeport", "minio")
    )
    pods = {"matchLabels": {"component": "web", "app.kubernetes.io/name": "homeport"}}
    assert named == [
        (
            {"namespaceSelector": homeport, "podSelector": pods},
            [{"protocol": "TCP", "port": 8001}],
        ),
        ({"namespaceSelector": minio}, None),
    ]


def test_a_volume_has_no_owner():
    for document in render_tenant(ada()):
        assert "ownerReferences" not in document["metadata"]


def test_pods_may_go_nowhere_but_to_their_own_when_everything_is_closed(settings: Settings):
    settings.CLUSTER_CIDRS = ["0.0.0.0/0"]
    policy = next(d for d in render_tenant(ada()) if d["kind"] == "NetworkPolicy")
    blocks = [
        peer["ipBlock"]["cidr"]
        for rule in policy["spec"]["egress"]
        for peer in rule.get("to", [])
        if "ipBlock" in peer
    ]
    assert blocks == ["10.244.0.1/32"]


def test_pods_reach_servers_at_private_addresses_where_the_site_names_them(settings: Settings):
    settings.S3_ENDPOINT = "https://s3.lab.example"
    settings.POD_EGRESS_CIDRS = ["192.168.7.0/28"]
    policy = next(d for d in render_tenant(ada()) if d["kind"] == "NetworkPolicy")
    assert {"to": [{"ipBlock": {"cidr": "192.168.7.0/28"}}]} in policy["spec"]["egress"]


@pytest.mark.parametrize(
    "name", ["CLUSTER_CIDRS", "NODE_CIDRS", "CLIENT_CIDRS", "POD_EGRESS_CIDRS"]
)
def test_a_setting_that_is_no_network_is_named(settings: Settings, name: str):
    setattr(settings, name, ["10.0.0/8"])
    with pytest.raises(ConfigurationError, match=rf"{name}: '10\.0\.0/8' is no network"):
        render_tenant(ada())


@pytest.mark.parametrize(
    ("url", "peer"),
    [
        ("http://10.244.0.1:8000", EgressPeer(cidr="10.244.0.1/32", port=8000)),
        ("https://10.1.1.1", EgressPeer(cidr="10.1.1.1/32", port=443)),
        ("http://[fd00::1]:80", EgressPeer(cidr="fd00::1/128", port=80)),
        ("http://homeport.lab.svc:8000", EgressPeer(namespace="lab")),
        ("http://homeport.lab.svc.cluster.local:8000", EgressPeer(namespace="lab")),
        ("https://s3.example.org", None),
    ],
)
def test_where_a_url_lies(url: str, peer: EgressPeer | None):
    assert peer_of(url) == peer


ipv4_networks = st.ip_addresses(v=4).flatmap(
    lambda address: st.integers(1, 32).map(
        lambda length: str(ipaddress.ip_network(f"{address}/{length}", strict=False))
    )
)


@given(st.lists(ipv4_networks))
def test_what_is_never_the_internet_is_always_closed(cidrs: list[str]):
    closed = closed_networks([*cidrs, "fd00::/8"])
    assert {cidr for cidr in CLOSED_CIDRS if ":" not in cidr} <= set(closed)
    assert set(cidrs) <= set(closed)
    assert len(set(closed)) == len(closed)
    assert all(ipaddress.ip_network(cidr).version == 4 for cidr in closed)


def egress_of(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    policies = [d for d in documents if d["kind"] == "NetworkPolicy"]
    return [rule for policy in policies for rule in policy["spec"].get("egress", [])]


def is_open(documents: list[dict[str, Any]], address: str) -> bool:
    """Whether some rule lets pods connect to an address, at any port."""
    wanted = ipaddress.ip_address(address)

    def matches(cidr: str) -> bool:
        return wanted in ipaddress.ip_network(cidr)

    blocks = [
        peer["ipBlock"]
        for rule in egress_of(documents)
        for peer in rule.get("to", [])
        if "ipBlock" in peer
    ]
    return any(
        matches(block["cidr"]) and not any(map(matches, block.get("except", [])))
        for block in blocks
    )


@pytest.mark.parametrize(
    ("address", "expected"),
    [(a, False) for a in (*CLOSED, *PRIVATE)] + [(a, True) for a in OPEN if ":" not in a],
)
def test_pods_may_reach_the_internet_and_no_service_of_the_cloud(
    settings: Settings, address: str, expected: bool
):
    settings.POD_PORTAL_URL = ""
    assert is_open(render_tenant(ada()), address) is expected


def test_policy_and_proxy_close_the_same():
    assert egress.CLOSED_CIDRS == CLOSED_CIDRS


def test_pods_may_reach_the_object_store_at_both_of_its_addresses(settings: Settings):
    settings.S3_ENDPOINT = "https://10.1.9.9:9000"
    settings.S3_POD_ENDPOINT = "http://10.1.9.10:9001"
    peers = [
        (peer["ipBlock"]["cidr"], rule["ports"][0]["port"])
        for rule in egress_of(render_tenant(ada()))
        for peer in rule.get("to", [])
        if "ipBlock" in peer and "ports" in rule
    ]
    assert peers == [("10.244.0.1/32", 8000), ("10.1.9.9/32", 9000), ("10.1.9.10/32", 9001)]


def test_no_policy_names_a_port_by_name(settings: Settings):
    """A network plugin need not find the name: the gate's stands on a sidecar."""
    settings.CLIENT_CIDRS = ["131.234.0.0/16"]
    files = [*GOLDEN.glob("*.yaml"), *(REPOSITORY / "deploy").rglob("*.yaml")]
    documents = render_tenant(ada())
    for file in files:
        documents += [found for found in yaml.safe_load_all(file.read_text()) if found]
    ports = [
        entry["port"]
        for policy in documents
        if policy["kind"] == "NetworkPolicy"
        for way in ("ingress", "egress")
        for rule in policy["spec"].get(way, [])
        for entry in rule.get("ports", [])
    ]
    assert GATE_PORT in ports
    assert all(isinstance(port, int) for port in ports), ports


def test_a_quota_is_read_back_in_our_units():
    hard = {"requests.cpu": "7500m", "requests.memory": "16Gi", "pods": "20", "other": "1"}
    assert observed(hard) == {"cpu": 7500, "memory": 16 * 2**30, "pods": 20}
