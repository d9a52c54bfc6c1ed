"""List-and-watch of one collection: keeps a handler told of what exists, for ever.

The handler is called synchronously in the event loop. It first gets the whole list, then each
change; after a lost history (410) it gets the whole list again. A server that is away is asked
again with growing, jittered pauses, so the node goes on while the API half restarts.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from typing import Protocol

import aiohttp

from onebox.node.client import ApiError, Client, Json

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 8.0
# A watch that held this long was healthy: its end starts with a short pause again.
STABLE_S = 10.0


class Handler(Protocol):
    """What a watch tells."""

    def replace(self, objects: list[Json]) -> None:
        """Take the whole list; what is not in it no longer exists."""

    def apply(self, event_type: str, obj: Json) -> None:
        """Take one change; `event_type` is ADDED, MODIFIED or DELETED."""


class Watch:
    """Keeps one handler in step with one collection. `synced` is set after the first list."""

    def __init__(
        self,
        client: Client,
        path: str,
        handler: Handler,
        params: Mapping[str, str] | None = None,
    ) -> None:
        self._client = client
        self._path = path
        self._handler = handler
        self._params = dict(params or {})
        self._version = ""
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Run until cancelled."""
        pause_s = FIRST_PAUSE_S
        while True:
            began_s = time.monotonic()
            try:
                if not self._version:
                    await self._list()
                await self._follow()
                continue
            except ApiError as error:
                if error.code == 410:
                    log.info("watch of %s is too old, listing again", self._path)
                    self._version = ""
                    # A history that is always too short must not become a busy loop.
                    await asyncio.sleep(0.05)
                    continue
                log.warning("watch of %s was refused: %s", self._path, error.message)
                self._version = ""
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                log.info("watch of %s was interrupted: %s", self._path, error or type(error))
            if time.monotonic() - began_s > STABLE_S:
                pause_s = FIRST_PAUSE_S
            await asyncio.sleep(pause_s * random.uniform(0.7, 1.3))
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _list(self) -> None:
        answer = await self._client.get(self._path, self._params)
        kind = str(answer.get("kind", "")).removesuffix("List")
        objects: list[Json] = answer.get("items") or []
        for obj in objects:
            # Items of a list carry no kind of their own; handlers and events need one.
            obj.setdefault("kind", kind)
            obj.setdefault("apiVersion", answer.get("apiVersion", "v1"))
        self._version = str(answer["metadata"]["resourceVersion"])
        self._handler.replace(objects)
        self.synced.set()

    async def _follow(self) -> None:
        params = {
            **self._params,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
        }
        async for event_type, obj in self._client.watch(self._path, params):
            self._version = str(obj["metadata"]["resourceVersion"])
            if event_type != "BOOKMARK":
                self._handler.apply(event_type, obj)
