"""Rows of nodes from what the watches bring: capacity, taints, and whose pods hold GPUs."""

from typing import Any

import pytest

from jobs.models import Node
from jobs.reconciler import nodes
from portal.cluster.view import ClusterView
from tests.portal.cluster.conftest import api, cluster  # noqa: F401  (fixtures)
from tests.portal.cluster.fake_api import FakeApi
from tests.portal.cluster.test_view import view  # noqa: F401  (a fixture)
from tests.portal.cluster.test_watch import until

AMOUNTS = {"cpu": "16", "memory": "64Gi", "pods": "110"}


def node(allocatable_gpus: int = 3) -> dict[str, Any]:
    gpu = "nvidia.com/gpu"
    return {
        "kind": "Node",
        "metadata": {"name": "n1", "annotations": {"homeport.dev/gpu-models": "0: H100"}},
        "spec": {"taints": [{"key": gpu, "effect": "NoSchedule"}]},
        "status": {
            "capacity": {**AMOUNTS, gpu: "4"},
            "allocatable": {**AMOUNTS, gpu: str(allocatable_gpus)},
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "",
                    "message": "",
                    "lastTransitionTime": "2026-11-20T10:00:00Z",
                    "lastHeartbeatTime": "2026-11-20T10:05:00Z",
                }
            ],
            "nodeInfo": {"kubeletVersion": "v1.33.2", "osImage": "Debian", "architecture": "amd64"},
        },
    }


def pod(
    name: str, gpus: int, *, node: str = "n1", owner: str = "", **status: Any
) -> dict[str, Any]:
    marks = {"app.kubernetes.io/managed-by": "homeport", "homeport.dev/owner": owner}
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": str(gpus)}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "u-x", "labels": marks if owner else {}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": "Running", **status},
    }


@pytest.fixture
async def seen(api: FakeApi, view: ClusterView) -> ClusterView:  # noqa: F811
    api.put(node())
    api.put(pod("ours", 2, owner="job-1", startTime="2026-11-20T11:00:00Z"))
    api.put(pod("foreign", 1))
    api.put(pod("without", 0))
    api.put(pod("waiting", 1, node=""))
    api.put(pod("over", 1, phase="Succeeded"))
    await until(lambda: len(view.pods) == 5 and len(view.nodes) == 1)
    return view


async def test_a_row_has_what_the_node_tells(seen: ClusterView) -> None:
    row = nodes.look(seen)["n1"]
    assert (row.capacity.gpu, row.allocatable.gpu, row.requested.gpu) == (4, 3, 3)
    assert row.taints == ({"key": "nvidia.com/gpu", "value": "", "effect": "NoSchedule"},)
    assert row.conditions[0]["since"] == "2026-11-20T10:00:00+00:00"
    assert row.about == {
        "gpu_models": "0: H100",
        "kubelet": "v1.33.2",
        "system": "Debian",
        "machine": "amd64",
    }


async def test_holders_are_the_pods_that_have_a_gpu_and_have_not_ended(seen: ClusterView) -> None:
    held = [(h["pod"], h["gpu"], h["owner"]) for h in nodes.look(seen)["n1"].holders]
    assert held == [("foreign", 1, ""), ("ours", 2, "job-1")]
    assert nodes.look(seen)["n1"].holders[1]["since"] == "2026-11-20T11:00:00+00:00"


async def test_a_pod_that_ends_or_goes_holds_nothing(api: FakeApi, seen: ClusterView) -> None:  # noqa: F811
    api.change("Pod", "u-x", "ours", {"status": {"phase": "Failed"}})
    api.remove("Pod", "u-x", "foreign")
    await until(lambda: not seen.gpu_pods_of("n1"))
    assert nodes.look(seen)["n1"].holders == ()


async def test_gpus_that_are_named_later_make_the_node_dirty(
    api: FakeApi,  # noqa: F811
    seen: ClusterView,
) -> None:
    seen.take_dirty()
    marks = {"homeport.dev/gpu-indices": '{"main": [2, 0]}'}
    api.change("Pod", "u-x", "ours", {"metadata": {"annotations": marks}})
    await until(lambda: nodes.look(seen)["n1"].holders[1]["gpus"] == "0,2")
    assert seen.take_dirty().nodes


@pytest.mark.parametrize(
    ("annotation", "numbers"),
    [
        ("", ""),
        ('{"main": [0, 3]}', "0,3"),
        ('{"a": [1], "b": [0]}', "0,1"),
        ("[1]", ""),
        ('{"main": "all"}', ""),
        ('{"main": ["<b>"]}', ""),
        ("{", ""),
    ],
)
def test_the_numbers_of_gpus_are_read_with_care(annotation: str, numbers: str) -> None:
    assert nodes.gpu_indices(annotation) == numbers


@pytest.mark.django_db
def test_what_is_written_can_be_read_back() -> None:
    from dataclasses import replace

    from jobs.rules.admission import Amount

    row = nodes.NodeRow("n1", True, True, Amount(gpu=4), Amount(gpu=3), Amount(), about={"k": "v"})
    nodes.write([row, replace(row, name="n2")], [])
    nodes.write([], ["n2"])
    kept = Node.objects.get()
    assert (kept.name, kept.capacity["gpu"], kept.allocatable["gpu"]) == ("n1", 4, 3)
    assert kept.about == {"k": "v"}
