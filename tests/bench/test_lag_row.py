"""The measurement of an event loop's lag sees one pause among many pings."""

import asyncio
from typing import Any

from tests.bench.lag_row import PING_EVERY_S, lags_ms


class Pausing:
    """Answers a ping at once, but for one."""

    def __init__(self, pause_s: float) -> None:
        self.pause_s = pause_s
        self.pings = 0

    async def ping_s(self) -> float:
        self.pings += 1
        return self.pause_s if self.pings == 10 else 0.0001


async def test_pings_that_could_not_be_sent_are_late_too() -> None:
    viewer: Any = Pausing(pause_s=0.5)
    found = await lags_ms(viewer, lambda: asyncio.sleep(40 * PING_EVERY_S))
    late = [ms for ms in found if ms > 100]
    assert viewer.pings > 10
    assert max(found) == 500
    assert len(late) in {80, 81}  # from 500 ms down to 100 in steps of 5


async def test_an_even_answer_is_one_figure_for_each_ping() -> None:
    viewer: Any = Pausing(pause_s=0.0001)
    found = await lags_ms(viewer, lambda: asyncio.sleep(20 * PING_EVERY_S))
    assert len(found) == viewer.pings
