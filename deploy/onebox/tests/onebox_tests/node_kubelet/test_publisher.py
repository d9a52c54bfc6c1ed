"""Status patches: only changes, folded together, sent again until they are taken."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import pytest

from onebox.node import publisher as publishing
from onebox.node.publisher import StatusPublisher
from onebox_tests.node_kubelet.conftest import StartApi
from onebox_tests.node_kubelet.fakeapi import Request, ok, refuse
from onebox_tests.node_kubelet.pods import pod


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(publishing, "FIRST_PAUSE_S", 0.01)


class Running:
    """A publisher at work; `wanted` is the status it should tell."""

    def __init__(self, client: Any) -> None:
        self.wanted: dict[str, Any] = {"phase": "Pending"}
        self.publisher = StatusPublisher(client, pod(), lambda _sent: dict(self.wanted))
        self.task = asyncio.create_task(self.publisher.run())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_nothing_is_sent_while_nothing_changes(start_api: StartApi):
    api = await start_api(lambda _request: ok())
    async with Running(api.client) as at_work:
        await at_work.publisher.flush()
        assert api.seen == []
        at_work.wanted = {"phase": "Running", "podIP": "10.244.0.9"}
        await at_work.publisher.flush()
        await at_work.publisher.flush()
    assert [(r.method, r.path, r.content_type) for r in api.seen] == [
        ("PATCH", "/api/v1/namespaces/ns/pods/p/status", "application/strategic-merge-patch+json")
    ]
    assert api.seen[0].body == {
        "metadata": {"uid": "u1"},
        "status": {"phase": "Running", "podIP": "10.244.0.9"},
    }


async def test_changes_during_a_request_fold_into_the_next_one(start_api: StartApi):
    release = asyncio.Event()

    async def slow(_request: Request):
        await release.wait()
        return ok()

    api = await start_api(slow)
    async with Running(api.client) as at_work:
        at_work.wanted = {"phase": "Running", "n": 1}
        at_work.publisher.touch()
        await api.wait_for(lambda: len(api.seen) == 1)
        for number in range(2, 50):
            at_work.wanted = {"phase": "Running", "n": number}
            at_work.publisher.touch()
        release.set()
        await at_work.publisher.flush()
    assert [r.body["status"] for r in api.seen] == [{"phase": "Running", "n": 1}, {"n": 49}]


async def test_an_outage_delays_but_loses_nothing(start_api: StartApi):
    answers = [refuse(500), refuse(503), ok()]
    api = await start_api(lambda _request: answers.pop(0))
    async with Running(api.client) as at_work:
        at_work.wanted = {"phase": "Failed"}
        await at_work.publisher.flush()
    assert [r.body["status"]["phase"] for r in api.seen] == ["Failed"] * 3


async def test_a_pod_that_is_gone_or_replaced_gets_no_more_words(start_api: StartApi):
    def replaced(request: Request):
        if request.method == "GET":
            return ok({"metadata": {"uid": "another"}})
        return refuse(409, "Conflict")

    for answer in (lambda _request: refuse(404, "NotFound"), replaced):
        api = await start_api(answer)
        async with Running(api.client) as at_work:
            at_work.wanted = {"phase": "Failed"}
            await at_work.publisher.flush()
            assert at_work.publisher.gone.is_set()
