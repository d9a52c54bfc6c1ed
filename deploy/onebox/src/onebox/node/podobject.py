"""What the node writes to a pod's API object besides its status: annotations, and its removal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import aiohttp

from onebox.node.client import ApiError, Client, Json, resource_path

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0


class PodObject:
    """The API object of one pod (one uid; never one that took its name)."""

    def __init__(self, client: Client, pod: Json) -> None:
        meta = pod["metadata"]
        self._client = client
        self._uid = meta["uid"]
        self._path = resource_path("v1", "pods", meta["namespace"], meta["name"])
        # A node may write a pod's status, and annotations along with it, but not the pod.
        self._status_path = f"{self._path}/status"
        self._annotating = asyncio.Lock()

    async def annotate(self, annotations: Mapping[str, str | None]) -> None:
        """Set annotations (None removes), in the order of the calls; failures are only logged."""
        patch: Json = {"metadata": {"uid": self._uid, "annotations": dict(annotations)}}
        async with self._annotating:
            try:
                await self._client.patch(self._status_path, patch)
            except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                log.debug("annotation of %s was not written: %s", self._path, error)

    async def remove(self) -> None:
        """Remove the object; tries until the API has answered."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await self._client.delete(self._path, uid=self._uid, grace_s=0)
            except ApiError as error:
                if error.code in (404, 409):
                    return
                log.warning("removal of %s was refused: %s", self._path, error.message)
            except (aiohttp.ClientError, TimeoutError) as error:
                log.info("removal of %s has to wait: %s", self._path, error or type(error))
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
