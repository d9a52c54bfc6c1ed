"""What pods measure of themselves, minute by minute: how it is told, packed, thinned out and judged. Pure.

`jobs/pod/sampling.py` makes it. Figures: `cpu_m` (millicores), `memory_mib`, `throttled_percent`, `data_mib` and
`log_mib` (use of volumes), and of each GPU `gpu0.percent`, `gpu0.memory_mib`, `gpu0.power_w`, `gpu0.slowed_percent`.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

Amount = Annotated[int, Meta(ge=0, le=2**33)]  # 8 PiB in MiB
Pair = tuple[int, int]  # mean and peak
_GPU = r"gpu[0-9]{1,2}\.(percent|memory_mib|power_w|slowed_percent)"
Name = Annotated[
    str, Meta(pattern=rf"^(cpu_m|memory_mib|throttled_percent|data_mib|log_mib|{_GPU})\Z")
]
Figures = Mapping[str, Pair]
MAX_FIGURES = 5 + 4 * 64
# What is summed up for good, as `ReplicaUsage` names it.
SUMMED = ("cpu_m", "memory_mib", "gpu_percent", "gpu_memory_mib")
STEPS_S = (60, 120, 300, 600, 1800, 3600, 7200, 14400)
MAX_POINTS = 120
MAX_AGE_S = 3 * 3600  # pods keep two hours while the portal does not answer
CLOCKS_S = 120
# More than any GPU has, for nodes that do not say it.
MAX_GPU_MEMORY_MIB, MAX_GPU_POWER_W = 2**20, 5000
_ROUNDED_PERCENT = 105


class Minute(msgspec.Struct):
    """One minute of one replica; `at` is its begin, seconds since 1970."""

    at: Annotated[int, Meta(ge=0, le=2**33, multiple_of=60)]
    used: Annotated[dict[Name, tuple[Amount, Amount]], Meta(max_length=MAX_FIGURES)]


class Told(msgspec.Struct):
    """What a pod tells.

    Attributes:
        method: where CPU and memory were read.
        gpu_note: why no GPU is measured; empty: they are, or there is none.
        totals: MiB that there are of what is used.
        oom_kills: processes that the kernel has ended for want of memory since the last report, while the rest went on.
    """

    minutes: Annotated[list[Minute], Meta(min_length=1, max_length=130)]
    method: Annotated[str, Meta(pattern=r"^(cgroup1|cgroup2|processes)\Z")]
    gpu_note: Annotated[str, Meta(pattern=r"^[a-z0-9_]{0,32}\Z")] = ""
    totals: Annotated[dict[Name, Amount], Meta(max_length=MAX_FIGURES)] = {}
    oom_kills: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0  # the most of PostgreSQL's integer


class Most(NamedTuple):
    """What a replica can use at all: its limits where they hold, else what its node has."""

    cpu_m: int
    memory_mib: int
    gpu_memory_mib: int = MAX_GPU_MEMORY_MIB


# A sample is not taken at the very moment that it is counted for, which evens out over a minute.
_MEAN_PERCENT, _PEAK_PERCENT, _CPU_SLACK_M = 110, 200, 100


def is_of_now(minute: Minute, now_s: float) -> bool:
    return now_s - MAX_AGE_S <= minute.at <= now_s + CLOCKS_S


def find_problem(
    minute: Minute, now_s: float, most: Most, totals: Mapping[str, int] | None = None
) -> str:
    """Why this cannot be a minute of now, in words; empty when it can.

    Args:
        totals: MiB that there are of what is used, as reported by the pod.
    """
    memory = {**(totals or {}), "memory_mib": most.memory_mib}
    for name, (mean, peak) in minute.used.items():
        if mean > peak:
            return f"{name}: the mean of a minute ({mean}) is above its peak ({peak})"
        if name.endswith("percent") and peak > 100:
            return f"{name}: {peak} is more than 100"
        if name == "cpu_m":
            most_mean, most_peak = (
                most.cpu_m * percent // 100 + _CPU_SLACK_M
                for percent in (_MEAN_PERCENT, _PEAK_PERCENT)
            )
            if mean > most_mean or peak > most_peak:
                return (
                    f"{name}: {mean} and at most {peak} is more than {most.cpu_m} millicores give"
                )
        has = memory.get(name)
        if name.startswith("gpu") and name.endswith("memory_mib"):
            has = min(has or most.gpu_memory_mib, most.gpu_memory_mib)
        if name.endswith("power_w"):
            has = MAX_GPU_POWER_W
        if has is not None and peak > has * _ROUNDED_PERCENT // 100 + 1:
            return f"{name}: {peak} is more than the {has} that there are"
    if not is_of_now(minute, now_s):
        at, now = (f"{datetime.fromtimestamp(s, UTC):%Y-%m-%d %H:%M}" for s in (minute.at, now_s))
        return f"a minute of {at} is not of the last three hours (it is {now} UTC): set the node's clock"
    return ""


class Gpu(NamedTuple):
    """All GPUs of a replica together: percent of their time, and MiB of the fullest one."""

    percent: Pair
    memory_mib: Pair


def gpu_of(used: Figures) -> Gpu | None:
    """None: none was measured."""

    def all_of(name: str) -> list[Pair]:
        return [pair for key, pair in used.items() if key.startswith("gpu") and key.endswith(name)]

    percents, memories = all_of(".percent"), all_of(".memory_mib") or [(0, 0)]
    if not percents:
        return None
    mean = round(sum(mean for mean, _peak in percents) / len(percents))
    fullest = (max(mean for mean, _peak in memories), max(peak for _mean, peak in memories))
    return Gpu((mean, max(peak for _mean, peak in percents)), fullest)


def merged(used: Figures) -> dict[str, Pair]:
    """With `gpu.percent` and `gpu.memory_mib` in place of each GPU's own."""
    found = {name: pair for name, pair in used.items() if not name.startswith("gpu")}
    if gpu := gpu_of(used):
        found |= {"gpu.percent": gpu.percent, "gpu.memory_mib": gpu.memory_mib}
    return found


