"""People who always want more get GPU hours by their weights: three teams of weights 1:2:5, and 3:5 inside the last.

`python -m tests.scale.fairness [NODES ...]` prints a table. Each of the four namespaces has twenty trainings queued at any
time, of one to eight GPUs and ten to sixty whole minutes, for 72 hours from an empty cluster on.
"""

import heapq
import math
import random
import sys

from jobs.rules.queue.state import UNKNOWN, NamespaceState, QueueRules, TeamState
from tests.scale.week import People, Submit, Week

RUNS_S = 72 * 3600
ALWAYS_QUEUED = 20
TEAMS = {"vision": 1, "speech": 2, "robots": 5}
SPACES = {"ada": ("vision", 1), "bob": ("speech", 1), "eve": ("robots", 3), "kim": ("robots", 5)}
PEOPLE = People(
    tuple(NamespaceState(name, team, weight=part) for name, (team, part) in SPACES.items()),
    tuple(TeamState(name, weight=part) for name, part in TEAMS.items()),
)
# Of 64 parts: what is due to a team, and within it to a namespace.
DUE = {"ada": 8 / 64, "bob": 16 / 64, "eve": 15 / 64, "kim": 25 / 64}


class AlwaysMore(Week):
    """For each that starts its owner submits another."""

    def __init__(self, nodes: int, seed: int) -> None:
        self._dice = random.Random(seed)
        first = [self._one(0, i) for i in range(len(SPACES)) for _ in range(ALWAYS_QUEUED)]
        rules = QueueRules(fair_share=True)
        super().__init__(first, rules, PEOPLE, nodes=nodes, lasts_s=RUNS_S)

    def _one(self, at_s: int, person: int) -> Submit:
        runs_s = 60 * self._dice.randrange(10, 61)
        has_deadline = self._dice.random() < 0.5
        deadline_s = math.ceil(runs_s * self._dice.uniform(1.1, 3)) if has_deadline else UNKNOWN
        return Submit(at_s, self._dice.randrange(1, 9), runs_s, deadline_s, person)

    def _start(self, name: str, *where: object) -> None:
        super()._start(name, *where)
        if self._now_s < RUNS_S:
            more = self._one(self._now_s, self._submits[int(name)].person)
            number = str(len(self._submits))
            self._submits.append(more)
            self._left_s[number] = more.runs_s
            heapq.heappush(self._events, (more.at_s, 0, number, 0))


def unfairness(gpu_s: dict[str, int]) -> dict[str, float]:
    """By how much each has more than is due to it, as a part of that."""
    whole = sum(gpu_s.values())
    return {name: gpu_s[name] / (DUE[name] * whole) - 1 for name in DUE}


if __name__ == "__main__":
    for nodes in [int(word) for word in sys.argv[1:]] or [50]:
        for seed in (3, 7, 11):
            result = AlwaysMore(nodes, seed).run()
            parts = ", ".join(
                f"{name} {part:+.1%}" for name, part in unfairness(result.gpu_s).items()
            )
            print(
                f"{nodes * 8} GPUs, seed {seed}: {len(result.waits):,} trainings, use {result.use:.3f}, {parts}, "
                f"{result.cpu_s:.0f} s",
                flush=True,
            )
