"""Quotas by weight in the cluster: they follow nodes and weights, and nothing is written for the rest."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from asgiref.sync import sync_to_async

from portal.cluster.objects import KubeNode
from portal.pools import Pool
from tenants.models import Tenant
from tenants.quota.rules import change_quota
from tenants.reconcile.capacity import capacity
from tests.factories import make_tenant, make_user
from tests.tenants.conftest import Room

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def node(
    name: str = "n", *, ready: bool = True, away_s: float = 0, gpu: int = 2, **spec: Any
) -> dict[str, Any]:
    since = (NOW - timedelta(seconds=away_s)).isoformat()
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
    has = {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": str(gpu), "pods": "110"}
    status = {"allocatable": has, "capacity": has, "conditions": [condition]}
    meta = {"name": name, "labels": {"pool": "people"}}
    return {"kind": "Node", "metadata": meta, "spec": spec, "status": status}


def taint(key: str, effect: str = "NoSchedule") -> dict[str, Any]:
    return {"taints": [{"key": key, "effect": effect}]}


@pytest.mark.parametrize(
    ("seen", "counts"),
    [
        (node(), True),
        (node(ready=False, away_s=599), True),
        (node(ready=False, away_s=600), False),
        (node(ready=False, away_s=-90_000), True),  # a clock that is a day ahead
        (node(unschedulable=True, **taint("node.kubernetes.io/unschedulable")), True),
        (node(**taint("nvidia.com/gpu")), True),
        (node(**taint("node-role.kubernetes.io/control-plane")), False),
        (node(**taint("team", "PreferNoSchedule")), True),
        ({"kind": "Node", "metadata": {"name": "new", "labels": {"pool": "people"}}}, False),
        ({**node(), "metadata": {"name": "other"}}, False),
    ],
)
def test_which_nodes_count(seen: dict[str, Any], counts: bool):
    found = capacity([msgspec.convert(seen, KubeNode)], {"pool": "people"}, NOW)
    one = {"cpu": 8000, "memory": 16 * 2**30, "gpu": 2}
    assert found == (one if counts else dict.fromkeys(one, 0))


def test_a_node_counts_whose_pool_tolerates_its_taint():
    seen = [msgspec.convert(node(**taint("team")), KubeNode)]
    own = {
        "tolerations": [{"key": "team", "operator": "Exists"}],
        "node_selector": {"pool": "people"},
    }
    pool = msgspec.convert({"name": "people", **own}, Pool)
    assert [capacity(seen, {}, NOW, known)["gpu"] for known in ([], [pool])] == [0, 2]


def test_gpus_that_a_restarting_plugin_hides_count():
    seen = node()
    seen["status"]["allocatable"] = {"cpu": "8", "nvidia.com/gpu": "0"}
    assert capacity([msgspec.convert(seen, KubeNode)], {}, NOW)["gpu"] == 2


async def test_the_clusters_quotas_follow_nodes_and_weights(room: Room):
    def by_weight() -> None:
        root = make_user("root", role="admin")
        bob = make_tenant("bob", active=False)
        for tenant, weight in ((room.tenant, 3), (bob, 5)):
            change_quota(by=root, tenant=tenant, weight=weight, quota_by_weight=True)

    def hard(key: str) -> str:
        found = room.api.find("ResourceQuota", room.namespace, "homeport")["spec"]["hard"]
        return str(found[key])

    room.api.put(node("a", gpu=8))
    room.api.put(node("b", gpu=0))
    await sync_to_async(by_weight)()
    await room.until(lambda r: r.tenant.quota["cpu"] == 6000 and r.tenant.state == "active")
    assert (hard("requests.cpu"), hard("requests.nvidia.com/gpu")) == ("6", "3")
    commits, writes = room.writer.commits, len(room.writes())
    # It is not ready for a moment: nothing changes.
    away = node("b", ready=False, gpu=0)
    away["status"]["conditions"][0]["lastTransitionTime"] = datetime.now(UTC).isoformat()
    room.api.put(away)
    await room.until(lambda r: r.view.nodes.get("", "b").status.conditions[0].status == "False")
    await room.one_pass()
    assert (room.writer.commits, len(room.writes())) == (commits, writes)
    # It is gone: less than is used is the quota all the same, and the row tells by how much.
    room.api.remove("Node", "", "b")
    await room.until(lambda r: r.tenant.observed_hard.get("cpu") == 3000)
    assert hard("requests.memory") == str(6 * 2**30) or hard("requests.memory") == "6Gi"
    await Tenant.objects.filter(owner__username="bob").aupdate(weight=1)
    await room.until(lambda r: r.tenant.observed_hard.get("cpu") == 6000)
    assert hard("requests.nvidia.com/gpu") == "6"