def summary_of(row: Mapping[str, Any]) -> dict[str, Pair]:
    """Mean and peak over all minutes, by figures as `merged` has them; without those that were not measured.

    Args:
        row: counts, sums and peaks by their names in `ReplicaUsage`.
    """
    counts = {name: row["gpu_minutes" if "gpu" in name else "minutes"] for name in SUMMED}
    return {
        name.replace("gpu_", "gpu.", 1): (round(row[f"{name}_sum"] / count), row[f"{name}_peak"])
        for name, count in counts.items()
        if count
    }


class _Hour(msgspec.Struct):
    """Minutes by figures, means and peaks apart, which compresses best; -1: not measured then."""

    at: list[int]
    used: dict[str, tuple[list[int], list[int]]]


def pack(minutes: Sequence[Minute]) -> bytes:
    """An hour in about one KiB: JSON, compressed."""
    none = (-1, -1)
    names = sorted({name for minute in minutes for name in minute.used})
    pairs = {name: [minute.used.get(name, none) for minute in minutes] for name in names}
    used = {name: ([p[0] for p in of], [p[1] for p in of]) for name, of in pairs.items()}
    return zlib.compress(msgspec.json.encode(_Hour([minute.at for minute in minutes], used)), 9)


def unpack(packed: bytes | memoryview) -> list[Minute]:
    hour = msgspec.json.decode(zlib.decompress(packed), type=_Hour)
    rows: list[dict[str, Pair]] = [{} for _ in hour.at]
    for name, (means, peaks) in hour.used.items():
        for row, mean, peak in zip(rows, means, peaks, strict=True):
            if mean >= 0:
                row[name] = (mean, peak)
    return [Minute(at, row) for at, row in zip(hour.at, rows, strict=True)]


class Point(NamedTuple):
    """Figures of one step; `at` is its begin, seconds since 1970."""

    at: int
    used: dict[str, Pair]


def step_for(span_s: int) -> int:
    """The finest step of which a span has no more than `MAX_POINTS`."""
    fits = (step for step in STEPS_S if span_s <= step * MAX_POINTS)
    return next(fits, STEPS_S[-1])


def thinned(minutes: Iterable[tuple[int, Figures]], step_s: int) -> list[Point]:
    """Steps with what was measured in them: mean of the means, highest of the peaks; in their order."""
    steps: dict[int, dict[str, list[Pair]]] = defaultdict(lambda: defaultdict(list))
    for at, used in minutes:
        for name, pair in used.items():
            steps[at - at % step_s][name].append(pair)
    return [
        Point(
            at,
            {
                name: (
                    round(sum(mean for mean, _ in pairs) / len(pairs)),
                    max(peak for _, peak in pairs),
                )
                for name, pairs in steps[at].items()
            },
        )
        for at in sorted(steps)
    ]


# --- low use ---------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """What a replica asks for."""

    cpu_m: int
    memory_mib: int
    gpu_count: int


# Less than that is not worth a word.
LEAST = Asked(cpu_m=2000, memory_mib=4096, gpu_count=1)


def low_since(
    before: Mapping[str, int], minutes: Iterable[Minute], asked: Asked, percent: int
) -> dict[str, int]:
    """Since when (seconds since 1970) the use of `cpu`, `memory` and `gpu` has been below so many percent.

    Args:
        before: as the minutes before left it.
        asked: what is less than `LEAST` is never low.
    """
    low = dict(before)
    for minute in minutes:
        used = merged(minute.used)
        shares = {
            "cpu": ("cpu_m", asked.cpu_m if asked.cpu_m >= LEAST.cpu_m else 0),
            "memory": (
                "memory_mib",
                asked.memory_mib if asked.memory_mib >= LEAST.memory_mib else 0,
            ),
            "gpu": ("gpu.percent", 100 if asked.gpu_count >= LEAST.gpu_count else 0),
        }
        for what, (name, whole) in shares.items():
            if whole and name in used and used[name][0] * 100 < whole * percent:
                low.setdefault(what, minute.at)
            elif name in used or not whole:
                low.pop(what, None)
    return low
