"""A watch keeps its cache true whatever the server does."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from portal.cluster.client import Cluster
from portal.cluster.listwatch import NORMAL_TIMING, ListOptions, ListWatch, WatchEvent, WatchTiming
from portal.cluster.objects import KubePod, PartialObjectMetadata
from tests.portal.cluster.fake_api import FakeApi, Trouble

FAST = WatchTiming(silence_s=0.4, healthy_s=0.3, first_wait_s=0.01, most_wait_s=0.05)
PODS = ListOptions("Pod", KubePod)


def pod(name: str, *, labels: dict[str, str] | None = None, **status: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "u-x", "labels": labels or {}},
        "spec": {"containers": [{"name": "main"}]},
        "status": status,
    }


async def until(what: Callable[[], Any], timeout_s: float = 10.0) -> None:
    """Waits for a condition; the test fails when it does not come."""
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, "the condition did not come"
        await asyncio.sleep(0.005)


class Recorder:
    """Hears changes and replays them into a cache of its own."""

    def __init__(self) -> None:
        self.items: dict[str, KubePod] = {}
        self.told: list[tuple[str, str]] = []

    def __call__(self, changes: Sequence[WatchEvent[Any]]) -> None:
        for change in changes:
            name = change.key[1]
            assert change.old == self.items.get(name), "old is what was told before"
            if change.new is None:
                del self.items[name]
            else:
                self.items[name] = change.new
            word = "+" if change.old is None else "-" if change.new is None else "~"
            self.told.append((word, name))


@asynccontextmanager
async def watching(
    cluster: Cluster, selection: ListOptions[Any] = PODS, pace: WatchTiming = FAST
) -> AsyncIterator[tuple[ListWatch[Any], Recorder]]:
    heard = Recorder()
    watch: ListWatch[Any] = ListWatch(cluster, selection, heard, pace)
    task = asyncio.create_task(watch.run())
    try:
        yield watch, heard
        assert not task.done(), f"the watch ended: {task.exception()}"
        assert heard.items == {key[1]: seen for key, seen in watch.items.items()}
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_it_lists_once_and_then_follows(api: FakeApi, cluster: Cluster):
    api.put(pod("a", phase="Pending"))
    async with watching(cluster, pace=replace(FAST, silence_s=20)) as (watch, heard):
        await asyncio.wait_for(watch.synced.wait(), 5)
        await until(lambda: api.open_watches == 1)
        api.put(pod("b"))
        api.put(pod("a", phase="Running"))
        api.remove("Pod", "u-x", "b")
        await until(lambda: len(heard.told) == 4)
        assert heard.told == [("+", "a"), ("+", "b"), ("~", "a"), ("-", "b")]
        assert watch.items["u-x", "a"].status.phase == "Running"
    assert len(api.requests("GET", "/pods")) == 2


async def test_it_asks_for_bookmarks_and_an_end_of_its_own(api: FakeApi, cluster: Cluster):
    async with watching(cluster):
        await until(lambda: api.open_watches == 1)
    query = api.asked[-1].query
    assert query["allowWatchBookmarks"] == "true"
    first, last = NORMAL_TIMING.server_s
    assert first <= int(query["timeoutSeconds"]) <= last
    # A quiet stream ends before it is taken for a dead one, bookmarks or none.
    assert last < NORMAL_TIMING.silence_s < 30
    assert query["resourceVersion"] == str(api.version)


async def test_a_selector_is_the_servers_work(api: FakeApi, cluster: Cluster):
    api.put(pod("ours", labels={"team": "a"}))
    api.put(pod("theirs"))
    chosen = ListOptions("Pod", KubePod, label_selector="team=a")
    async with watching(cluster, chosen) as (watch, _):
        await until(lambda: len(watch.items) == 1)
        api.put(pod("more", labels={"team": "a"}))
        api.put(pod("theirs", phase="Running"))
        await until(lambda: len(watch.items) == 2)


async def test_keep_leaves_objects_out_until_they_fit(api: FakeApi, cluster: Cluster):
    running = ListOptions("Pod", KubePod, keep=lambda seen: seen.status.phase == "Running")
    api.put(pod("a", phase="Pending"))
    async with watching(cluster, running) as (watch, heard):
        await until(lambda: api.open_watches == 1)
        api.put(pod("a", phase="Running"))
        await until(lambda: len(watch.items) == 1)
        api.put(pod("a", phase="Succeeded"))
        await until(lambda: not watch.items)
        assert heard.told == [("+", "a"), ("-", "a")]


async def test_metadata_only_is_asked_for(api: FakeApi, cluster: Cluster):
    api.put(
        {"kind": "ConfigMap", "metadata": {"name": "a", "namespace": "u-x"}, "data": {"k": "v"}}
    )
    async with watching(
        cluster, ListOptions("ConfigMap", PartialObjectMetadata, only_metadata=True)
    ) as (
        watch,
        _,
    ):
        await until(lambda: len(watch.items) == 1 and api.open_watches == 1)
    assert "as=PartialObjectMetadataList" in api.asked[0].headers["Accept"]
    assert "as=PartialObjectMetadata;" in api.asked[1].headers["Accept"]


@pytest.mark.parametrize("what", ["refuse", "status", "end", "garbage", "cut", "gone", "stall"])
@pytest.mark.parametrize("times", [1, 3])
async def test_nothing_is_missed_after(api: FakeApi, cluster: Cluster, what: str, times: int):
    api.put(pod("stays"))
    api.put(pod("goes"))
    async with watching(cluster) as (_, heard):
        await until(lambda: api.open_watches == 1)
        api.trouble.append(Trouble("watch pods", what, times=times))
        # Ends the healthy stream; what happens now is seen only after the trouble.
        api.bookmarks_s = 0.05
        await drop_streams(api)
        api.remove("Pod", "u-x", "goes")
        api.put(pod("comes"))
        api.put(pod("stays", phase="Running"))
        await until(lambda: set(heard.items) == {"stays", "comes"})
        await until(lambda: heard.items["stays"].status.phase == "Running")
        await until(lambda: api.trouble[0].times == 0)


async def drop_streams(api: FakeApi) -> None:
    """Stops and starts the server on its port: all streams are cut."""
    port = api.port
    await api.stop()
    await api.start(port)


async def test_bookmarks_keep_a_quiet_stream_open(api: FakeApi, cluster: Cluster):
    api.bookmarks_s = 0.05
    pace = replace(FAST, silence_s=2)
    async with watching(cluster, pace=pace) as (watch, _):
        await until(lambda: api.open_watches == 1)
        heard_at = watch.health.heard_at
        await until(lambda: watch.health.heard_at > heard_at + 1.5 * pace.silence_s)
        assert watch.health.connects == 1


async def test_after_a_bookmark_nothing_old_is_asked_for(api: FakeApi, cluster: Cluster):
    api.put(pod("a"))
    async with watching(cluster) as (watch, _):
        await until(lambda: api.open_watches == 1)
        api.put({"kind": "Node", "metadata": {"name": "n"}})  # moves the version, not our kind
        api.bookmarks_s = 0.05
        await drop_streams(api)
        await until(lambda: api.asked[-1].query.get("resourceVersion") == str(api.version))
        assert watch.health.lists == 1


@pytest.mark.parametrize("as_status", [True, False])
async def test_410_lists_again_and_tells_the_difference(
    api: FakeApi, cluster: Cluster, as_status: bool
):
    api.put(pod("old"))
    api.put(pod("same"))
    async with watching(cluster) as (watch, heard):
        await until(lambda: api.open_watches == 1)
        if as_status:
            api.trouble.append(Trouble("watch pods", "status", status=410))
        port = api.port
        await api.stop()
        api.remove("Pod", "u-x", "old")
        api.put(pod("new"))
        api.forget_history()
        await api.start(port)
        await until(lambda: set(heard.items) == {"same", "new"})
        assert watch.health.lists == 2
        assert heard.told[2:] == [("-", "old"), ("+", "new")]


async def test_a_list_that_expires_between_pages_starts_again(api: FakeApi, cluster: Cluster):
    for number in range(700):
        api.put(pod(f"p{number}"))
    asked_for_pages = api._list

    def second_page_is_gone_once(kind: Any, namespace: str, query: dict[str, str]) -> Any:
        if "continue" in query and not api.trouble:
            api.trouble.append(Trouble("", "", times=0))
            body = {"kind": "Status", "reason": "Expired", "message": "the token is too old"}
            return web.json_response(body, status=410)
        return asked_for_pages(kind, namespace, query)

    api._list = second_page_is_gone_once  # type: ignore[method-assign]
    async with watching(cluster) as (watch, _):
        await until(lambda: len(watch.items) == 700)
    assert [a.query.get("continue") for a in api.asked[:4]] == [None, "500", None, "500"]


async def test_an_object_of_odd_types_is_left_out_alone(api: FakeApi, cluster: Cluster):
    odd = pod("odd")
    odd["spec"] = {"containers": "many", "nodeName": 7}
    api.put(odd)
    foreign = {"type": "example.org/Gate", "status": "Unknown", "reason": "Waits"}
    api.put(pod("fine", conditions=[foreign]))
    # The odd one's page is taken apart object by object, and still names the page after it.
    others = {f"p{number}" for number in range(500)}
    for name in others:
        api.put(pod(name))
    async with watching(cluster) as (watch, _):
        await until(lambda: api.open_watches == 1)
        api.put({**odd, "metadata": {"name": "odd2", "namespace": "u-x", "labels": None}})
        api.put(pod("after"))
        await until(lambda: ("u-x", "after") in watch.items)
        assert {name for _, name in watch.items} == {"after", "fine", *others}
        assert watch.health.unreadable == 2


async def test_an_outage_is_shown_asks_rarely_and_ends_by_itself(api: FakeApi, cluster: Cluster):
    slow = WatchTiming(silence_s=5, healthy_s=5, first_wait_s=0.05, most_wait_s=0.4)
    async with watching(cluster, pace=slow) as (watch, _):
        await until(lambda: api.open_watches == 1)
        port = api.port
        await api.stop()
        connects = watch.health.connects
        await until(lambda: watch.health.problem)
        await asyncio.sleep(1.0)
        assert watch.health.connects - connects <= 10
        assert "no connection" in watch.health.problem
        api.put(pod("meanwhile"))
        await api.start(port)
        await until(lambda: watch.items and not watch.health.problem)


async def test_ten_thousand_events_are_told_in_order(api: FakeApi, cluster: Cluster):
    async with watching(cluster, pace=WatchTiming()) as (watch, heard):
        await until(lambda: api.open_watches == 1)
        for number in range(10_000):
            api.log.append((api.version + 1, "MODIFIED", "pods", numbered(api, number)))
        api.put(pod("last"))
        await until(lambda: "last" in heard.items, timeout_s=30)
        assert len(heard.told) == 10_001
        assert watch.items["u-x", "p"].status.message == "9999"


def numbered(api: FakeApi, number: int) -> dict[str, Any]:
    api.version += 1
    obj = pod("p", message=str(number))
    obj["metadata"] |= {"uid": "p", "resourceVersion": str(api.version)}
    return obj


async def test_a_long_list_leaves_room_for_others(api: FakeApi, cluster: Cluster):
    """Ten thousand objects come, change and go in pieces, between which others have their turn."""
    count = 2000
    for number in range(count):
        api.put(pod(f"p{number}"))
    pieces: list[tuple[int, int]] = []  # turns that others had before, changes
    turns = 0

    class Pieces(Recorder):
        def __call__(self, changes: Sequence[WatchEvent[Any]]) -> None:
            super().__call__(changes)
            pieces.append((turns, len(changes)))

    heard = Pieces()
    watch: ListWatch[Any] = ListWatch(cluster, PODS, heard, replace(FAST, silence_s=20))

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(take_turns()), asyncio.create_task(watch.run())]
    try:
        await until(lambda: api.open_watches == 1)
        kept = watch.items["u-x", "p1"]
        assert len(watch.items) == count
        assert max(changes for _, changes in pieces) <= 250
        assert len({turn for turn, _ in pieces}) == len(pieces) >= count / 250

        port = api.port
        await api.stop()
        for number in range(500, 1500):
            api.remove("Pod", "u-x", f"p{number}")
        api.put(pod("p0", phase="Running"))
        api.forget_history()
        del pieces[:]
        await api.start(port)
        await until(lambda: len(watch.items) == count - 1000)
        await until(lambda: api.open_watches == 1)
        assert max(changes for _, changes in pieces) <= 250
        assert sum(changes for _, changes in pieces) == 1001
        assert watch.health.lists == 2
        assert watch.items["u-x", "p0"].status.phase == "Running"
        assert watch.items["u-x", "p1"] is kept, "what did not change stays the same object"
        assert heard.items == {key[1]: seen for key, seen in watch.items.items()}
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
