"""Threads of requests: who was given up does not take a thread along."""

import asyncio
from concurrent.futures import Future
from threading import Event
from typing import Any

from portal.server.request_threads import NoThreadError, RequestExecutor, Threads


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
