"""That the row of the queue measures what it says: nobody starts where nothing is free, and everyone is asked."""

import pytest

from jobs.rules.queue.look import look
from tests.bench.queue_row import MOMENTS, NOW, looks, snapshot


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_moment_is_what_its_name_says(moment: str) -> None:
    waiting = snapshot(125, 200, 1000, *MOMENTS[moment])
    assert len({one.requests for one in waiting.queue}) == 200
    found = look(waiting, NOW)
    kinds = [one.fit.kind for one in found.decisions]
    assert ("now" in kinds) == ("one node" in moment)
    # Ten that are stopped end the look; else everyone is asked, and the first has room kept.
    is_low = any(one.is_low for one in waiting.running)
    assert is_low == ("low" in moment)
    assert (len(kinds) == 200, bool(found.reservations)) == (not is_low, not is_low)


def test_both_parts_of_a_look_are_measured() -> None:
    found = looks(repeats=1)
    for decision, whole in zip(found[::2], found[1::2], strict=True):
        assert 0 < decision.value < whole.value
        assert decision.what.replace("decision", "whole look") == whole.what
