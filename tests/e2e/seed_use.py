"""What seeded workloads have used: minutes as pods tell them."""

import math
import time
from typing import Any


def use(workload: Any, role: str, index: int, minutes: int, *, busy: float, gpus: int = 0) -> None:
    """The latest minutes of a replica.

    Args:
        busy: the part of what it requested that it uses.
    """
    from jobs.usage.measured import keep
    from jobs.usage.minutes import Minute, Told

    asked = workload.replicas[role]
    cpu_m, memory_mib = asked["cpu_millicores"], asked["memory_bytes"] >> 20
    last = int(time.time()) // 60 - 1

    def figures(n: int) -> dict[str, tuple[int, int]]:
        wave = busy * (1 + 0.3 * math.sin(n / 9 + index))
        one = min(100, round(100 * wave))
        each = {
            "percent": (one, min(100, one + 7)),
            "memory_mib": (round(70_000 * busy), round(72_000 * busy)),
        }
        return {
            "cpu_m": (round(cpu_m * wave), round(cpu_m * min(1, wave * 1.2 + 0.02))),
            "memory_mib": (round(memory_mib * busy), round(memory_mib * min(1, busy * 1.1))),
            "data_mib": (4096, 4096),
            "log_mib": (512 + n, 512 + n),
            **{f"gpu{gpu}.{name}": pair for gpu in range(gpus) for name, pair in each.items()},
        }

    for first in range(0, minutes, 120):
        rows = [
            Minute((last - minutes + n + 1) * 60, figures(n))
            for n in range(first, min(minutes, first + 120))
            if n % 97 not in (5, 6, 7)  # a portal that was away
        ]
        totals = {"data_mib": 10_240, "log_mib": 10_240}
        totals |= {f"gpu{gpu}.memory_mib": 81_920 for gpu in range(gpus)}
        assert keep(workload, role, index, 1, Told(rows, "cgroup2", totals=totals))
