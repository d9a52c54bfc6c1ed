"""Tells browsers "this changed" and the reconciler "look again", over the channel layer.

Messages are small, idempotent and may be lost: a browser that missed one is repaired by the
revision that it compares on reconnect, the reconciler by its safety pass.
"""

from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

RECONCILER_GROUP = "reconciler"
ADMIN_GROUP = "live.admin"


def tenant_group(tenant_id: UUID | str) -> str:
    return f"live.tenant.{tenant_id}"


async def awake_reconciler() -> None:
    await get_channel_layer().group_send(RECONCILER_GROUP, {"type": "wake"})


async def achanged(kind: str, object_id: UUID | str, revision: int, tenant_id: UUID | str) -> None:
    """Tells everybody who watches this tenant, and the admins.

    Args:
        kind: `job`, `tenant` or `cluster`.
        object_id: id of the row that changed.
        revision: its new revision; browsers ignore what they already show.
        tenant_id: whose it is; an empty string for what belongs to nobody.
    """
    message: dict[str, Any] = {
        "type": "changed",
        "frame": {
            "type": "changed",
            "kind": kind,
            "id": str(object_id),
            "revision": revision,
        },
    }
    layer = get_channel_layer()
    await layer.group_send(ADMIN_GROUP, message)
    if tenant_id:
        await layer.group_send(tenant_group(tenant_id), message)


wake_reconciler = async_to_sync(awake_reconciler)
changed = async_to_sync(achanged)
