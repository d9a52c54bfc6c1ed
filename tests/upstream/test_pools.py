"""Pools on a control plane: pods land on the nodes of their pool and on no others, by its own scheduler as well.

No node is tainted, and the labels of pools overlap; nodes are played by KWOK.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.child import Child
from deploy.testcluster import binaries
from deploy.testcluster.controlplane import Options
from deploy.testcluster.kwok import MANAGER_FLAGS, node
from deploy.testcluster.ports import free_port
from portal.cluster import labels
from portal.cluster.kinds import get_kind
from tests.contract.kube import Json
from tests.upstream.lab import ROOT, Lab, opened
from tests.upstream.power import need_built

pytestmark = pytest.mark.upstream

ROOM = {"cpu": "64", "memory": "256Gi", "pods": "200", "nvidia.com/gpu": "8"}
NODES = {
    "a-1": {"gpu": "a100"},
    "a-2": {"gpu": "a100", "zone": "x", "tier": "big"},  # of the first pool, which selects it, too
    "a-3": {"gpu": "a100"},
    "x-1": {"zone": "x", "tier": "big"},
    "x-half": {"zone": "x"},  # of no pool, like the four that every one of these clusters has
    "s-1": {"by": "second"},
}
POOLS = [
    {"name": "a100", "node_selector": {"gpu": "a100"}},
    {"name": "x", "node_selector": {"zone": "x", "tier": "big"}},
    {"name": "second", "node_selector": {"by": "second"}, "scheduler_name": "second"},
]
OTHERS = {"x-half", *(f"node-{number}" for number in range(4))}
PLACED_S = 120
_SUBMIT = """
from tests.factories import make_job, role_request
from tenants.models import Tenant
tenant = Tenant.objects.get(owner__username="ada")
small = {{"cpu_millicores": 100, "memory_bytes": 2**26}}
roles = {{name: {{**role_request(**small), **own}} for name, own in {roles}.items()}}
topology = "tf-ps" if "ps" in roles else "torch-ddp"
make_job(tenant, name="{name}", topology=topology, replicas=roles, **{asked})
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    need_built(binaries.KUBERNETES, binaries.ETCD, binaries.KWOK)
    raw = yaml.safe_load((ROOT / "portal" / "catalog.yaml").read_text())
    catalog = tmp_path_factory.mktemp("catalog") / "catalog.yaml"
    catalog.write_text(yaml.safe_dump({**raw, "pools": POOLS}))
    options = Options(flags={"kube-controller-manager": MANAGER_FLAGS})
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CATALOG", str(catalog))
        with opened("pools", options) as made:
            for name, marks in NODES.items():
                made.kube.must("POST", get_kind("Node").path(), node(name, ROOM, marks))
            yield made


def submit(lab: Lab, name: str, roles: dict[str, Any], **asked: Any) -> str:
    lab.python(_SUBMIT.format(name=name, roles=roles, asked=asked))
    return lab.ids(name)[0]


def pods_of(lab: Lab, pk: str) -> list[Json]:
    return [p for p in lab.objects("Pod") if p["metadata"]["labels"].get(labels.OWNER) == pk]


def nodes_of(lab: Lab, pk: str) -> dict[str, list[str]]:
    """Role -> the nodes of its pods; none while one has none."""
    pods = pods_of(lab, pk)
    if not pods or not all(pod["spec"].get("nodeName") for pod in pods):
        return {}
    found: dict[str, list[str]] = {}
    for pod in pods:
        role = pod["metadata"]["labels"][labels.ROLE]
        found.setdefault(role, []).append(pod["spec"]["nodeName"])
    return found


