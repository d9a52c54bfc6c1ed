"""What the cluster says against a part of a namespace is told as it is, and until it is mended."""

import pytest

from portal.cluster import client as client_module
from tests.faults.fault import ALWAYS, SAID, Fault
from tests.tenants.conftest import Room

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_quota_that_is_counted_twice_at_once_is_no_foreign_object(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    fault = Fault("create", "PersistentVolumeClaim", 1, "409", ALWAYS)
    monkeypatch.setattr(client_module, "fault", fault)
    await room.until(lambda r: SAID in r.tenant.reason_text)
    row = (await room.rows())["PersistentVolumeClaim/data"]
    assert (row.state, row.detail) == ("missing", f"not yet: refused: {SAID}")
    monkeypatch.setattr(client_module, "fault", None)
    await room.until_active()


async def test_a_change_that_is_refused_is_told_between_the_tries_too(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    await room.until_active()
    fault = Fault("patch", "LimitRange", 1, "403", ALWAYS)
    monkeypatch.setattr(client_module, "fault", fault)
    room.api.change("LimitRange", room.namespace, "homeport", {"spec": {"limits": []}})
    await room.until(lambda r: SAID in r.tenant.reason_text)
    for _ in range(5):
        await room.one_pass()
        assert SAID in (await room.rows())["LimitRange/homeport"].detail
    assert room.tenant.state == "active"  # it is there, and people go on working
    monkeypatch.setattr(client_module, "fault", None)
    await room.until(lambda r: not r.tenant.reason_text)


async def test_a_lost_volume_that_is_refused_at_first_still_tells_of_the_loss(
    room: Room, monkeypatch: pytest.MonkeyPatch
):
    await room.until_active()
    fault = Fault("create", "PersistentVolumeClaim", 1, "422", 2)
    monkeypatch.setattr(client_module, "fault", fault)
    room.api.remove("PersistentVolumeClaim", room.namespace, "data")
    await room.until(lambda r: SAID in r.tenant.reason_text)
    await room.until_active()
    claim = (await room.rows())["PersistentVolumeClaim/data"]
    assert claim.detail.startswith("the claim was deleted and created again, empty")
