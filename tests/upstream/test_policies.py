"""Whom the policies let through, as somebody else reads them: cyclonus, a simulator of NetworkPolicy.

It judges what `overlays/small` renders for Homeport, together with the namespaces of two people:
https://github.com/mattfenwick/cyclonus
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from pytest_django import Settings

from deploy.testcluster import binaries
from tenants.manifests import render_tenant
from tenants.models import Tenant
from tests.deploy.sites import site
from tests.manifests.test_tenant_manifests import ada
from tests.tools.manifests import objects
from tests.tools.missing import is_missing

pytestmark = pytest.mark.upstream
CYCLONUS = binaries.Product(
    "cyclonus",
    "cyclonus",
    "github.com/mattfenwick/cyclonus",
    {"cyclonus": "github.com/mattfenwick/cyclonus/cmd/cyclonus"},
)
OWNER = "homeport.dev/owner"
# Name -> namespace, labels of the pod, address; without a namespace it is no pod.
WHO: dict[str, tuple[str, dict[str, str], str]] = {
    "ada's worker": ("u-ada-1b2c3d4e", {"homeport.dev/role": "worker"}, "10.42.0.10"),
    "ada's notebook": ("u-ada-1b2c3d4e", {"homeport.dev/role": "notebook"}, "10.42.0.11"),
    "bob's worker": ("u-bob-5e6f7a8b", {"homeport.dev/role": "worker"}, "10.42.0.12"),
    "stranger": ("default", {"app": "x"}, "10.42.0.13"),
    "dns": ("kube-system", {"k8s-app": "kube-dns"}, "10.42.0.14"),
    **{
        name: ("homeport", {"app.kubernetes.io/component": name}, f"10.42.0.{number}")
        for number, name in enumerate(
            ("web", "reconciler", "migrate", "postgres", "redis", "doctor"), 20
        )
    },
    "laptop": ("", {}, "192.168.1.77"),
    "internet": ("", {}, "93.184.216.34"),
    "far laptop": ("", {}, "172.20.1.5"),
    "node": ("", {}, "192.168.1.10"),
    "API server": ("", {}, "10.43.0.1"),
    "metadata": ("", {}, "169.254.169.254"),
}
OPEN = [
    *(("ada's worker", "ada's notebook", port) for port in (2222, 8888)),
    *(("ada's worker", who, port) for who, port in (("web", 8001), ("dns", 53), ("internet", 443))),
    ("laptop", "ada's notebook", 8888),
    ("node", "ada's notebook", 8888),
    ("laptop", "web", 8000),
    *((who, "postgres", 5432) for who in ("web", "reconciler", "migrate")),
    *((who, "redis", 6379) for who in ("web", "reconciler")),
    *((who, "API server", 443) for who in ("web", "reconciler")),
    ("web", "dns", 53),
    *(("doctor", who, port) for who, port in (("web", 8000), ("node", 31000), ("API server", 443))),
]
CLOSED = [
    *(("ada's worker", "bob's worker", port) for port in (2222, 8888)),
    *(("ada's worker", "web", port) for port in (8000, 9100)),
    *(("ada's worker", who, port) for who, port in (("postgres", 5432), ("redis", 6379))),
    *(("ada's worker", who, 443) for who in ("API server", "metadata", "stranger", "laptop")),
    ("ada's worker", "node", 10250),
    ("bob's worker", "ada's notebook", 8888),
    ("laptop", "ada's notebook", 2222),
    ("laptop", "ada's worker", 22),
    ("far laptop", "ada's notebook", 8888),
    *((who, "ada's notebook", 8888) for who in ("stranger", "web", "reconciler")),
    *(("laptop", who, port) for who, port in (("web", 8001), ("postgres", 5432), ("redis", 6379))),
    *(("stranger", "web", port) for port in (8000, 8001, 9100)),
    *(("stranger", who, port) for who, port in (("postgres", 5432), ("redis", 6379))),
    ("far laptop", "web", 8000),
    ("migrate", "redis", 6379),
    ("migrate", "API server", 443),
    ("postgres", "internet", 443),
    ("redis", "postgres", 5432),
    # To gates of its own namespace alone.
    *(("doctor", who, port) for who, port in (("ada's notebook", 8888), ("web", 8001))),
    *(("doctor", who, port) for who, port in (("postgres", 5432), ("redis", 6379))),
]


def people() -> list[Tenant]:
    """Two, each with a namespace."""
    bob = ada(namespace="u-bob-5e6f7a8b")
    return [ada(), bob]


def peer(name: str) -> dict[str, Any]:
    namespace, labels, address = WHO[name]
    if not namespace:
        return {"IP": address}
    of_all = {"kubernetes.io/metadata.name": namespace}
    if namespace == "homeport":
        labels = {"app.kubernetes.io/name": "homeport", **labels}
    if namespace.startswith("u-"):
        of_all |= {OWNER: "somebody", "app.kubernetes.io/managed-by": "homeport"}
    inside = {"Namespace": namespace, "NamespaceLabels": of_all, "PodLabels": labels}
    return {"IP": address, "Internal": inside}


def verdicts(policies: list[dict[str, Any]], folder: Path) -> dict[tuple[str, str, int], bool]:
    """What it says of each row of both tables."""
    asked = [*OPEN, *CLOSED]
    (folder / "policies").mkdir(exist_ok=True)
    for old in (folder / "policies").iterdir():
        old.unlink()
    for number, policy in enumerate(policies):  # of a file with several it reads the first
        (folder / "policies" / f"{number}.yaml").write_text(yaml.safe_dump(policy))
    traffic = [
        {
            "Source": peer(source),
            "Destination": peer(target),
            "Protocol": "UDP" if port == 53 else "TCP",
            "ResolvedPort": port,
            "ResolvedPortName": "",
        }
        for source, target, port in asked
    ]
    (folder / "traffic.json").write_text(json.dumps(traffic))
    files = ("--policy-path", "policies", "--traffic-path", "traffic.json")
    try:
        program = str(binaries.program(CYCLONUS, "cyclonus"))
    except binaries.NoBinariesError as error:
        is_missing(str(error))
    command = [program, "analyze", "--mode", "query-traffic", *files]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = re.findall(r"IS ALLOWED\? \| +(TRUE|FALSE)", done.stdout)
    assert len(found) == len(asked), done.stdout[-3000:]
    return {row: said == "TRUE" for row, said in zip(asked, found, strict=True)}


def test_another_reader_of_the_policies_comes_to_the_same_verdicts(
    tmp_path: Path, settings: Settings
) -> None:
    documents = objects(site(tmp_path))
    [ours] = [
        one["data"]
        for one in documents
        if one["kind"] == "ConfigMap" and one["metadata"]["name"].startswith("homeport-")
    ]
    settings.NODE_CIDRS = ours["NODE_CIDRS"].split()
    settings.CLIENT_CIDRS = ours["CLIENT_CIDRS"].split()
    settings.POD_PORTAL_URL = ours["POD_PORTAL_URL"]
    pairs = ours["POD_PORTAL_SELECTOR"].split(",")
    settings.POD_PORTAL_SELECTOR = dict(pair.split("=") for pair in pairs)
    settings.POD_PORT, settings.STORAGE_CLASS = int(ours["POD_PORT"]), ours["STORAGE_CLASS"]
    settings.CLUSTER_CIDRS = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]
    settings.S3_ENDPOINT = settings.S3_POD_ENDPOINT = ""
    every = documents + [one for person in people() for one in render_tenant(person)]
    policies = [one for one in every if one["kind"] == "NetworkPolicy"]
    said = verdicts(policies, tmp_path)
    assert {row for row, is_open in said.items() if is_open} == set(OPEN)
    # It tells the difference.
    without = [one for one in policies if one["metadata"]["name"] != "homeport-boundary"]
    assert verdicts(without, tmp_path)["ada's worker", "metadata", 443]
