"""A task that dies is started again, and health shows it."""

import asyncio

import pytest

from portal import supervise
from portal.backoff import Backoff

QUICK = (0.001, 0.002)


@pytest.fixture(autouse=True)
def no_old_health(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervise, "health", {})


async def test_a_dying_task_is_started_again_until_it_returns():
    lives = []

    async def dies_twice() -> None:
        lives.append(1)
        if len(lives) < 3:
            raise RuntimeError("no luck")

    await supervise.run_forever("t", dies_twice, backoff=Backoff(*QUICK))
    assert len(lives) == 3
    row = supervise.report()["t"]
    assert (row["state"], row["restarts"], row["error"]) == ("stopped", 2, "RuntimeError: no luck")


async def test_health_shows_a_task_that_waits_to_start_again():
    async def dies() -> None:
        raise ValueError("broken")

    stop = asyncio.Event()
    task = asyncio.create_task(supervise.run_forever("t", dies, stop=stop, backoff=Backoff(60, 60)))
    while "t" not in supervise.health or supervise.health["t"].state != "waiting":
        await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(task, 5)
    assert supervise.health["t"].state == "stopped"


async def test_cancelling_ends_it():
    async def hangs() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(supervise.run_forever("t", hangs))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert supervise.health["t"].state == "running"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert supervise.health["t"].state == "stopped"


def test_waits_double_up_to_a_limit_and_start_small_again():
    backoff = Backoff(0.2, 30.0)
    steps = [backoff.next_s() for _ in range(12)]
    for step, most in zip(
        steps, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30, 30], strict=True
    ):
        assert most / 2 <= step <= most
    backoff.reset()
    assert backoff.next_s() <= 0.2


async def test_a_task_that_loses_a_cancellation_is_ended_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervise, "_AGAIN_S", 0.01)
    lost = []

    async def loses_two() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost.append(1)
                if len(lost) > 2:
                    raise

    async def fails() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError("broken")

    tasks = [asyncio.create_task(loses_two()), asyncio.create_task(fails())]
    await asyncio.sleep(0)
    await asyncio.wait_for(supervise.end(tasks), 10)
    assert all(task.done() for task in tasks)
    assert len(lost) == 3


async def test_ending_nothing_is_nothing() -> None:
    await supervise.end([])
