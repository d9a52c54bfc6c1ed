"""`/ws/live/`: tells a page which of the things that it may see have changed.

Frames are `{"type": "changed", "kind", "id", "revision"}`; the page fetches anew what it shows. A
burst of changes of one thing is one frame. A frame may be lost with the connection: after it opened
a new one, a page compares revisions. From then on it hears of everything.
"""

import asyncio
import json
from typing import Any

from channels.db import database_sync_to_async
from django.urls import path

from portal import live, supervise
from tenants.models import Tenant, User
from tenants.sockets import UserSocket

PAUSE_S = 0.1  # between two looks at what has changed
MAX_WAITING = 1000  # things; a page that is so far behind opens a new connection
STUCK_S = 60.0


def groups_of(user: User) -> set[str]:
    """The groups whose changes a person may know of: everything for an admin."""
    if user.may("administer"):
        return {live.EVERYBODY_GROUP, live.ADMIN_GROUP}
    tenants = Tenant.objects.visible_to(user).values_list("pk", flat=True)
    return {live.EVERYBODY_GROUP, *(live.tenant_group(pk) for pk in tenants)}


class LiveConsumer(UserSocket):
    """The changes that one page hears of."""

    kind = "live"
    _work: asyncio.Task[None] | None = None

    async def before_accept(self) -> None:
        self._joined: set[str] = set()
        self._waiting: dict[tuple[str, str], dict[str, Any]] = {}
        self._wake = asyncio.Event()
        await self._join()

    async def on_open(self) -> None:
        self._work = asyncio.create_task(self._tell(), name="live")

    async def on_close(self) -> None:
        if self._work is not None:
            await supervise.end([self._work])
        for group in self._joined:
            await self.channel_layer.group_discard(group, self.channel_name)

    async def still_allowed(self) -> int | None:
        # Somebody may have become a lead, or is none any more.
        await self._join()
        return None

    async def _join(self) -> None:
        wanted = await database_sync_to_async(groups_of)(self.user)
        new, left = wanted - self._joined, self._joined - wanted
        self._joined |= new  # before it is so: `on_close` may come at any moment
        for group in new:
            await self.channel_layer.group_add(group, self.channel_name)
        for group in left:
            await self.channel_layer.group_discard(group, self.channel_name)
        self._joined = wanted

    async def changed(self, message: dict[str, Any]) -> None:
        """Something changed (`portal.live`)."""
        frame = message["frame"]
        self._waiting[frame["kind"], frame["id"]] = frame
        if len(self._waiting) > MAX_WAITING:
            await self.give_up()
        self._wake.set()

    async def _tell(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            frames, self._waiting = self._waiting, {}
            try:
                async with asyncio.timeout(STUCK_S):
                    for frame in frames.values():
                        await self.send(json.dumps(frame))
            except TimeoutError:
                await self.give_up()
                return
            except OSError:
                return  # the browser is gone
            await asyncio.sleep(PAUSE_S)


websocket_urlpatterns = [path("ws/live/", LiveConsumer.as_asgi())]