def preferred_by(pod: Json) -> set[str]:
    """Names of nodes."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    return {name for term in terms for name in term["preference"]["matchFields"][0]["values"]}


TWELVE = {"worker": {"count": 12}}


@pytest.mark.parametrize(
    ("name", "roles", "asked", "where"),
    [
        ("first", TWELVE, {"pool": "a100"}, {"worker": {"a-1", "a-2", "a-3"}}),
        ("later", TWELVE, {"pool": "x"}, {"worker": {"x-1"}}),
        ("rest", TWELVE, {"pool": "default"}, {"worker": OTHERS}),
        ("any", TWELVE, {}, {"worker": OTHERS}),
        (
            "gpus",
            {"worker": {"count": 8, "gpu_count": 1}, "ps": {"count": 6}},
            {},
            {"worker": {"a-1", "a-2", "a-3"}, "ps": OTHERS},
        ),
        (
            "roles",
            {"worker": {"count": 2, "gpu_count": 1}, "ps": {"count": 2, "pool": "x"}},
            {"pool": "a100"},
            {"worker": {"a-1", "a-2", "a-3"}, "ps": {"x-1"}},
        ),
    ],
)
def test_pods_land_in_their_pool_only(
    lab: Lab, name: str, roles: Any, asked: Any, where: dict[str, set[str]]
) -> None:
    with lab.reconciler():
        pk = submit(lab, name, roles, **asked)
        wanted = sum(role["count"] for role in roles.values())
        lab.wait("all pods are placed", lambda: _count(nodes_of(lab, pk)) == wanted, PLACED_S)
        found = nodes_of(lab, pk)
        print(name, found)
        assert found.keys() == where.keys()
        for role, nodes in found.items():
            assert set(nodes) <= where[role]
        for pod in pods_of(lab, pk):  # nobody was faster
            assert pod["spec"]["nodeName"] in preferred_by(pod)
        lab.clear([pk])


def test_replicas_are_packed_or_spread(lab: Lab) -> None:
    with lab.reconciler():
        found = {}
        for placement in ("pack", "spread"):
            asked = {"pool": "a100", "placement": placement}
            pk = submit(lab, placement, {"worker": {"count": 6}}, **asked)
            lab.wait("all are placed", lambda pk=pk: _count(nodes_of(lab, pk)) == 6, PLACED_S)  # type: ignore[misc]
            found[placement] = nodes_of(lab, pk)["worker"]
            lab.clear([pk])
    print(found)
    assert len(set(found["pack"])) == 1
    assert sorted(map(found["spread"].count, set(found["spread"]))) == [2, 2, 2]


def test_a_pool_is_placed_by_the_scheduler_that_it_names(lab: Lab) -> None:
    with lab.reconciler():
        pk = submit(lab, "second", {"worker": {"count": 3}}, pool="second")
        lab.wait("its pods are there", lambda: len(pods_of(lab, pk)) == 3, PLACED_S)
        other = submit(lab, "by the first", {"worker": {"count": 3}})
        lab.wait("others are placed", lambda: _count(nodes_of(lab, other)) == 3, PLACED_S)
        assert not any(pod["spec"].get("nodeName") for pod in pods_of(lab, pk)), "nobody places it"
        with scheduler(lab, "second"):
            lab.wait("it is placed", lambda: _count(nodes_of(lab, pk)) == 3, PLACED_S)
        assert set(nodes_of(lab, pk)["worker"]) == {"s-1"}
        lab.wait("it runs", lambda: lab.states([pk]) == {"running": 1}, PLACED_S)
        lab.clear([pk, other])


def _count(nodes: dict[str, list[str]]) -> int:
    return sum(map(len, nodes.values()))


@contextmanager
def scheduler(lab: Lab, name: str) -> Iterator[None]:
    """Another kube-scheduler, which places the pods that name it."""
    home = lab.plane.home
    configuration = home / f"{name}.yaml"
    configuration.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {
                    "kubeconfig": str(home / "keys" / "kube-scheduler.kubeconfig")
                },
                "leaderElection": {"leaderElect": False},
                "profiles": [{"schedulerName": name}],
            }
        )
    )
    program = binaries.program(binaries.KUBERNETES, "kube-scheduler", print)
    command = [str(program), f"--config={configuration}", f"--secure-port={free_port()}"]
    log = home / "log" / f"{name}.log"
    child = Child(name, command, {}, Path(home), log=log, grace_s=10.0)
    child.start()
    try:
        yield
    finally:
        child.stop(lambda: False)
