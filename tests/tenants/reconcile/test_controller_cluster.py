"""Provisioning against a real cluster: what the fake server takes for granted."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db.models import F

from onebox.testing import OneBox, start
from portal.cluster import access
from portal.cluster.access import AccountAccess
from portal.cluster.cache import ClusterCache
from portal.cluster.client import Cluster
from portal.cluster.errors import NotFound
from tenants.models import Tenant, TenantObject
from tenants.reconcile.controller import TenantController
from tests.factories import make_tenant
from tests.tenants.conftest import DirectWriter


@pytest.fixture(scope="module")
def box() -> Iterator[OneBox]:
    # Not below pytest's folder: paths of sockets in it must stay short.
    home = Path(tempfile.mkdtemp(prefix="hp-"))
    running = start(home / "box", gpus="0")
    yield running
    running.stop()
    shutil.rmtree(home, ignore_errors=True)


@dataclass
class Lab:
    """A tenant, a reconciler and a real cluster."""

    cluster: Cluster
    view: ClusterCache
    reconciler: TenantController
    tenant: Tenant

    @property
    def namespace(self) -> str:
        return self.tenant.namespace

    async def until(self, what: Callable[[Tenant], Any], timeout_s: float = 30) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            again_s = await self.reconciler.run_once(self.view.take_changes())
            self.tenant = await Tenant.objects.aget(pk=self.tenant.pk)
            if what(self.tenant):
                return
            assert time.monotonic() < deadline, f"{self.tenant.state}: {self.tenant.reason_text}"
            try:
                await asyncio.wait_for(self.view.changed.wait(), min(again_s or 0.2, 0.2))
            except TimeoutError:
                continue

    async def until_active(self) -> None:
        await self.until(lambda tenant: tenant.state == "active")

    async def row(self, kind: str, name: str) -> TenantObject:
        return await TenantObject.objects.aget(tenant=self.tenant, kind=kind, name=name)


@pytest.fixture
async def lab(
    request: pytest.FixtureRequest, box: OneBox, transactional_db: None
) -> AsyncIterator[Lab]:
    cluster = await Cluster.connect(str(box.kubeconfig))
    view = ClusterCache(cluster)
    task = asyncio.create_task(view.run())
    tenant = await sync_to_async(make_tenant)("alice", active=False)
    try:
        await asyncio.wait_for(view.wait_synced(), 20)
        yield Lab(cluster, view, TenantController(view, cluster, DirectWriter()), tenant)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await cluster.close()


async def test_a_tenant_becomes_active_and_its_quota_is_counted(lab: Lab):
    await lab.until_active()
    assert lab.tenant.observed_hard["cpu"] == lab.tenant.quota_cpu_millicores
    assert lab.tenant.observed_hard["storage"] == 20 * 2**30
    await lab.until(lambda tenant: tenant.observed_used.get("storage") == 20 * 2**30)
    assert lab.tenant.observed_used["pods"] == 0


async def test_what_is_made_is_what_was_asked_for(lab: Lab):
    """No default that the server fills in may look like a change by somebody else."""
    await lab.until_active()
    rows = [row async for row in TenantObject.objects.filter(tenant=lab.tenant)]
    assert {row.repaired_count for row in rows} == {0}

    def calls() -> int:
        # Watches end and begin anew by themselves.
        return sum(times for (verb, _), times in lab.cluster.calls.items() if verb != "watch")

    before = calls()
    for _ in range(3):
        await lab.reconciler.run_once(lab.view.take_changes(), everything=True)
    assert calls() == before


async def test_a_deleted_quota_comes_back_and_is_enforced(lab: Lab):
    await lab.until_active()
    quota = await lab.cluster.get("ResourceQuota", lab.namespace, "homeport")
    uid = quota["metadata"]["uid"]
    assert (
        await lab.cluster.delete("ResourceQuota", lab.namespace, "homeport", uid=uid) == "deleted"
    )

    def is_new(_: Tenant) -> bool:
        seen = lab.view.quotas.get(lab.namespace, "homeport")
        return seen is not None and seen.metadata.uid != uid and bool(seen.status.hard)

    await lab.until(is_new)
    await lab.until_active()
    assert (await lab.row("ResourceQuota", "homeport")).repaired_count == 1


async def test_drift_is_put_right(lab: Lab):
    await lab.until_active()
    more = {"spec": {"hard": {"pods": "900", "count/secrets": "1"}}}
    await lab.cluster.merge_patch("ResourceQuota", lab.namespace, "homeport", more)
    policy = {"spec": {"egress": [{}]}}
    await lab.cluster.merge_patch("NetworkPolicy", lab.namespace, "homeport-boundary", policy)

    async def is_right() -> bool:
        quota = await lab.cluster.get("ResourceQuota", lab.namespace, "homeport")
        boundary = await lab.cluster.get("NetworkPolicy", lab.namespace, "homeport-boundary")
        return quota["spec"]["hard"]["pods"] == "20" and len(boundary["spec"]["egress"]) > 1

    deadline = time.monotonic() + 20
    while not await is_right():
        assert time.monotonic() < deadline
        await lab.until(lambda _: True)
        await asyncio.sleep(0.05)
    quota = await lab.cluster.get("ResourceQuota", lab.namespace, "homeport")
    assert "count/secrets" not in quota["spec"]["hard"]


async def test_a_quota_change_is_active_when_the_cluster_confirms_it(lab: Lab):
    await lab.until_active()
    await Tenant.objects.filter(pk=lab.tenant.pk).aupdate(quota_pods=7, revision=F("revision") + 1)
    await lab.until(lambda tenant: tenant.observed_hard.get("pods") == 7)
    await lab.until_active()


async def test_a_deleted_claim_names_the_volume_that_was_kept(lab: Lab):
    await lab.until_active()
    claim = await lab.cluster.get("PersistentVolumeClaim", lab.namespace, "data")
    uid, volume = claim["metadata"]["uid"], claim["spec"]["volumeName"]
    await lab.cluster.delete("PersistentVolumeClaim", lab.namespace, "data", uid=uid)

    def is_new(_: Tenant) -> bool:
        seen = lab.view.claims.get(lab.namespace, "data")
        return seen is not None and seen.metadata.uid != uid and seen.status.phase == "Bound"

    await lab.until(is_new)
    await lab.until_active()
    assert f"kept on the volume {volume}" in (await lab.row("PersistentVolumeClaim", "data")).detail
    kept = await lab.cluster.get("PersistentVolume", None, volume)
    assert kept["spec"]["claimRef"]["uid"] == uid
    new = lab.view.claims.get(lab.namespace, "data")
    assert new is not None
    assert new.spec.volume_name != volume


async def test_a_deleted_namespace_comes_back_whole(lab: Lab):
    await lab.until_active()
    namespace = await lab.cluster.get("Namespace", None, lab.namespace)
    uid = namespace["metadata"]["uid"]
    await lab.cluster.delete("Namespace", None, lab.namespace, uid=uid)

    def is_new(_: Tenant) -> bool:
        seen = lab.view.namespaces.get("", lab.namespace)
        return seen is not None and seen.metadata.uid != uid

    await lab.until(is_new)
    await lab.until_active()
    assert (await lab.row("Namespace", lab.namespace)).repaired_count == 1


async def test_a_foreign_namespace_is_left_alone(lab: Lab):
    foreign = await lab.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": lab.namespace, "labels": {"team": "theirs"}},
        }
    )
    await lab.until(lambda tenant: "Homeport did not create" in tenant.reason_text)
    for _ in range(3):
        await lab.reconciler.run_once(lab.view.take_changes(), everything=True)
    found = await lab.cluster.get("Namespace", None, lab.namespace)
    assert found["metadata"]["labels"] == foreign["metadata"]["labels"]
    with pytest.raises(NotFound):
        await lab.cluster.get("ResourceQuota", lab.namespace, "homeport")


async def test_the_preflight_knows_that_it_limits_no_account(lab: Lab):
    await lab.until_active()
    found = await access.look(lab.cluster, lab.namespace)
    assert found == AccountAccess("no", detail=found.detail)
    assert "enforces no RBAC" in found.detail


async def test_a_cluster_that_dies_and_comes_back_is_followed(lab: Lab, box: OneBox):
    await lab.until_active()
    box.kill()
    await lab.until(lambda _: lab.view.problem)
    again = start(box.home, gpus="0")
    box.process, box.log = again.process, again.log
    await lab.until(lambda _: not lab.view.problem, timeout_s=60)
    quota = await lab.cluster.get("ResourceQuota", lab.namespace, "homeport")
    await lab.cluster.delete(
        "ResourceQuota", lab.namespace, "homeport", uid=quota["metadata"]["uid"]
    )

    def is_new(_: Tenant) -> bool:
        seen = lab.view.quotas.get(lab.namespace, "homeport")
        return seen is not None and seen.metadata.uid != quota["metadata"]["uid"]

    await lab.until(is_new, timeout_s=60)
    await lab.until_active()
