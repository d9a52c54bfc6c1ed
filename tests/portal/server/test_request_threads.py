"""Threads of requests: who was given up does not take a thread along."""

import asyncio
from concurrent.futures import Future
from threading import Event
from typing import Any

import pytest
from asgiref.sync import AsyncToSync
from django.test import AsyncRequestFactory

from portal.server import request_threads
from portal.server.bodies import FormHandler
from portal.server.request_threads import NoThreadError, RequestExecutor, RequestThreads, Threads


async def test_who_was_given_up_takes_no_thread_from_others() -> None:
    threads = Threads(1, wait_s=0.01)
    first, late, next_one = (RequestExecutor(threads) for _ in range(3))
    await asyncio.wrap_future(first.submit(lambda: None))
    answer = late.submit(lambda: None)
    while not answer.done():
        await asyncio.sleep(0.01)
    assert isinstance(answer.exception(), NoThreadError)
    first.end()  # before the request of `late` has heard of it
    async with asyncio.timeout(10):
        assert await asyncio.wrap_future(next_one.submit(lambda: "works")) == "works"


@pytest.mark.parametrize("computes_s", [0.01, 600.0])
async def test_one_computes_at_a_time_and_who_lasts_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, computes_s: float
) -> None:
    monkeypatch.setattr(request_threads, "COMPUTES_S", computes_s)
    threads = Threads(3, wait_s=60.0)
    turns = [RequestExecutor(threads) for _ in range(3)]
    may_end = Event()
    first = turns[0].submit(may_end.wait)
    others = [turn.submit(lambda: "works") for turn in turns[1:]]
    assert [turn.thread is None for turn in turns] == [False, True, True]
    if computes_s > 1:  # only the end of the one before it lets the next begin
        may_end.set()
        await asyncio.wrap_future(first)
        turns[0].end()
        assert [turn.thread is None for turn in turns] == [False, False, True]
        turns[1].end()
    async with asyncio.timeout(10):
        for other in others:
            assert await asyncio.wrap_future(other) == "works"
    assert first.done() == (computes_s > 1)
    may_end.set()


async def test_who_has_a_thread_may_take_longer_than_it_waited() -> None:
    wrong: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, found: wrong.append(found))
    threads = Threads(1, wait_s=0.2)
    first, second = RequestExecutor(threads), RequestExecutor(threads)
    await asyncio.wrap_future(first.submit(lambda: None))
    may_end = Event()
    answer: Future[Any] = second.submit(may_end.wait)
    first.end()
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(0.3, passed.set)
    await passed.wait()  # the time of waiting is over, in the middle of the call
    may_end.set()
    async with asyncio.timeout(10):
        assert await asyncio.wrap_future(answer) is True
    assert not wrong


async def test_a_request_is_one_call_in_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def go_back_to_the_loop(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a middleware was called on the event loop")

    calls: list[Any] = []
    submit = RequestExecutor.submit

    def counted(self: RequestExecutor, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        calls.append(fn)
        return submit(self, fn, *args, **kwargs)

    monkeypatch.setattr(AsyncToSync, "__call__", go_back_to_the_loop)
    monkeypatch.setattr(RequestExecutor, "submit", counted)
    scope: Any = AsyncRequestFactory().get("/livez").scope
    told: asyncio.Queue[Any] = asyncio.Queue()
    asked = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        return asked.pop() if asked else await asyncio.Future()

    django: Any = FormHandler()
    async with asyncio.timeout(10):
        await RequestThreads(django, 1, wait_s=1.0)(scope, receive, told.put)
    assert told.get_nowait()["status"] == 200
    assert len(calls) == 1
