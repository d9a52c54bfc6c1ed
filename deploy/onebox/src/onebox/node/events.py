"""Events about pods and claims, recorded as the kubelet does: counted up instead of repeated.

Recording never waits and never fails: events are sent in the background, in order of first
occurrence; while the API is away they are kept (bounded) and counts grow.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime

import aiohttp

from onebox.node.client import ApiError, Client, Json, resource_path
from onebox.node.places import Places
from onebox.node.record import format_time

log = logging.getLogger(__name__)

COMPONENT = "kubelet"
REMEMBERED = 4096
# client-go's spam filter: 25 events at once per object, then one in five minutes.
BURST = 25
REFILL_S = 300.0
RETRY_S = 2.0
MESSAGE_CHARS = 1024

Key = tuple[str, str, str, str, str]


@dataclass
class _Event:
    """One event object and how often it happened."""

    reference: Json
    type: str
    reason: str
    message: str
    first: datetime
    last: datetime
    name: str = ""
    count: int = 1
    sent: int = 0


@dataclass
class _Allowance:
    """Token bucket of one object."""

    tokens: float = BURST
    refilled_at_s: float = field(default_factory=time.monotonic)

    def take(self, now_s: float) -> bool:
        gained = (now_s - self.refilled_at_s) / REFILL_S
        self.tokens = min(BURST, self.tokens + gained)
        self.refilled_at_s = now_s
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


def reference_to(obj: Json, field_path: str = "") -> Json:
    """Make the involvedObject reference to an API object (or to a container of a pod)."""
    meta = obj["metadata"]
    reference = {
        "apiVersion": obj.get("apiVersion", "v1"),
        "kind": obj.get("kind", "Pod"),
        "name": meta["name"],
        "uid": meta.get("uid", ""),
    }
    if meta.get("namespace"):
        reference["namespace"] = meta["namespace"]
    if field_path:
        reference["fieldPath"] = field_path
    return reference


class Recorder:
    """Collects events; `run` sends them until cancelled.

    Args:
        component: who says so.
        places: folders that are left out of what is said.
    """

    def __init__(
        self,
        client: Client,
        node_name: str,
        component: str = COMPONENT,
        places: Places | None = None,
    ) -> None:
        self.places = places or Places()
        self._client = client
        self._component = component
        self._node_name = node_name
        self._known: OrderedDict[Key, _Event] = OrderedDict()
        self._dirty: OrderedDict[Key, None] = OrderedDict()
        self._allowances: OrderedDict[str, _Allowance] = OrderedDict()
        self._wake = asyncio.Event()

    def record(self, reference: Json, type_: str, reason: str, message: str) -> None:
        """Note that something happened to an object; `type_` is Normal or Warning."""
        message = self.places.left_out_of(message)[:MESSAGE_CHARS]
        key = (reference["uid"], type_, reason, message, reference.get("fieldPath", ""))
        now = datetime.now(UTC)
        event = self._known.get(key)
        if event is None:
            event = self._known[key] = _Event(reference, type_, reason, message, now, now)
            self._trim()
        else:
            event.count += 1
            event.last = now
            self._known.move_to_end(key)
        if key in self._dirty or self._allowance(reference["uid"]).take(time.monotonic()):
            self._dirty[key] = None
            self._wake.set()

    def _allowance(self, uid: str) -> _Allowance:
        allowance = self._allowances.setdefault(uid, _Allowance())
        self._allowances.move_to_end(uid)
        if len(self._allowances) > REMEMBERED:
            self._allowances.popitem(last=False)
        return allowance

    def _trim(self) -> None:
        while len(self._known) > REMEMBERED:
            key, _ = self._known.popitem(last=False)
            self._dirty.pop(key, None)

    async def run(self) -> None:
        """Send what is recorded, for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._dirty:
                key = next(iter(self._dirty))
                del self._dirty[key]
                event = self._known.get(key)
                if event is not None and not await self._send_fenced(event):
                    self._dirty[key] = None
                    self._dirty.move_to_end(key, last=False)
                    await asyncio.sleep(RETRY_S)

    async def _send_fenced(self, event: _Event) -> bool:
        """Send one event; the fence that keeps one odd event from silencing all others."""
        try:
            return await self._send(event)
        except Exception:
            log.exception("event %s was dropped", event.reason)
            return True

    async def _send(self, event: _Event) -> bool:
        """Send one event; False means try again later."""
        namespace = event.reference.get("namespace", "default")
        count = event.count
        try:
            if event.name:
                await self._count_up(event, namespace, count)
            else:
                await self._create(event, namespace, count)
        except ApiError as error:
            # A namespace that ends takes no events, and a deleted event is made anew later.
            event.name = ""
            log.debug("event %s was refused: %s", event.reason, error.message)
            return error.code < 500
        except (aiohttp.ClientError, TimeoutError):
            return False
        event.sent = count
        return True

    async def _count_up(self, event: _Event, namespace: str, count: int) -> None:
        path = resource_path("v1", "events", namespace, event.name)
        try:
            await self._client.patch(
                path, {"count": count, "lastTimestamp": format_time(event.last)}
            )
        except ApiError as error:
            if error.code != 404:
                raise
            await self._create(event, namespace, count)

    async def _create(self, event: _Event, namespace: str, count: int) -> None:
        name = f"{event.reference['name'][:200]}.{uuid.uuid4().hex[:16]}"
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": event.reference,
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "count": count,
            "firstTimestamp": format_time(event.first),
            "lastTimestamp": format_time(event.last),
            "source": {"component": self._component, "host": self._node_name},
            "reportingComponent": self._component,
            "reportingInstance": self._node_name,
        }
        await self._client.create(resource_path("v1", "events", namespace), body)
        event.name = name
