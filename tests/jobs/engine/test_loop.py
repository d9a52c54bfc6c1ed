"""The whole loop on a server over real HTTP: its wakes, its lease, outages, and its end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer

from jobs.engine import health, loop
from jobs.engine.loop import Reconciler
from jobs.leader import lease as leases
from jobs.leader.lease import Lease, LeaseLostError
from jobs.models import Node, ReconcilerLease, Workload
from portal import live
from portal.cluster.client import Cluster
from tenants.models import Tenant
from tests.factories import make_job, make_tenant
from tests.portal.cluster.fake_api import FakeApi

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Lab:
    """A server, a reconciler, and what it is told to stop by."""

    api: FakeApi
    kubeconfig: str
    stop: asyncio.Event
    task: "asyncio.Task[None]"
    tenant: Tenant

    async def until(self, what: Callable[[], Awaitable[Any]], timeout_s: float = 10) -> Any:
        async with asyncio.timeout(timeout_s):
            while not (found := await what()):
                assert not self.task.done(), self.task.exception()
                await asyncio.sleep(0.01)
        return found

    async def submit(self) -> Workload:
        job = await sync_to_async(make_job)(self.tenant)
        await live.awake_reconciler()
        return job

    def roots(self) -> list[dict[str, Any]]:
        return [obj for key, obj in self.api.objects.items() if key[0] == "jobs"]


def node() -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"zone": "a"}},
        "status": {
            "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "", "message": ""}],
        },
    }


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    api = FakeApi()
    await api.start()
    api.put(node())
    kubeconfig = api.kubeconfig(tmp_path)
    tenant = await sync_to_async(make_tenant)("alice", active=False)
    stop = asyncio.Event()
    task = asyncio.create_task(Reconciler(kubeconfig=kubeconfig).run(stop))
    lab = Lab(api, kubeconfig, stop, task, tenant)
    try:
        await lab.until(lambda: Tenant.objects.filter(state="active").aexists())
        yield lab
    finally:
        stop.set()
        await asyncio.gather(task, return_exceptions=True)
        await api.stop()


async def test_a_submitted_job_is_set_going_at_once(lab: Lab) -> None:
    job = await lab.submit()

    async def is_going() -> bool:
        return any(root["spec"]["suspend"] is False for root in lab.roots())

    await lab.until(is_going, loop.SAFETY_S - 2)  # sooner than it would look around anyway
    await job.arefresh_from_db()
    assert job.root_uid == lab.roots()[0]["metadata"]["uid"]
    children = [o for k, o in lab.api.objects.items() if k[0] in {"services", "secrets"}]
    job_children = [c for c in children if c["metadata"].get("ownerReferences")]
    assert {c["metadata"]["ownerReferences"][0]["uid"] for c in job_children} == {job.root_uid}
    secret = next(c for c in job_children if c["kind"] == "Secret")
    assert secret["stringData"]["token"]
    assert "stringData" not in str(job.plan)
    assert secret["stringData"]["token"] not in str(job.plan)


async def test_nodes_have_rows(lab: Lab) -> None:
    await lab.until(lambda: Node.objects.filter(name="n1").aexists())
    row = await Node.objects.aget()
    assert (row.is_ready, row.allocatable["cpu"], row.labels) == (True, 16000, {"zone": "a"})
    lab.api.change("Node", "", "n1", {"spec": {"unschedulable": True}})
    await lab.until(lambda: Node.objects.filter(is_schedulable=False).aexists())
    lab.api.remove("Node", "", "n1")
    await lab.until(lambda: _none(Node.objects))


async def _none(rows: Any) -> bool:
    return not await rows.aexists()


async def test_stop_waits_for_steps_and_gives_the_lease_back(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on, create = asyncio.Event(), asyncio.Event(), Cluster.create_or_adopt

    async def created_late(cluster: Cluster, obj: Any) -> Any:
        begun.set()
        await may_go_on.wait()
        return await create(cluster, obj)

    monkeypatch.setattr(Cluster, "create_or_adopt", created_late)
    await lab.submit()
    await asyncio.wait_for(begun.wait(), 20)
    lab.stop.set()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(lab.task), 0.5)
    may_go_on.set()
    await asyncio.wait_for(lab.task, 20)
    assert lab.roots()
    row = await ReconcilerLease.objects.aget()
    assert (row.holder, row.epoch) == ("", 1)


async def test_one_that_lost_its_lease_stops_by_itself(lab: Lab) -> None:
    await ReconcilerLease.objects.aupdate(holder="another", epoch=7)
    await lab.submit()  # its next write finds out
    with pytest.raises(LeaseLostError):
        await asyncio.wait_for(lab.task, 20)
    row = await ReconcilerLease.objects.aget()
    assert (row.holder, row.epoch) == ("another", 7)


async def test_a_second_one_waits_and_takes_over(lab: Lab) -> None:
    stop = asyncio.Event()
    other = Reconciler(kubeconfig=lab.kubeconfig, lease=Lease(holder="other"))
    task = asyncio.create_task(other.run(stop))
    await asyncio.sleep(0.3)
    assert not other.is_active
    lab.stop.set()
    await asyncio.wait_for(lab.task, 20)
    async with asyncio.timeout(2 * leases.POLL_S + 20):
        while not other.is_active:
            await asyncio.sleep(0.02)
    job = await lab.submit()
    async with asyncio.timeout(20):
        while (await Workload.objects.aget(pk=job.pk)).state == "queued":
            await asyncio.sleep(0.02)
    stop.set()
    await asyncio.wait_for(task, 20)


@pytest.fixture
async def page() -> AsyncIterator[str]:
    """The channel of a page that hears what everybody is told."""
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(live.EVERYBODY_GROUP, channel)
    yield channel
    # The layer outlives the test: others count who is in its groups.
    await layer.group_discard(live.EVERYBODY_GROUP, channel)


async def _hears_of_cluster(page: str) -> None:
    layer = get_channel_layer()
    message = await asyncio.wait_for(layer.receive(page), 20)
    while message["frame"]["kind"] != "cluster":
        message = await asyncio.wait_for(layer.receive(page), 20)


async def test_an_outage_is_told_to_everybody_and_heals(page: str, lab: Lab) -> None:
    await _hears_of_cluster(page)  # pages of before say that there is no reconciler
    port = lab.api.port
    await lab.api.stop()
    await _hears_of_cluster(page)
    assert await ReconcilerLease.objects.exclude(cluster_error="").aexists()
    job = await lab.submit()
    waits = Workload.objects.filter(pk=job.pk, reason_code="cluster_unreachable")
    await lab.until(waits.aexists)
    await lab.api.start(port)
    await lab.until(Workload.objects.filter(pk=job.pk, state="starting").aexists, 40)
    await lab.until(lambda: ReconcilerLease.objects.filter(cluster_error="").aexists())
    row = await ReconcilerLease.objects.aget()
    assert row.cluster_ok_at is not None


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the health page tells is looked for at once, and then rarely, as always."""
    monkeypatch.setattr(health, "LOOK_S", 0.05)


