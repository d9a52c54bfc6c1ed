"""The simulated week holds its bounds, for one seed; others by hand: `python -m tests.scale.week_report SEED ...`."""

from tests.scale.week import WEEK_S, quantile, simulate, trace, with_deadlines

SEED = 3


def test_the_queue_keeps_use_and_small_waits_and_large_ones_start() -> None:
    submits = trace(SEED)
    queue, alone, fifo = (simulate(submits, name) for name in ("queue", "fair share alone", "fifo"))
    for one in (queue, alone, fifo):
        assert len(one.waits) == len(submits), "each training has started"
    assert queue.use >= alone.use - 0.01
    assert queue.use > fifo.use
    assert quantile(queue.of("1-4"), 0.95) < 600
    assert max(queue.of("64-128")) <= 0.6 * max(alone.of("64-128")) < WEEK_S
    assert queue.moved == []
    assert queue.ended == []


def test_where_all_have_a_deadline_nobody_waits_beyond_the_bound() -> None:
    submits = with_deadlines(trace(SEED))
    result = simulate(submits, "queue")
    assert len(result.waits) == len(submits)
    assert result.margins_s, "some have waited longer than QUEUE_AGING"
    assert min(result.margins_s) >= 0
    assert result.moved == []
    assert result.ended == []
