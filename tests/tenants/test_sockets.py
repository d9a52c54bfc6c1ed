"""What a socket runs side by side ends together, whatever a library does with a cancellation."""

import asyncio

import pytest

from portal import supervise
from tenants.sockets import run_until_first_ends


class Stubborn:
    """Work that goes on until it was cancelled so many times."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.has_begun = asyncio.Event()
        self.has_ended = False

    async def __call__(self) -> None:
        self.has_begun.set()
        while self.left:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.left -= 1
        self.has_ended = True


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "_AGAIN_S", 0.05)


async def test_the_others_end_with_the_first_though_one_loses_its_cancellation() -> None:
    listens = Stubborn(2)

    async def ends() -> None:
        await listens.has_begun.wait()
        raise ConnectionError("the browser is gone")

    with pytest.raises(ConnectionError, match="gone"):
        await asyncio.wait_for(run_until_first_ends(listens, ends), 10)
    assert listens.has_ended


async def test_what_runs_within_what_is_ended_ends_too() -> None:
    """A page is closed: its socket ends what ends what loses its cancellation."""
    follows, listens = Stubborn(4), Stubborn(1)
    outer = asyncio.create_task(run_until_first_ends(follows, listens))
    await follows.has_begun.wait()
    await asyncio.wait_for(supervise.end([outer]), 10)
    assert outer.cancelled()
    assert follows.has_ended
    assert listens.has_ended