async def test_idle_it_asks_the_cluster_nothing(hurry: None, lab: Lab) -> None:
    await lab.until(lambda: _has_tried_a_pod(lab))
    before = -1
    while before != len(lab.api.asked):  # until what begins with it is done
        before = len(lab.api.asked)
        await asyncio.sleep(0.5)
    for _ in range(5):
        await live.awake_reconciler()
        await asyncio.sleep(0.12)
    assert [asked.path for asked in lab.api.asked[before:]] == []


async def _has_tried_a_pod(lab: Lab) -> bool:
    return bool(lab.api.requests("POST", "/pods"))


async def test_without_a_usable_kubeconfig_health_says_so(tmp_path: Path) -> None:
    missing = str(tmp_path / "nothing here")
    with pytest.raises(Exception, match="nothing here"):
        await Reconciler(kubeconfig=missing).run(asyncio.Event())
    row = await ReconcilerLease.objects.aget()
    assert "nothing here" in row.cluster_error
    assert row.holder == ""


async def test_a_database_that_fails_for_a_moment_ends_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import OperationalError

    from jobs.engine import store

    real, failures = store.load, [OperationalError("the server closed the connection")] * 2

    def load(ids: Any) -> Any:
        if failures:
            raise failures.pop()
        return real(ids)

    monkeypatch.setattr(store, "load", load)
    job = await lab.submit()
    await lab.until(Workload.objects.filter(pk=job.pk, state="starting").aexists)
    assert failures == []


async def test_connecting_is_done_once_per_run(lab: Lab) -> None:
    made: list[str] = []

    async def connect(kubeconfig: str) -> Cluster:
        made.append(kubeconfig)
        return await Cluster.connect(kubeconfig)

    lab.stop.set()
    await lab.task
    stop = asyncio.Event()
    task = asyncio.create_task(Reconciler(kubeconfig=lab.kubeconfig, connect=connect).run(stop))
    async with asyncio.timeout(20):
        while not made:
            await asyncio.sleep(0.02)
    stop.set()
    await asyncio.wait_for(task, 20)
    assert made == [lab.kubeconfig]
