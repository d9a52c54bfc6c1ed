"""That the row of a submit can be measured at all: it renders what the product renders."""

import pytest

from tests.bench.submit_row import _measure


# From a thread, which has a connection of its own.
@pytest.mark.django_db(transaction=True)
def test_it_measures_what_a_submit_renders() -> None:
    ratio, ours_ms, more_objects = _measure(repeats=1)
    assert ratio.value > 1
    assert ours_ms.value > 0
    assert more_objects.value == 0
