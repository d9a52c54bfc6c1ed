"""Feeds the cluster's services on this node from the API: watches of services and endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from onebox.node.client import Client, Json, resource_path
from onebox.node.events import Recorder, reference_to
from onebox.node.services import Services
from onebox.node.watch import Watch


class Mirror:
    """A copy of one collection, kept by a watch.

    Args:
        on_change: called with all objects once after each batch of changes.
    """

    def __init__(self, on_change: Callable[[list[Json]], None]) -> None:
        self._objects: dict[str, Json] = {}
        self._on_change = on_change
        self._scheduled = False

    def objects(self) -> list[Json]:
        """All objects."""
        return list(self._objects.values())

    def replace(self, objects: list[Json]) -> None:
        """Take the whole list."""
        self._objects = {obj["metadata"]["uid"]: obj for obj in objects}
        self._schedule()

    def apply(self, event_type: str, obj: Json) -> None:
        """Take one change."""
        if event_type == "DELETED":
            self._objects.pop(obj["metadata"]["uid"], None)
        else:
            self._objects[obj["metadata"]["uid"]] = obj
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._scheduled = False
        self._on_change(self.objects())


class ServiceFeed:
    """Keeps `Services` in step with the API, and says in events what cannot be served."""

    def __init__(self, client: Client, recorder: Recorder, services: Services) -> None:
        self._recorder = recorder
        self._services = services
        self._changed = asyncio.Event()
        self._told: dict[tuple[str, str], str] = {}
        self._service_mirror = Mirror(self._take_services)
        slice_mirror = Mirror(services.set_endpointslices)
        slices = resource_path("discovery.k8s.io/v1", "endpointslices")
        self._watches = (
            Watch(client, resource_path("v1", "services"), self._service_mirror),
            Watch(client, slices, slice_mirror),
        )

    def services(self) -> list[Json]:
        """All Service objects."""
        return self._service_mirror.objects()

    async def synced(self) -> None:
        """Wait until both lists were read once."""
        for watch in self._watches:
            await watch.synced.wait()

    async def run(self) -> None:
        """Feed until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches:
                group.create_task(watch.run())
            group.create_task(self._report_problems())

    def _take_services(self, objects: list[Json]) -> None:
        self._services.set_services(objects)
        self._changed.set()

    async def _report_problems(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._services.settled()
            known = {_key(service): service for service in self.services()}
            problems = dict(self._services.problems)
            for key, text in problems.items():
                if key in known and self._told.get(key) != text:
                    reference = {**reference_to(known[key]), "kind": "Service"}
                    self._recorder.record(reference, "Warning", "NotServed", text)
            self._told = problems


def _key(service: Json) -> tuple[str, str]:
    return service["metadata"]["namespace"], service["metadata"]["name"]
