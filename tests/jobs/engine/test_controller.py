"""Which rows a resync is at."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from jobs.engine import controller, store
from jobs.engine.controller import Controller
from jobs.leader.clock import SteadyClock

Looking = Callable[..., Controller]


class Rows:
    """So many rows of which nothing new is known."""

    def __init__(self, count: int) -> None:
        self.found = {UUID(int=number + 1): ("run",) for number in range(count)}

    def unsettled(self, known: Any) -> dict[UUID, tuple[str, ...]]:
        del known
        return self.found


class View:
    """Each row has this many pods."""

    def __init__(self, pods_each: int) -> None:
        self.pods = self
        self.pods_each = pods_each

    def count_of_owner(self, owner: str) -> int:
        del owner
        return self.pods_each


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Looking:
    def made(rows: Rows, pods_each: int = 0) -> Controller:
        monkeypatch.setattr(store, "unsettled", rows.unsettled)
        nothing: Any = None
        view: Any = View(pods_each)
        return Controller(view, nothing, nothing, SteadyClock(), nothing)

    return made


async def noted(looks: Controller) -> set[UUID]:
    for pk in looks._queue.pending():
        looks._queue.remove(pk)
    await looks.resync(at="safety")
    return set(looks._queue.pending())


async def test_a_few_rows_are_looked_at_all_together(looking: Looking) -> None:
    rows = Rows(controller._PER_RESYNC)
    looks = looking(rows)
    await looks.resync(at="safety")  # they are new to it
    assert await noted(looks) == rows.found.keys()
    assert await noted(looks) == rows.found.keys()


async def test_of_many_rows_each_has_its_turn(
    looking: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "_PER_RESYNC", 20)
    rows = Rows(50)
    looks = looking(rows)
    await looks.resync(at="safety")
    seen = [await noted(looks) for _ in range(3)]
    assert [len(turn) for turn in seen] == [20, 20, 20]
    assert set.union(*seen) == rows.found.keys()


async def test_rows_with_many_pods_take_turns_sooner(looking: Looking) -> None:
    looks = looking(Rows(200), pods_each=49)
    await looks.resync(at="safety")
    assert len(await noted(looks)) == controller._PER_RESYNC // 50


async def test_a_changed_mind_is_looked_at_whose_turn_ever_it_is(
    looking: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "_PER_RESYNC", 1)
    rows = Rows(50)
    looks = looking(rows)
    await looks.resync(at="safety")
    rows.found[UUID(int=40)] = ("stop",)
    assert UUID(int=40) in await noted(looks)
