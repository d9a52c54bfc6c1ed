"""Watch streams over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from onebox.api.http import watch
from onebox.api.registry import Api

from .conftest import DEADLINE_S, Http, Obj, eventually, pod

MAPS = "/api/v1/namespaces/lab/configmaps"


def config(name: str = "c", **labels: str) -> Obj:
    return {"metadata": {"name": name, "labels": labels}, "data": {"a": "1"}}


class Stream:
    """One watch, read event by event."""

    def __init__(self, reply: Any) -> None:
        self._reply = reply

    async def next(self) -> Obj | None:
        """Give the next event, None at the end of the stream."""
        line = await asyncio.wait_for(self._reply.content.readline(), DEADLINE_S)
        return json.loads(line) if line else None

    async def take(self, count: int) -> list[tuple[str, str]]:
        """Give type and name of the next events."""
        found = []
        for _ in range(count):
            event = await self.next()
            assert event is not None, f"the stream ended after {found}"
            found.append((event["type"], event["object"]["metadata"].get("name", "")))
        return found


@asynccontextmanager
async def watching(http: Http, path: str, **more: Any) -> AsyncIterator[Stream]:
    sign = "&" if "?" in path else "?"
    async with http.session.get(f"{http.base}{path}{sign}watch=1", **more) as reply:
        assert reply.status == 200
        yield Stream(reply)


async def test_other_namespaces_and_kinds_are_not_seen(http: Http, api: Api) -> None:
    api.create("namespaces", None, {"metadata": {"name": "other"}})
    async with (
        watching(http, f"{MAPS}?resourceVersion=0") as one,
        watching(http, "/api/v1/configmaps") as every,
    ):
        api.create("configmaps", "other", config("x"))
        api.create("secrets", "lab", {"metadata": {"name": "s"}})
        api.create("configmaps", "lab", config("y"))
        assert await one.take(1) == [("ADDED", "y")]
        assert await every.take(2) == [("ADDED", "x"), ("ADDED", "y")]


async def test_a_version_older_than_the_history_ends_in_a_410_event(http: Http, api: Api) -> None:
    api.store._history_limit = 2
    first = api.create("configmaps", "lab", config("a"))["metadata"]["resourceVersion"]
    for i in range(4):
        api.create("configmaps", "lab", config(f"c{i}"))
    async with watching(http, f"{MAPS}?resourceVersion={first}") as stream:
        event = await stream.next()
        assert event is not None
        assert event["type"] == "ERROR"
        status = event["object"]
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
        assert status["message"].startswith("too old resource version: ")
        assert await stream.next() is None
    async with watching(http, f"{MAPS}?resourceVersion=99999999") as stream:
        event = await stream.next()
        assert event is not None
        assert event["object"]["code"] == 410


async def test_a_watch_ends_at_its_time_with_a_bookmark_for_those_who_want_one(
    http: Http, api: Api
) -> None:
    path = f"{MAPS}?timeoutSeconds=1&resourceVersion={api.store.resource_version}"
    async with watching(http, path) as stream:
        assert await stream.next() is None
    async with watching(http, f"{path}&allowWatchBookmarks=true") as stream:
        api.create("secrets", "lab", {"metadata": {"name": "s"}})
        event = await stream.next()
        assert event is not None
        assert event["type"] == "BOOKMARK"
        assert event["object"]["kind"] == "ConfigMap"
        version = event["object"]["metadata"]["resourceVersion"]
        assert version == str(api.store.resource_version)
        assert await stream.next() is None


async def test_bookmarks_come_regularly_and_never_before_what_they_cover(
    http: Http, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "BOOKMARK_EVERY_S", 0.05)
    async with watching(http, f"{MAPS}?allowWatchBookmarks=true") as stream:
        seen, marks = 0, 0
        for i in range(30):
            api.create("configmaps", "lab", config(f"c{i}"))
            await asyncio.sleep(0.01)
        while seen < 30 or marks < 2:
            event = await stream.next()
            assert event is not None
            version = int(event["object"]["metadata"]["resourceVersion"])
            if event["type"] == "BOOKMARK":
                marks += 1
                newest = api.store.changes_since("configmaps", version)
                assert seen + len(newest) == 30
            else:
                seen += 1


async def test_kubectl_watches_tables(http: Http, api: Api) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    api.create("pods", "lab", pod("a"))
    async with watching(http, "/api/v1/namespaces/lab/pods", headers=accept) as stream:
        first = await stream.next()
        api.bind("lab", "a", "box")
        second = await stream.next()
        assert first is not None
        assert second is not None
        assert (first["type"], second["type"]) == ("ADDED", "MODIFIED")
        assert first["object"]["columnDefinitions"][0]["name"] == "Name"
        assert second["object"]["columnDefinitions"] is None
        assert second["object"]["rows"][0]["cells"][6] == "box"


async def test_events_are_watched_in_the_newer_shape_too(http: Http, api: Api) -> None:
    about = api.create("pods", "lab", pod())
    async with watching(http, "/apis/events.k8s.io/v1/events") as stream:
        api.event(about, "Normal", "Started", "go", "kubelet")
        event = await stream.next()
        assert event is not None
        assert event["object"]["note"] == "go"


async def test_a_client_that_leaves_is_forgotten(http: Http, api: Api) -> None:
    before = len(api.store._subscribers)
    async with watching(http, MAPS):
        await eventually(lambda: len(api.store._subscribers) == before + 1, "the watch begins")
    await eventually(lambda: len(api.store._subscribers) == before, "the watch ends")


async def test_a_client_that_does_not_read_is_cut_off_and_costs_little(
    http: Http, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "QUEUE_LIMIT", 100)
    before = len(api.store._subscribers)
    async with watching(http, MAPS):
        await eventually(lambda: len(api.store._subscribers) == before + 1, "the watch begins")
        big = "x" * 500_000
        for i in range(300):
            api.create("configmaps", "lab", {**config(f"c{i}"), "data": {"a": big}})
            if i % 20 == 0:
                await asyncio.sleep(0)
    await eventually(lambda: len(api.store._subscribers) == before, "the watch ends")


async def test_many_watchers_see_every_change_in_order(http: Http, api: Api) -> None:
    async def follow(count: int) -> list[str]:
        async with watching(http, MAPS) as stream:
            ready.append(True)
            return [name for _kind, name in await stream.take(count)]

    ready: list[bool] = []
    tasks = [asyncio.create_task(follow(100)) for _ in range(20)]
    await eventually(lambda: len(ready) == 20, "all watch")
    for i in range(100):
        api.create("configmaps", "lab", config(f"c{i:03}"))
        if i % 10 == 0:
            await asyncio.sleep(0)
    for names in await asyncio.gather(*tasks):
        assert names == [f"c{i:03}" for i in range(100)]
