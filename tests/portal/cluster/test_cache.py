"""The cache: indices, what pods hold of nodes, and what changed, kept true per event."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from portal.cluster.cache import ClusterCache
from portal.cluster.client import Cluster
from portal.cluster.resources import NOTHING, Resources
from tests.portal.cluster.fake_api import FakeApi, Trouble
from tests.portal.cluster.test_listwatch import FAST, until

OURS = {"app.kubernetes.io/managed-by": "homeport"}
CPU = {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}


@pytest.fixture
async def cache(cluster: Cluster) -> AsyncIterator[ClusterCache]:
    # What is quiet stays as it is: no test here is about silence.
    seen = ClusterCache(cluster, replace(FAST, silence_s=20))
    task = asyncio.create_task(seen.run())
    await asyncio.wait_for(seen.wait_synced(), 10)
    yield seen
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def pod(name: str, owner: str = "", *, node: str = "", phase: str = "Pending") -> dict[str, Any]:
    labels = {**OURS, "homeport.dev/owner": owner} if owner else {}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "u-x", "labels": labels},
        "spec": {"nodeName": node, "containers": [{"name": "main", **CPU}]},
        "status": {"phase": phase},
    }


async def test_one_watch_per_kind_whatever_the_number_of_objects(api: FakeApi, cache: ClusterCache):
    await until(lambda: api.open_watches == 14)
    for number in range(50):
        api.put(pod(f"p{number}", f"job{number}"))
    await until(lambda: len(cache.pods) == 50)
    assert api.open_watches == 14
    assert not any(asked.path.endswith("/secrets") for asked in api.asked)


async def test_objects_are_found_by_owner_and_namespace(api: FakeApi, cache: ClusterCache):
    api.put(pod("a", "job1"))
    api.put(pod("b", "job1"))
    api.put(pod("c", "job2"))
    api.put(pod("d"))
    await until(lambda: len(cache.pods) == 4)
    assert {seen.metadata.name for seen in cache.pods.of_owner("job1")} == {"a", "b"}
    assert set(cache.pods.in_namespace("u-x")) == {"a", "b", "c", "d"}
    assert cache.pods.of_owner("nobody") == []
    api.remove("Pod", "u-x", "a")
    api.put(pod("b", "job2"))
    await until(lambda: not cache.pods.of_owner("job1"))
    assert {seen.metadata.name for seen in cache.pods.of_owner("job2")} == {"b", "c"}


async def test_an_owner_label_without_our_mark_counts_for_nothing(
    api: FakeApi, cache: ClusterCache
):
    forged = pod("a")
    forged["metadata"]["labels"] = {"homeport.dev/owner": "job1"}
    api.put(forged)
    await until(lambda: len(cache.pods) == 1)
    assert cache.pods.of_owner("job1") == []
    assert not cache.take_changes().owners


async def test_what_changed_is_told_once(api: FakeApi, cache: ClusterCache):
    await until(lambda: api.open_watches == 14)
    cache.take_changes()
    api.put(pod("a", "job1"))
    await asyncio.wait_for(cache.changed.wait(), 5)
    changes = cache.take_changes()
    assert (changes.owners, changes.namespaces) == ({"job1"}, {"u-x"})
    assert not cache.changed.is_set()
    assert not cache.take_changes()


async def test_a_heartbeat_wakes_nobody(api: FakeApi, cache: ClusterCache):
    node = {
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {
            "allocatable": {"cpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    api.put(node)
    await until(lambda: len(cache.nodes) == 1)
    cache.take_changes()
    node["status"]["conditions"][0]["lastHeartbeatTime"] = "2026-11-20T10:00:00Z"
    version = api.put(node)["metadata"]["resourceVersion"]
    await until(lambda: cache.nodes.get("", "n1").metadata.resource_version == version)
    assert not cache.changed.is_set()
    node["status"]["conditions"][0]["status"] = "Unknown"
    api.put(node)
    await asyncio.wait_for(cache.changed.wait(), 5)
    assert cache.take_changes().nodes


async def test_pods_hold_their_node_until_they_end(api: FakeApi, cache: ClusterCache):
    each = Resources(500, 2**30, 0, 1)
    api.put(pod("ours", "job1", node="n1", phase="Running"))
    api.put(pod("foreign", node="n1", phase="Running"))
    api.put(pod("waiting", "job1"))
    await until(lambda: len(cache.pods) == 3)
    assert cache.requested_on("n1") == each + each
    api.put(pod("waiting", "job1", node="n2"))
    await until(lambda: cache.requested_on("n2") == each)
    api.put(pod("ours", "job1", node="n1", phase="Succeeded"))
    await until(lambda: cache.requested_on("n1") == each)
    api.remove("Pod", "u-x", "foreign")
    await until(lambda: cache.requested_on("n1") == NOTHING)
    assert cache.requested_on("unknown") == NOTHING


def gpu_pod(name: str, *, node: str = "n1", phase: str = "Running", **containers: int) -> Any:
    """A foreign pod of which each container has so many GPUs."""
    made = pod(name, node=node, phase=phase)
    made["spec"]["containers"] = [
        {"name": called, "resources": {"requests": {"nvidia.com/gpu": str(count)}}}
        for called, count in containers.items()
    ]
    return made


async def test_gpu_pods_are_the_newest_of_those_that_hold_some(api: FakeApi, cache: ClusterCache):
    def told(name: str) -> str:
        found = {seen.metadata.name: seen for seen in cache.gpu_pods_of("n1")}
        return found[name].metadata.annotations.gpu_indices if name in found else "nothing held"

    async def put(made: dict[str, Any]) -> None:
        version = api.put(made)["metadata"]["resourceVersion"]
        name = made["metadata"]["name"]
        await until(lambda: cache.pods.get("u-x", name).metadata.resource_version == version)

    api.put(pod("plain", node="n1"))
    api.put(gpu_pod("a", one=2))
    await until(lambda: len(cache.pods) == 2)
    assert (told("a"), told("plain")) == ("", "nothing held")
    cache.take_changes()

    which = gpu_pod("a", one=2)
    which["metadata"]["annotations"] = {"homeport.dev/gpu-indices": "0,1"}
    await put(which)
    assert told("a") == "0,1"
    assert cache.changed.is_set()
    assert cache.take_changes().nodes == {"n1"}

    # Another spec that holds as much.
    other = gpu_pod("a", one=1, two=1)
    other["metadata"]["annotations"] = {"homeport.dev/gpu-indices": "2,3"}
    await put(other)
    assert told("a") == "2,3"
    assert cache.requested_on("n1").gpu_count == 2

    await put(gpu_pod("a", node="n2", one=2))
    assert told("a") == "nothing held"
    assert (cache.requested_on("n1").gpu_count, cache.requested_on("n2").gpu_count) == (0, 2)
    assert cache.take_changes().nodes == {"n1", "n2"}
    await put(gpu_pod("a", node="n2", phase="Failed", one=2))
    assert not cache.gpu_pods_of("n2")
    assert cache.requested_on("n2") == NOTHING


async def test_a_pod_made_anew_under_its_name_is_counted_once(api: FakeApi, cache: ClusterCache):
    api.put(pod("a", "job1", node="n1", phase="Running"))
    await until(lambda: len(cache.pods.of_owner("job1")) == 1)
    first = cache.pods.of_owner("job1")[0].metadata.uid
    api.remove("Pod", "u-x", "a")
    api.put(pod("a", "job1", node="n1", phase="Running"))
    await until(lambda: [s.metadata.uid != first for s in cache.pods.of_owner("job1")] == [True])
    assert cache.requested_on("n1").pods == 1


async def test_sums_are_right_after_a_list_anew(api: FakeApi, cache: ClusterCache):
    for number in range(5):
        api.put(pod(f"p{number}", "job1", node="n1", phase="Running"))
    await until(lambda: cache.requested_on("n1").pods == 5)
    api.trouble.append(Trouble("watch pods", "gone"))
    port = api.port
    await api.stop()
    for number in range(3):
        api.remove("Pod", "u-x", f"p{number}")
    api.forget_history()
    await api.start(port)
    await until(lambda: cache.requested_on("n1").pods == 2)
    assert len(cache.pods.of_owner("job1")) == 2


async def test_a_nodes_capacity_is_read(api: FakeApi, cache: ClusterCache):
    allocatable = {"cpu": "7500m", "memory": "16Gi", "nvidia.com/gpu": "4", "pods": "110"}
    api.put({"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": allocatable}})
    await until(lambda: len(cache.nodes) == 1)
    assert cache.allocatable_of("n1") == Resources(7500, 16 * 2**30, 4, 110)
    assert cache.allocatable_of("n2") == NOTHING


def event(name: str, about: str, *, namespace: str = "u-x", at: str = "") -> dict[str, Any]:
    return {
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"kind": "Pod", "namespace": namespace, "name": about},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": f"{name} about {about}",
        "lastTimestamp": at or None,
        "count": 3,
    }


async def test_events_are_found_by_object_in_order(api: FakeApi, cache: ClusterCache):
    api.put(pod("a", "job1"))
    await until(lambda: len(cache.pods) == 1)
    cache.take_changes()
    api.put(event("e2", "a", at="2026-11-20T10:00:02Z"))
    api.put(event("e1", "a", at="2026-11-20T10:00:01Z"))
    api.put(event("e3", "b"))
    api.put(event("foreign", "a", namespace="kube-system"))
    await until(lambda: len(cache.events) == 3)
    found = cache.events_about("u-x", "Pod", "a")
    assert [seen.metadata.name for seen in found] == ["e1", "e2"]
    assert (found[0].total, found[0].type) == (3, "Warning")
    assert cache.take_changes().owners == {"job1"}
    api.remove("Event", "u-x", "e2")
    await until(lambda: len(cache.events_about("u-x", "Pod", "a")) == 1)


async def test_during_an_outage_one_watch_asks_for_all(api: FakeApi, cache: ClusterCache):
    await until(lambda: api.open_watches == 14)
    informers = cache._informers

    def tries() -> int:
        return sum(informer.watch.health.connects for informer in informers)

    port = api.port
    await api.stop()
    await until(lambda: cache.problem)
    # That of the cache is the oldest, which may be how another watch broke.
    healths = [informer.watch.health for informer in informers]
    await until(lambda: any("no connection to" in health.problem for health in healths))
    began = tries()
    await asyncio.sleep(0.5)  # at most 0.05 s between two tries of one watch: 20 each
    assert tries() - began < 3 * 20
    api.put(pod("a", "job1"))
    await api.start(port)
    await until(lambda: len(cache.pods) == 1 and not cache.problem)


async def test_what_a_cluster_need_not_serve_is_there_as_soon_as_it_does(
    api: FakeApi, cluster: Cluster
) -> None:
    seen = ClusterCache(cluster, replace(FAST, optional_s=0.05))
    task = asyncio.create_task(seen.run())
    try:
        await asyncio.wait_for(seen.wait_synced(), 10)
        assert [asked.path for asked in api.asked if asked.path.endswith("/podgroups")] == []
        assert (seen.pod_groups.watch.is_served, len(seen.watches)) == (False, 14)

        marks = {**OURS, "homeport.dev/owner": "job1"}
        api.put(
            {"kind": "PodGroup", "metadata": {"name": "g", "namespace": "u-x", "labels": marks}}
        )
        api.has_pod_groups = True
        await until(lambda: len(seen.pod_groups.of_owner("job1")) == 1)
        await until(lambda: len(seen.watches) == 15)  # once the whole list is taken over

        # The rights are taken back, and the stream ends.
        no = Trouble("/podgroups", "status", status=403, times=-1)
        api.trouble += [no, replace(no, on="watch podgroups")]
        api.put(
            {"kind": "PodGroup", "metadata": {"name": "h", "namespace": "u-x", "labels": marks}}
        )
        await until(lambda: not seen.pod_groups.watch.is_served)
        assert (len(seen.pod_groups), seen.synced, seen.problem) == (0, True, "")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
