"""Provisioning against a real cluster: what the fake server takes for granted."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.db.models import F

from onebox.testing import OneBox, start
from portal.cluster import access, resources
from portal.cluster.access import AccountAccess
from tenants.models import Tenant
from tenants.quota.rules import change_quota
from tenants.quota.split import split
from tests.factories import make_tenant, make_user
from tests.tenants.conftest import Lab, followed


@pytest.fixture(scope="module")
def box() -> Iterator[OneBox]:
    # Not below pytest's folder: paths of sockets in it must stay short.
    home = Path(tempfile.mkdtemp(prefix="hp-"))
    running = start(home / "box", gpus="0")
    yield running
    running.stop()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
async def lab(box: OneBox, transactional_db: None) -> AsyncIterator[Lab]:
    async with followed(str(box.kubeconfig)) as lab:
        await lab.until_active()
        yield lab


async def test_a_tenant_is_made_as_asked_and_its_quota_is_counted(lab: Lab) -> None:
    assert lab.tenant.observed_hard["cpu"] == lab.tenant.quota_cpu_millicores
    assert lab.tenant.observed_hard["storage"] == 20 * 2**30
    await lab.until(lambda lab: lab.tenant.observed_used.get("storage") == 20 * 2**30)
    assert lab.tenant.observed_used["pods"] == 0
    await Tenant.objects.filter(pk=lab.tenant.pk).aupdate(quota_pods=7, revision=F("revision") + 1)
    await lab.until(lambda lab: lab.tenant.observed_hard.get("pods") == 7)
    await lab.until_active()

    # No default that the server fills in may look like a change by somebody else.
    def calls() -> int:
        # Watches end and begin anew by themselves.
        return sum(times for (verb, _), times in lab.cluster.calls.items() if verb != "watch")

    before = calls(), lab.writer.commits
    for _ in range(3):
        await lab.one_pass()
    assert (calls(), lab.writer.commits) == before
    assert {row.repaired_count for row in (await lab.rows()).values()} == {0}
    found = await access.look(lab.cluster, lab.namespace)
    assert found == AccountAccess("no", detail=found.detail)
    assert "enforces no RBAC" in found.detail


async def test_quotas_by_weight_add_up_to_the_node_and_are_written_once(lab: Lab) -> None:
    def by_weight() -> Tenant:
        root = make_user("root", role="admin")
        bob = make_tenant("bob", active=False)
        for tenant, weight in ((lab.tenant, 3), (bob, 5)):
            change_quota(by=root, tenant=tenant, weight=weight, quota_by_weight=True)
        return bob

    bob = await sync_to_async(by_weight)()
    [node] = await lab.cluster.list("Node")
    has = resources.of_resources(node["status"]["allocatable"])
    mine = split(has.memory_bytes, {"alice": 3, "bob": 5})["alice"]
    await lab.until(lambda lab: lab.tenant.observed_hard.get("memory") == mine)
    await bob.arefresh_from_db()
    for kind, whole in (("cpu", has.cpu_millicores), ("memory", has.memory_bytes)):
        assert lab.tenant.quota[kind] + bob.quota[kind] == whole
    # Odd bytes are a quantity like others: the server's text of them is no change by somebody else.
    await lab.until_active()
    before = await lab.cluster.get("ResourceQuota", lab.namespace, "homeport")
    for _ in range(3):
        await lab.one_pass()
    after = await lab.cluster.get("ResourceQuota", lab.namespace, "homeport")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert {row.repaired_count for row in (await lab.rows()).values()} == {0}


async def test_a_deleted_claim_names_the_volume_that_was_kept(lab: Lab) -> None:
    claim = await lab.cluster.get("PersistentVolumeClaim", lab.namespace, "data")
    uid, volume = claim["metadata"]["uid"], claim["spec"]["volumeName"]
    await lab.cluster.delete("PersistentVolumeClaim", lab.namespace, "data", uid=uid)

    def is_new(lab: Lab) -> bool:
        seen = lab.view.claims.get(lab.namespace, "data")
        return seen is not None and seen.metadata.uid != uid and seen.status.phase == "Bound"

    await lab.until(is_new, 30)
    await lab.until_active()
    row = (await lab.rows())["PersistentVolumeClaim/data"]
    assert (row.state, row.repaired_count) == ("ready", 1)
    assert f"kept on the volume {volume}" in row.detail
    kept = await lab.cluster.get("PersistentVolume", None, volume)
    assert kept["spec"]["claimRef"]["uid"] == uid
    assert lab.view.claims.get(lab.namespace, "data").spec.volume_name != volume


async def test_a_deleted_namespace_comes_back_whole(lab: Lab) -> None:
    namespace = await lab.cluster.get("Namespace", None, lab.namespace)
    uid = namespace["metadata"]["uid"]
    await lab.cluster.delete("Namespace", None, lab.namespace, uid=uid)

    def is_new(lab: Lab) -> bool:
        seen = lab.view.namespaces.get("", lab.namespace)
        return seen is not None and seen.metadata.uid != uid

    await lab.until(is_new, 30)
    await lab.until_active()
    assert {row.repaired_count for row in (await lab.rows()).values()} == {1}
