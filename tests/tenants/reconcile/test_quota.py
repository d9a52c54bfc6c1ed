"""A changed quota reaches the cluster's ResourceQuota, and nothing else is touched."""

from typing import Any

from asgiref.sync import sync_to_async

from tenants.models import Tenant
from tenants.quota.rules import change_quota
from tests.factories import make_user
from tests.tenants.conftest import Room


async def change(room: Room, **quota: int) -> None:
    def act() -> None:
        root = make_user(f"root{len(room.passes)}", role="admin")
        change_quota(by=root, tenant=Tenant.objects.get(pk=room.tenant.pk), quota=quota)

    await sync_to_async(act)()


def hard(room: Room) -> dict[str, Any]:
    quota = room.api.find("ResourceQuota", room.namespace, "homeport")
    found: dict[str, Any] = quota["spec"]["hard"]
    return found


async def test_the_clusters_quota_follows_the_row(room: Room):
    await room.until_active()
    before = len(room.writes())
    await change(room, cpu=500, gpu=1, nodeports=2)
    await room.until(lambda r: r.tenant.observed_hard.get("cpu") == 500)
    await room.until_active()
    assert hard(room)["requests.cpu"] == "500m"
    assert hard(room)["requests.nvidia.com/gpu"] == "1"
    assert hard(room)["services.nodeports"] == "2"
    assert hard(room)["requests.memory"] == "16Gi"
    assert room.writes()[before:] == ["PATCH homeport"]
    assert room.tenant.reason_text == ""
    # It was wished for: nobody's change was put right.
    rows = await room.rows()
    assert rows["ResourceQuota/homeport"].repaired_count == 0


async def test_less_than_what_is_used_is_taken_over_and_the_tenant_stays_active(room: Room):
    await room.until_active()
    used = {"requests.cpu": "6", "requests.nvidia.com/gpu": "2", "pods": "3"}
    room.api.change("ResourceQuota", room.namespace, "homeport", {"status": {"used": used}})
    await room.until(lambda r: r.tenant.observed_used.get("gpu") == 2)
    await change(room, gpu=0, cpu=2000)
    await room.until(lambda r: r.tenant.observed_hard.get("gpu") == 0)
    await room.until_active()
    assert room.tenant.observed_used["gpu"] == 2
    assert hard(room)["requests.nvidia.com/gpu"] == "0"


async def test_a_change_while_the_cluster_was_away_is_made_when_it_is_back(room: Room):
    await room.until_active()
    room.api.change(
        "ResourceQuota", room.namespace, "homeport", {"spec": {"hard": {"pods": "999"}}}
    )
    await change(room, pods=7)
    await room.until(lambda r: r.tenant.observed_hard.get("pods") == 7)
    assert hard(room)["pods"] == "7"
