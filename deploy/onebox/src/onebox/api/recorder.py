"""The event recorder: writes core Events and counts up those that say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onebox.api.resources import Obj
from onebox.api.status import StatusError
from onebox.api.timestamps import format_time

if TYPE_CHECKING:
    from onebox.api.registry import Api

MAX_REMEMBERED = 4_096
"""Events that can still be counted up; older ones get a fresh Event, as with upstream."""


class Recorder:
    """Writes Events through the API, so that watches and quotas see them as any other object."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._names: dict[tuple[str, ...], tuple[str, str]] = {}

    def record(self, involved: Obj, type_: str, reason: str, message: str, component: str) -> None:
        """Write or count up an Event about `involved`; a namespace that ends swallows it."""
        meta = involved["metadata"]
        key = (meta.get("uid", ""), type_, reason, message, component)
        known = self._names.get(key)
        event = self._api.find("events", *known) if known else None
        now = format_time(self._api.clock())
        if known and event is not None:
            change = {"count": event.get("count", 1) + 1, "lastTimestamp": now}
            self._api.patch("events", *known, change)
            return
        namespace = meta.get("namespace") or "default"
        # Names are unique as long as versions are.
        name = f"{meta['name']}.{self._api.store.resource_version:016x}"
        event = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": _reference(involved),
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": type_,
        }
        try:
            self._api.create("events", namespace, event)
        except StatusError as error:
            # 403/404: the namespace is ending or gone, and nobody can read events in it.
            if error.code not in (403, 404):
                raise
            return
        if len(self._names) >= MAX_REMEMBERED:
            self._names.pop(next(iter(self._names)))
        self._names[key] = (namespace, name)


def _reference(obj: Obj) -> Obj:
    meta = obj["metadata"]
    return {
        "kind": obj.get("kind", ""),
        "namespace": meta.get("namespace", ""),
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "apiVersion": obj.get("apiVersion", ""),
        "resourceVersion": meta.get("resourceVersion", ""),
    }
