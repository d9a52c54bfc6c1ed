"""Rows of nodes from what the watches bring: capacity, taints, and whose pods hold GPUs."""

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError

from jobs.engine import nodes
from jobs.models import Node
from portal.cluster.cache import ClusterCache
from tests.portal.cluster.conftest import api, cluster  # noqa: F401  (fixtures)
from tests.portal.cluster.fake_api import FakeApi
from tests.portal.cluster.test_cache import cache  # noqa: F401  (a fixture)
from tests.portal.cluster.test_listwatch import until

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
async def seen(api: FakeApi, cache: ClusterCache) -> ClusterCache:  # noqa: F811
    api.put(node())
    api.put(pod("ours", 2, owner="job-1", startTime="2026-11-20T11:00:00Z"))
    api.put(pod("foreign", 1))
    api.put(pod("without", 0))
    api.put(pod("waiting", 1, node=""))
    api.put(pod("over", 1, phase="Succeeded"))
    await until(lambda: len(cache.pods) == 5 and len(cache.nodes) == 1)
    return cache


async def test_a_row_has_what_the_node_tells(seen: ClusterCache) -> None:
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


async def test_holders_are_the_pods_that_have_a_gpu_and_have_not_ended(seen: ClusterCache) -> None:
    held = [(h["pod"], h["gpu"], h["owner"]) for h in nodes.look(seen)["n1"].holders]
    assert held == [("foreign", 1, ""), ("ours", 2, "job-1")]
    assert nodes.look(seen)["n1"].holders[1]["since"] == "2026-11-20T11:00:00+00:00"


async def test_a_pod_that_ends_or_goes_holds_nothing(api: FakeApi, seen: ClusterCache) -> None:  # noqa: F811
    api.change("Pod", "u-x", "ours", {"status": {"phase": "Failed"}})
    api.remove("Pod", "u-x", "foreign")
    await until(lambda: not seen.gpu_pods_of("n1"))
    assert nodes.look(seen)["n1"].holders == ()


async def test_gpus_that_are_named_later_change_the_node(
    api: FakeApi,  # noqa: F811
    seen: ClusterCache,
) -> None:
    seen.take_changes()
    marks = {"homeport.dev/gpu-indices": '{"main": [2, 0]}'}
    api.change("Pod", "u-x", "ours", {"metadata": {"annotations": marks}})
    await until(lambda: nodes.look(seen)["n1"].holders[1]["gpus"] == "0,2")
    assert seen.take_changes().nodes == {"n1"}


class Commits:
    """A lease that is never lost."""

    async def commit(self, write: Callable[[], Any]) -> Any:
        return await sync_to_async(write)()


@pytest.mark.django_db(transaction=True)
async def test_a_look_after_the_first_is_at_what_changed(
    api: FakeApi,  # noqa: F811
    seen: ClusterCache,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("n2", "n3"):
        other = node()
        other["metadata"]["name"] = name
        api.put(other)
    await until(lambda: len(seen.nodes) == 3)
    await Node.objects.acreate(name="from before")
    following = nodes.NodesPass(seen, Commits())  # type: ignore[arg-type]
    assert await following.run_once()
    assert sorted([row.name async for row in Node.objects.all()]) == ["n1", "n2", "n3"]

    looked_at: list[str] = []
    look_at = nodes._look_at
    monkeypatch.setattr(
        nodes, "_look_at", lambda of, name: (looked_at.append(name), look_at(of, name))[1]
    )
    seen.take_changes()
    assert not await following.run_once()
    api.change("Pod", "u-x", "ours", {"status": {"phase": "Failed"}})
    api.remove("Node", "", "n2")
    await until(lambda: len(seen.nodes) == 2 and len(seen.gpu_pods_of("n1")) == 1)
    following.note(seen.take_changes().nodes)
    assert await following.run_once()
    assert sorted(looked_at) == ["n1", "n2"]
    assert sorted([row.name async for row in Node.objects.all()]) == ["n1", "n3"]
    kept = await Node.objects.aget(name="n1")
    amounts = (kept.capacity, kept.allocatable, kept.requested)
    assert [amount["gpu"] for amount in amounts] == [4, 3, 1]
    assert kept.about["gpu_models"] == "0: H100"


@pytest.mark.parametrize(
    ("annotation", "kept"),
    [
        ('{"docker.io/lab/x:1":"needs y","docker.io/lab/z:1":""}', {"docker.io/lab/x:1": "needs y", "docker.io/lab/z:1": ""}),
        ("{}", {}),
        ("", None),
        ('{"docker.io/lab/x:1":1}', None),
        ("{", None),
    ],
)  # fmt: skip
async def test_what_a_node_says_of_its_images_is_kept(
    api: FakeApi,  # noqa: F811
    seen: ClusterCache,
    annotation: str,
    kept: dict[str, str] | None,
) -> None:
    told = node()
    told["metadata"] = {"name": "n9", "annotations": {"homeport.dev/images": annotation}}
    api.put(told)
    await until(lambda: len(seen.nodes) == 2)
    assert nodes.look(seen)["n9"].images == kept
    assert nodes.look(seen)["n1"].images is None


@pytest.mark.django_db(transaction=True)
async def test_what_could_not_be_written_is_written_later(seen: ClusterCache) -> None:
    class Broken(Commits):
        is_broken = True

        async def commit(self, write: Callable[[], Any]) -> Any:
            if self.is_broken:
                raise OperationalError("the database is away")
            return await super().commit(write)

    lease = Broken()
    following = nodes.NodesPass(seen, lease)  # type: ignore[arg-type]
    with pytest.raises(OperationalError):
        await following.run_once()
    lease.is_broken = False
    assert await following.run_once()
    lease.is_broken = True
    await Node.objects.all().adelete()
    following.note({"n1"}, everything=True)
    with pytest.raises(OperationalError):
        await following.run_once()
    lease.is_broken = False
    assert await following.run_once()
    assert await Node.objects.acount() == 1


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
    assert nodes.gpus_of_all(annotation) == numbers
