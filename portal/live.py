"""Tells browsers "this changed" and the reconciler "look again", over the channel layer.

Messages are small, idempotent and may be lost: a browser that missed one is repaired by the
revision that it compares on reconnect, the reconciler by its safety pass.
"""

import asyncio
import logging
import time
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

log = logging.getLogger(__name__)

RECONCILER_GROUP = "reconciler"
ADMIN_GROUP = "live.admin"
EVERYBODY_GROUP = "live.everybody"
SEND_S = 2.0  # a layer that does not answer must not hold up who has just committed


def tenant_group(tenant_id: UUID | str) -> str:
    return f"live.tenant.{tenant_id}"


async def awake_reconciler() -> None:
    await _send(RECONCILER_GROUP, {"type": "wake"})


async def achanged(
    kind: str,
    object_id: UUID | str,
    revision: int,
    tenant_id: UUID | str,
    workload_kind: str = "",
) -> None:
    """Tells everybody who watches this tenant, and the admins.

    Args:
        kind: `job`, `service`, `tenant` or `cluster`.
        object_id: id of the row that changed.
        revision: its new revision; browsers ignore what they already show.
        tenant_id: whose it is; an empty string for what belongs to nobody.
        workload_kind: of a workload, its kind as REST calls it.
    """
    more = {"workload_kind": workload_kind} if workload_kind else {}
    message = _changed(kind, object_id, revision, **more)
    await _send(ADMIN_GROUP, message)
    if tenant_id:
        await _send(tenant_group(tenant_id), message)


async def tell_everybody(kind: str, revision: int) -> None:
    """Tells every open page, whoever looks at it: `cluster` (its health), `nodes`, or places in the `queue`."""
    await _send(EVERYBODY_GROUP, _changed(kind, "", revision))


def revision_now() -> int:
    """Grows with time; for what has no row whose revision could be counted."""
    return int(time.time() * 1000)


def _changed(kind: str, object_id: UUID | str, revision: int, **more: str) -> dict[str, Any]:
    frame = {"type": "changed", "kind": kind, "id": str(object_id), "revision": revision, **more}
    return {"type": "changed", "frame": frame}


def tell_away(error: Exception) -> None:
    """In the log, at most once a minute (settings)."""
    log.warning(
        "messages between processes and to browsers do not pass, so changes are seen some seconds "
        "later; look at REDIS_URL: %s: %s",
        type(error).__name__,
        error,
    )


async def _send(group: str, message: dict[str, Any]) -> None:
    try:
        async with asyncio.timeout(SEND_S):
            await get_channel_layer().group_send(group, message)
    except Exception as error:  # noqa: BLE001  the named fence: what was committed must not become an error
        tell_away(error)


wake_reconciler = async_to_sync(awake_reconciler)
changed = async_to_sync(achanged)
tell_pages = async_to_sync(tell_everybody)
