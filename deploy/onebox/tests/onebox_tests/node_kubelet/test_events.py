"""Events are counted up, kept over an outage, and bounded."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from onebox.node import events
from onebox.node.events import BURST, Recorder, reference_to
from onebox_tests.node_kubelet.conftest import StartApi
from onebox_tests.node_kubelet.fakeapi import FakeApi, Request, ok, refuse
from onebox_tests.node_kubelet.pods import pod

POD = reference_to(pod(), "spec.containers{main}")


@asynccontextmanager
async def recorder(api: FakeApi):
    made = Recorder(api.client, "onebox")
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_same_event_is_counted_up(start_api: StartApi):
    api = await start_api(lambda _request: ok())
    async with recorder(api) as made:
        made.record(POD, "Warning", "BackOff", "again")
        await api.wait_for(lambda: len(api.seen) == 1)
        await asyncio.sleep(0)
        made.record(POD, "Warning", "BackOff", "again")
        await api.wait_for(lambda: len(api.seen) == 2)
        made.record(POD, "Warning", "BackOff", "something else")
        await api.wait_for(lambda: len(api.seen) == 3)
    first, second, third = api.seen
    assert (first.method, first.path) == ("POST", "/api/v1/namespaces/ns/events")
    assert first.body["involvedObject"]["fieldPath"] == "spec.containers{main}"
    assert first.body["count"] == 1
    name = first.body["metadata"]["name"]
    assert (second.method, second.path) == ("PATCH", f"/api/v1/namespaces/ns/events/{name}")
    assert second.body["count"] == 2
    assert third.method == "POST"


async def test_an_event_that_was_removed_is_made_anew(start_api: StartApi):
    def answer(request: Request):
        return refuse(404, "NotFound") if request.method == "PATCH" else ok()

    api = await start_api(answer)
    async with recorder(api) as made:
        made.record(POD, "Normal", "Pulled", "x")
        await api.wait_for(lambda: len(api.seen) == 1)
        await asyncio.sleep(0)
        made.record(POD, "Normal", "Pulled", "x")
        await api.wait_for(lambda: len(api.seen) == 3)
    assert [r.method for r in api.seen] == ["POST", "PATCH", "POST"]
    assert api.seen[2].body["count"] == 2


async def test_events_wait_for_an_api_that_is_away(
    start_api: StartApi, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(events, "RETRY_S", 0.01)
    answers = [refuse(503), refuse(503)]
    api = await start_api(lambda _request: answers.pop(0) if answers else ok())
    async with recorder(api) as made:
        made.record(POD, "Normal", "Started", "one")
        made.record(POD, "Normal", "Started", "two")
        await api.wait_for(lambda: len(api.seen) == 4)
    assert [r.body["message"] for r in api.seen] == ["one", "one", "one", "two"]


async def test_one_object_cannot_flood_the_api(start_api: StartApi):
    api = await start_api(lambda _request: ok())
    async with recorder(api) as made:
        for number in range(BURST * 4):
            made.record(POD, "Warning", "Unhealthy", f"probe failed: {number}")
        await api.wait_for(lambda: len(api.seen) == BURST)
        other = {**POD, "uid": "u2"}
        made.record(other, "Normal", "Started", "somebody else")
        await api.wait_for(lambda: len(api.seen) == BURST + 1)
    assert api.seen[-1].body["message"] == "somebody else"
