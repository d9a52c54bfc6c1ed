"""What the cluster says against a part of a namespace is told as it is, and until it is mended."""

import pytest

from portal.cluster import client as client_module
from tests.faults.fault import SAID, Fault
from tests.tenants.conftest import Room

pytestmark = pytest.mark.django_db(transaction=True)


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
