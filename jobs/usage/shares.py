"""What namespaces and teams held of late, as fair share counts it: an average that forgets by halves.

An interval that ended one half-life ago weighs half of one that ends now (`rules.queue.order`). It is
counted from the intervals of pods anew each time, so nothing drifts, and a restart loses nothing.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q

from jobs.rules.queue.order import HALF_LIFE_S, dominant_share
from jobs.rules.queue.state import NOTHING, Size, add
from jobs.usage.hours import UnixTime
from jobs.usage.models import UsageInterval

# What ended before weighs less than a hundredth.
HORIZON = timedelta(seconds=7 * HALF_LIFE_S)
_PARTS = 1000  # an average of GPUs is no whole number


@dataclass(frozen=True)
class Shares:
    """Average dominant shares in parts of `order.WHOLE`, by the ids of namespaces and of teams."""

    namespaces: dict[UUID, int] = field(default_factory=dict)
    teams: dict[UUID, int] = field(default_factory=dict)


def weight_of(started_s: float, ended_s: float, now_s: float) -> float:
    """The part of an average that one interval is: 1 for what has run for ever, and still does."""
    return float(2 ** ((ended_s - now_s) / HALF_LIFE_S) - 2 ** ((started_s - now_s) / HALF_LIFE_S))


def shares_at(now: datetime, capacity: Size, without: set[UUID]) -> Shares:
    """One query; blocking.

    Args:
        capacity: of the cluster, of which shares are parts.
        without: workloads that do not count (of low priority).
    """
    recent = Q(ended_at__isnull=True) | Q(ended_at__gte=now - HORIZON)
    rows = UsageInterval.objects.filter(recent, started_at__lt=now).values_list(
        *("tenant_id", "team_id", "object_id", "gpu_count", "cpu_millicores", "memory_bytes"),
        *(UnixTime("started_at"), UnixTime("ended_at")),
    )
    held: dict[tuple[str, UUID], list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    now_s = now.timestamp()
    for tenant, team, workload, *amounts, started_s, ended_s in rows.order_by().iterator():
        if workload in without:
            continue
        part = weight_of(started_s, now_s if ended_s is None else min(ended_s, now_s), now_s)
        for whose in (("namespace", tenant), ("team", team)):
            if whose[1] is not None:
                of = held[whose]
                for place, amount in enumerate(amounts):
                    of[place] += amount * part

    whole = add(NOTHING, capacity, _PARTS)

    def found(what: str) -> dict[UUID, int]:
        return {
            pk: dominant_share(
                (round(gpu * _PARTS), round(cpu * _PARTS), round(memory * _PARTS), 0, 0), whole
            )
            for (kind, pk), (gpu, cpu, memory) in held.items()
            if kind == what
        }

    return Shares(found("namespace"), found("team"))
