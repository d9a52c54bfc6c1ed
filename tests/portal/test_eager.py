"""Coroutines that are begun at once go on where they wait, whoever waits for them and however it ends."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from portal import eager


class Send:
    """What a websocket does: waits while it takes no more, then keeps what it was given."""

    def __init__(self) -> None:
        self.may_go = asyncio.Event()
        self.kept: list[str] = []
        self.is_closed = False

    async def __call__(self, text: str, *, fails: bool = False) -> None:
        try:
            await self.may_go.wait()
            await asyncio.sleep(0)
            if fails:
                raise ConnectionError(text)
            self.kept.append(text)
        except GeneratorExit:
            self.is_closed = True
            raise


async def _nothing(text: str, into: list[str]) -> None:
    into.append(text)


def _rest(work: Coroutine[Any, Any, None]) -> eager.Begun:
    rest = eager.run(work)
    assert rest is not None
    return rest


async def test_what_never_waits_is_done_at_once() -> None:
    kept: list[str] = []
    assert eager.run(_nothing("a", kept)) is None
    assert kept == ["a"]


@pytest.mark.parametrize("goes_before", [True, False])
async def test_what_waits_is_finished_by_another_task(goes_before: bool) -> None:
    send = Send()
    rest = _rest(send("a"))
    assert not send.kept
    if goes_before:
        send.may_go.set()
    task = asyncio.create_task(rest.finish())
    await asyncio.sleep(0)
    send.may_go.set()
    await asyncio.wait_for(task, 5)
    assert send.kept == ["a"]


async def test_errors_and_cancellation_come_to_who_finishes_it() -> None:
    async def refuse() -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await _rest(refuse()).finish()
    send = Send()
    failing = asyncio.create_task(_rest(send("b", fails=True)).finish())
    cancelled = asyncio.create_task(_rest(send("c")).finish())
    await asyncio.sleep(0)
    cancelled.cancel()
    send.may_go.set()
    with pytest.raises(ConnectionError, match="b"):
        await failing
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert not send.kept


async def test_what_nobody_finishes_is_closed() -> None:
    send = Send()
    _rest(send("d")).close()
    assert send.is_closed
