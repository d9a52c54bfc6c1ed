"""A tenant that is closed and opened again: the quota goes down when it is quiet, the rest stays."""

from typing import Any

import pytest

from tenants.reconcile import status
from tests.tenants.conftest import Room


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quiet from the first look at which nothing runs."""
    monkeypatch.setattr(status, "QUIET_S", 0.0)


def hard(room: Room) -> dict[str, str]:
    quota: dict[str, str] = room.api.find("ResourceQuota", room.namespace, "homeport")["spec"][
        "hard"
    ]
    return quota


def claims(room: Room) -> dict[str, str]:
    return {
        name: room.api.find("PersistentVolumeClaim", room.namespace, name)["metadata"]["uid"]
        for name in ("data", "log")
    }


async def test_suspending_takes_pods_from_the_quota_and_resuming_gives_them_back(
    room: Room, at_once: None
):
    await room.until_active()
    before, kept = hard(room), claims(room)
    await room.want("suspended")
    await room.until(lambda r: r.tenant.state == "suspended" and hard(r)["pods"] == "0")
    assert hard(room)["services.nodeports"] == "0"
    changed = {name for name, amount in hard(room).items() if amount != before[name]}
    assert changed == {"pods", "services.nodeports"}
    assert claims(room) == kept
    await room.until(lambda r: r.tenant.reason_text == "")
    assert len(await room.rows()) == 9
    assert not [write for write in room.writes() if write.startswith("DELETE")]
    await room.want("active")
    await room.until(lambda r: r.tenant.state == "active" and hard(r) == before)


async def test_it_is_suspended_when_its_pods_have_ended(room: Room):
    await room.until_active()
    room.run_pod()
    await room.until(lambda r: len(r.view.pods.in_namespace(r.namespace)) == 1)
    await room.want("suspended")
    await room.until(lambda r: r.tenant.reason_text == "1 pod is still ending")
    assert room.tenant.state == "active"
    assert hard(room)["pods"] == "20"
    room.run_pod("Succeeded")
    await room.until(lambda r: r.tenant.state == "suspended")
    # A pod that rescues a log may still need a place: the quota goes down a while later.
    assert hard(room)["pods"] == "20"
    room.run_pod("Running")
    await room.until(lambda r: r.view.pods.get(r.namespace, "p").status.phase == "Running")
    await room.one_pass(everything=True)
    await room.refresh()
    assert (room.tenant.state, room.tenant.reason_text) == ("suspended", "1 pod is still ending")


async def test_deleting_leaves_nothing_but_volumes_in_the_quota(room: Room, at_once: None):
    await room.until_active()
    kept = claims(room)
    await room.want("deleted", purge_data="delete")
    await room.until(lambda r: r.tenant.state == "deleting" and hard(r)["pods"] == "0")
    assert {name for name, amount in hard(room).items() if amount != "0"} == {"requests.storage"}
    assert claims(room) == kept
    for _ in range(3):
        await room.one_pass(everything=True)
    assert room.api.has("Namespace", "", room.namespace)
    await room.want("active", purge_data="")
    await room.until_active()
    assert claims(room) == kept


async def test_a_closed_namespace_that_somebody_removes_is_made_again_and_stays_closed(
    room: Room, at_once: None
):
    await room.until_active()
    await room.want("suspended")
    await room.until(lambda r: hard(r)["pods"] == "0")
    room.api.remove("Namespace", "", room.namespace)
    await room.until(lambda r: r.api.has("ResourceQuota", r.namespace, "homeport"))
    await room.until(lambda r: r.tenant.state == "suspended" and hard(r)["pods"] == "0")


async def test_a_change_that_comes_during_a_pass_is_not_missed(
    room: Room, at_once: None, monkeypatch: pytest.MonkeyPatch
):
    await room.until_active()
    await room.want("suspended")
    write = room.writer.commit

    async def interrupted(do: Any) -> Any:
        monkeypatch.setattr(room.writer, "commit", write)
        await room.want("active")
        return await write(do)

    monkeypatch.setattr(room.writer, "commit", interrupted)
    await room.one_pass(everything=False)
    await room.until_active()
