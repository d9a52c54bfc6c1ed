"""What a page shows of what replicas really use: asked against used for each role, with a small plot. Pure.

All lengths are units of the plot's own view box, because pages carry no styles of their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext_lazy as _

from jobs.usage.minutes import Asked, Figures, Pair, Point, step_for, summary_of, thinned

WIDTH, HEIGHT = 240, 48
_MIB = 2**20


@dataclass(frozen=True)
class Plot:
    """Paths of an SVG; `asked_y` is the line of what is requested."""

    mean: str
    peak: str
    asked_y: float | None
    since: datetime
    until: datetime
    step_s: int


@dataclass(frozen=True)
class ResourceUse:
    """One resource of one role; amounts of one replica, in the unit of `kind`: cpu, memory or percent."""

    role: str
    count: int
    title: Any
    kind: str
    asked: int | None
    used: Pair
    plot: Plot | None

    @property
    def share(self) -> int | None:
        """Percent of what is requested that was used in the mean."""
        return round(self.used[0] * 100 / self.asked) if self.asked else None


def lines_of(
    role: str,
    count: int,
    asked: Asked,
    summary: Mapping[str, Any],
    minutes: Iterable[tuple[int, Figures]],
    gpu_memory_mib: int = 0,
) -> list[ResourceUse]:
    """
    Args:
        summary: counts, sums and peaks of `ReplicaUsage` over the role's replicas.
        gpu_memory_mib: what one GPU has, which who requests it may use; 0 where that is not known.
        minutes: the latest ones of these, in any order, with GPUs put together.
    """
    known = list(minutes)
    begin, end = (pick((at for at, _used in known), default=0) for pick in (min, max))
    step_s = step_for(end + 60 - begin)
    points = thinned(known, step_s)
    measured = summary_of(summary)
    resources = (
        (_("CPU"), "cpu", "cpu_m", 1, asked.cpu_m),
        (_("Memory"), "memory", "memory_mib", _MIB, asked.memory_mib),
        (_("GPU"), "percent", "gpu.percent", 1, 100),
        (_("GPU memory"), "memory", "gpu.memory_mib", _MIB, gpu_memory_mib),
    )
    return [
        ResourceUse(
            role,
            count,
            title,
            kind,
            whole * unit,
            (measured[name][0] * unit, measured[name][1] * unit),
            plot_of(points, name, whole, step_s),
        )
        for title, kind, name, unit, whole in resources
        if name in measured
    ]


def plot_of(points: Sequence[Point], name: str, asked: int, step_s: int) -> Plot | None:
    """None where there is nothing to draw."""
    found = [(point.at, point.used[name]) for point in points if name in point.used]
    if not found:
        return None
    first, last = found[0][0], found[-1][0] + step_s
    top = max(asked, *(peak for _at, (_mean, peak) in found)) or 1
    scale = WIDTH / (last - first)

    def path(which: int) -> str:
        words, before = [], None
        for at, pair in found:
            x, y = (at - first) * scale, HEIGHT - pair[which] * HEIGHT / top
            # A gap in what was measured is one in the line.
            move = "L" if before == at - step_s else "M"
            words.append(f"{move}{x:.1f} {y:.1f}H{x + step_s * scale:.1f}")
            before = at
        return "".join(words)

    return Plot(
        path(0),
        path(1),
        round(HEIGHT - asked * HEIGHT / top, 1) if asked else None,
        datetime.fromtimestamp(first, UTC),
        datetime.fromtimestamp(last, UTC),
        step_s,
    )
