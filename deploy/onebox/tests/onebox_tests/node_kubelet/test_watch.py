"""List and watch: what a handler hears over breaks, old versions and outages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onebox.node import watch as watching
from onebox.node.watch import Watch
from onebox_tests.node_kubelet.conftest import StartApi
from onebox_tests.node_kubelet.fakeapi import Request, ok, refuse, stream

PATH = "/api/v1/pods"


def obj(name: str, version: int) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name, "resourceVersion": str(version)}}


def listing(version: int, *objects: dict[str, Any]) -> dict[str, Any]:
    meta = {"resourceVersion": str(version)}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": meta, "items": list(objects)}


class Heard:
    """A handler that writes down what it hears."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.news = asyncio.Event()

    def replace(self, objects: list[dict[str, Any]]) -> None:
        self._note("list " + ",".join(o["metadata"]["name"] for o in objects))

    def apply(self, event_type: str, obj: dict[str, Any]) -> None:
        self._note(f"{event_type} {obj['metadata']['name']}")

    def _note(self, what: str) -> None:
        self.told.append(what)
        self.news.set()

    async def until(self, wanted: list[str]) -> None:
        async with asyncio.timeout(5):
            while self.told != wanted:
                self.news.clear()
                await self.news.wait()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watching, "FIRST_PAUSE_S", 0.01)


async def follow(heard: Heard, start_api: StartApi, answers: list[Any], wanted: list[str]):
    """Run a watch against answers in order; the last one is given for ever."""

    async def answer(request: Request):
        made = answers.pop(0) if len(answers) > 1 else answers[0]
        return await made(request) if request.query.get("watch") or callable(made) else made

    api = await start_api(answer)
    task = asyncio.create_task(Watch(api.client, PATH, heard, {"fieldSelector": "a=b"}).run())
    try:
        await heard.until(wanted)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return api


def lists(version: int, *objects: dict[str, Any]):
    async def answer(_request: Request):
        return ok(listing(version, *objects))

    return answer


def streams(*events: Any, hold: bool = False):
    async def answer(request: Request):
        return await stream(request, *events, hold=hold)

    return answer


async def test_a_watch_goes_on_where_it_was_after_a_break(start_api: StartApi):
    heard = Heard()
    answers = [
        lists(5, obj("a", 3)),
        streams({"type": "ADDED", "object": obj("b", 6)}),
        streams(
            {"type": "BOOKMARK", "object": obj("", 9)},
            {"type": "DELETED", "object": obj("a", 10)},
            hold=True,
        ),
    ]
    api = await follow(heard, start_api, answers, ["list a", "ADDED b", "DELETED a"])
    asked = [r.query.get("resourceVersion") for r in api.seen]
    assert asked == [None, "5", "6"]
    assert all(r.query["fieldSelector"] == "a=b" for r in api.seen)


async def test_a_version_that_is_too_old_leads_to_a_new_list(start_api: StartApi):
    heard = Heard()
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    answers = [
        lists(5, obj("a", 3)),
        streams({"type": "ERROR", "object": gone}),
        lists(50, obj("c", 40)),
        streams(hold=True),
    ]
    await follow(heard, start_api, answers, ["list a", "list c"])


async def test_a_server_that_refuses_is_asked_again(start_api: StartApi):
    heard = Heard()

    async def away(_request: Request):
        return refuse(503, message="not now")

    answers = [away, away, lists(5), streams({"type": "ADDED", "object": obj("a", 6)}, hold=True)]
    await follow(heard, start_api, answers, ["list ", "ADDED a"])


async def test_items_of_a_list_know_their_kind(start_api: StartApi):
    kinds: list[str] = []

    class Kinds(Heard):
        def replace(self, objects: list[dict[str, Any]]) -> None:
            kinds.extend(o["kind"] for o in objects)
            super().replace(objects)

    item = {"metadata": {"name": "a", "resourceVersion": "3"}}
    await follow(Kinds(), start_api, [lists(5, item), streams(hold=True)], ["list a"])
    assert kinds == ["Pod"]
