"""What is asked together: one question for many, never an answer from before, and no failure that is kept."""

import asyncio
from collections.abc import Sequence

import pytest

from portal.gathered import MOST_AT_ONCE, Gathered

pytestmark = pytest.mark.django_db(transaction=True)


class Asked:
    def __init__(self) -> None:
        self.rounds: list[list[int]] = []
        self.is_away = False

    def __call__(self, keys: Sequence[int]) -> dict[int, str]:
        self.rounds.append(sorted(keys))
        if self.is_away:
            raise OSError("away")
        return {key: f"{key} in {len(self.rounds)}" for key in keys}


async def test_those_who_come_together_are_asked_about_once_and_later_ones_anew() -> None:
    asked = Asked()
    gathered = Gathered(asked)
    leaves = asyncio.create_task(gathered(1, 0.05))
    others = [asyncio.create_task(gathered(key, 0.05)) for key in (1, 2, 2, 3)]
    await asyncio.sleep(0)
    leaves.cancel()
    assert await asyncio.gather(*others) == ["1 in 1", "2 in 1", "2 in 1", "3 in 1"]
    assert await gathered(1, 0) == "1 in 2"
    assert asked.rounds == [[1, 2, 3], [1]]


async def test_no_thread_is_asked_about_too_many_at_once() -> None:
    asked = Asked()
    gathered = Gathered(asked)
    many = range(2 * MOST_AT_ONCE + 1)
    found = await asyncio.gather(*(gathered(key, 0) for key in many))
    assert [int(one.split()[0]) for one in found] == list(many)
    assert sorted(len(keys) for keys in asked.rounds) == [1, MOST_AT_ONCE, MOST_AT_ONCE]


async def test_who_comes_while_it_is_being_asked_gets_no_answer_from_before() -> None:
    asked = Asked()
    gathered = Gathered(asked)
    first = asyncio.create_task(gathered(1, 0))
    while not asked.rounds:
        await asyncio.sleep(0.001)
    assert await gathered(1, 0) == "1 in 2"
    assert await first == "1 in 1"


async def test_a_failure_is_told_to_all_who_asked_and_is_not_kept() -> None:
    asked = Asked()
    asked.is_away = True
    gathered = Gathered(asked)
    told = await asyncio.gather(gathered(1, 0), gathered(2, 0), return_exceptions=True)
    assert [type(one) for one in told] == [OSError, OSError]
    asked.is_away = False
    assert await gathered(1, 0) == "1 in 2"
