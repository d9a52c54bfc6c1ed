"""Row M16 of performance.md: what one look at a long queue costs, and the decision in it.

Nodes of eight GPUs that are taken but for what others have left over, forty namespaces, half of what runs without a
deadline, a part of the queue aged. Three moments: no room for anything, room on one node, and none with a third of what runs
of low priority, of which ten are stopped. The dearest of the three is the figure.
"""

import random
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

from jobs.rules.amounts import Amount, NodeCapacity, ReplicaRequest
from jobs.rules.queue import look as looking
from jobs.rules.queue.look import Queued, QueueSnapshot, QuotaHeadroom, look, size_of
from jobs.rules.queue.state import UNKNOWN, RunningWorkload
from tests.bench.results import Result, at_most

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
GI = 2**30
WHOLE = Amount(64_000, 512 * GI, 8, 110)
NAMESPACES = 40
LOOKS = 3  # of each moment and repeat
MOST = Amount(10**9, 10**15, 10**6, 10**6, 10**6)
# Nodes, queued, bound in ms: of the decision, and told of the whole look as well.
SCALES = ((125, 200, 10), (1000, 1000, 100))
DISTINCT = (50, 1000)
MOMENTS = {"no room": (0, 0.0), "room on one node": (1, 0.0), "no room, a third low": (0, 1 / 3)}


def snapshot(nodes: int, queued: int, sizes: int, empty: int, low: float) -> QueueSnapshot:
    """A moment; the same for the same arguments.

    Args:
        sizes: how many different ones are asked for, or as many as there are queued.
        empty: nodes on which nothing runs.
        low: part of what runs that is of low priority.
    """
    dice = random.Random(7)
    now_s = int(NOW.timestamp())
    names = [f"namespace{i}" for i in range(NAMESPACES)]
    known, running = [], []
    for i in range(nodes):
        free = WHOLE
        while i >= empty and free.gpu > 0:
            gpus = min(free.gpu, dice.choice([1, 1, 2, 4, 8]))
            held = Amount(gpus * 7_000, gpus * 56 * GI, gpus, 1)
            free -= held
            ends_by_s = now_s + dice.randrange(600, 200_000) if dice.random() < 0.5 else UNKNOWN
            running.append(
                RunningWorkload(
                    f"running{len(running)}",
                    dice.choice(names),
                    ((f"node{i}", size_of(held)),),
                    size_of(held),
                    now_s - dice.randrange(100_000),
                    ends_by_s,
                    dice.random() < low,
                )
            )
        known.append(NodeCapacity(f"node{i}", WHOLE, free))
    asked = [
        (
            ReplicaRequest(
                "worker",
                dice.choice([1, 1, 1, 1, 2, 4, 8]),
                Amount(5_000 + 7 * k, (20 + k % 30) * GI, dice.choice([1, 1, 2, 4, 8]), 1),
            ),
        )
        for k in range(min(sizes, queued))
    ]
    queue = [
        Queued(
            f"queued{n}",
            dice.choice(names),
            f"training {n}",
            NOW - timedelta(seconds=dice.randrange(9 * 3600)),
            asked[n % len(asked)],
            lasts_s=dice.randrange(600, 100_000) if dice.random() < 0.5 else None,
        )
        for n in range(queued)
    ]
    headroom = QuotaHeadroom(MOST, MOST)
    return QueueSnapshot(queue, dict.fromkeys(names, headroom), known, running)


def _cost_ms(waiting: QueueSnapshot) -> tuple[float, float]:
    """Processor time of the decision and of the look that it is a part of."""
    spent_ms = 0.0

    def decide(*words: Any) -> Any:
        nonlocal spent_ms
        began = time.process_time()
        found = decided(*words)
        spent_ms = (time.process_time() - began) * 1000
        return found

    decided: Callable[..., Any] = looking.decide
    with patch.object(looking, "decide", decide):
        began = time.process_time()
        look(waiting, NOW)
        return spent_ms, (time.process_time() - began) * 1000


def looks(repeats: int) -> list[Result]:
    """M16: two results for each length of the queue and number of sizes."""
    found = []
    for nodes, queued, bound_ms in SCALES:
        for sizes in DISTINCT:
            told: dict[str, tuple[float, float]] = {}
            for name, moment in MOMENTS.items():
                waiting = snapshot(nodes, queued, sizes, *moment)
                costs = [_cost_ms(waiting) for _ in range(LOOKS * repeats)]
                told[name] = (
                    statistics.median(one for one, _ in costs),
                    statistics.median(one for _, one in costs),
                )
            for place, what in enumerate(("decision", "whole look")):
                costs_ms = {name: both[place] for name, both in told.items()}
                found.append(
                    Result(
                        "M16",
                        f"{what}, {nodes:,} nodes, {queued:,} queued of {min(sizes, queued):,} sizes",
                        max(costs_ms.values()),
                        at_most(bound_ms),
                        "ms",
                        "; ".join(f"{name} {cost:.1f} ms" for name, cost in costs_ms.items()),
                    )
                )
    return found
