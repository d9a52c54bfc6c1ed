"""Sends one pod's status to the API: only what changed, one request at a time, never lost.

Level-triggered: while a request is on its way, further changes fold into the next one, so a
burst costs few requests, and after an outage the API gets the latest state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import aiohttp

from onebox.node.client import ApiError, Client, Json, resource_path
from onebox.node.status import changed_fields, merged

log = logging.getLogger(__name__)

# What changes while a container is only on its way may wait this long, so that a pod whose
# image is present becomes Running in one patch. Phase and readiness never wait.
GATHER_S = 0.08
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0

Compute = Callable[[Json], Json]
"""Computes the status now; its argument is the status that the API has from us."""


class StatusPublisher:
    """The status of one pod (one uid).

    Attributes:
        sent: the status that the API has, as far as we know.
        gone: set when the API says that this pod (with this uid) no longer exists.
    """

    def __init__(self, client: Client, pod: Json, compute: Compute) -> None:
        meta = pod["metadata"]
        self._client = client
        self._uid = meta["uid"]
        self._pod_path = resource_path("v1", "pods", meta["namespace"], meta["name"])
        self._path = f"{self._pod_path}/status"
        self._compute = compute
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.sent: Json = dict(pod.get("status") or {})
        self.gone = asyncio.Event()

    def touch(self) -> None:
        """Say that the status may have changed."""
        self._idle.clear()
        self._wake.set()

    async def flush(self) -> None:
        """Wait until the API has the present status, or the pod is gone."""
        self.touch()
        waits = [asyncio.ensure_future(event.wait()) for event in (self._idle, self.gone)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def run(self) -> None:
        """Publish until cancelled or the pod is gone."""
        while not self.gone.is_set():
            await self._wake.wait()
            if not self._is_urgent():
                await asyncio.sleep(GATHER_S)
            self._wake.clear()
            await self._publish()
            if not self._wake.is_set():
                self._idle.set()

    def _is_urgent(self) -> bool:
        changed = changed_fields(self.sent, self._compute(self.sent))
        return changed.get("phase", "Pending") != "Pending" or self.sent.get("phase") == "Running"

    async def _publish(self) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            changed = changed_fields(self.sent, self._compute(self.sent))
            if not changed:
                return
            try:
                patch = {"metadata": {"uid": self._uid}, "status": changed}
                await self._client.patch(self._path, patch, kind="strategic")
            except ApiError as error:
                if error.code == 404 or (error.code == 409 and await self._is_replaced()):
                    self.gone.set()
                    return
                log.warning("status of %s was refused: %s", self._path, error.message)
            except (aiohttp.ClientError, TimeoutError) as error:
                log.info("status of %s could not be sent: %s", self._path, error or type(error))
            else:
                self.sent = merged(self.sent, changed)
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _is_replaced(self) -> bool:
        """Tell whether another pod has taken this one's name."""
        try:
            found = await self._client.get(self._pod_path)
        except ApiError as error:
            return error.code == 404
        except (aiohttp.ClientError, TimeoutError):
            return False
        return bool(found["metadata"]["uid"] != self._uid)
