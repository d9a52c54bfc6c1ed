"""The simulated week by hand: tables for docs/scale.md, and its picture.

python -m tests.scale.week_report [--picture FILE.svg] [SEED ...]
"""

import argparse
from collections.abc import Mapping
from math import log10
from pathlib import Path

from tests.scale.week import (
    CLASSES,
    POLICIES,
    QUOTAS,
    TEAMS,
    Result,
    quantile,
    simulate,
    trace,
    with_deadlines,
    with_low,
    without_deadlines,
)

HEAD = (
    "| | use | 1-4 GPUs | 8 | 16-32 | 64-128 | processor time, longest look |\n"
    "|---|---|---|---|---|---|---|"
)
COLORS = {"queue": "#0b6", "fair share alone": "#c70", "no reservation": "#07c", "fifo": "#777"}
COMPARED = ["queue", "no reservation", "fifo"]
WIDE, HIGH, EDGE = 420, 220, 46
TICKS = {60: "1 min", 600: "10 min", 3600: "1 h", 36_000: "10 h", 360_000: "100 h"}


def line(what: str, result: Result) -> str:
    waits = " | ".join(
        f"{_time(quantile(of, 0.95))} / {_time(max(of, default=0))}"
        for of in map(result.of, CLASSES)
    )
    cost = f"{result.cpu_s:.0f} s in {result.looks:,} looks, {result.longest_look_s * 1000:.0f} ms"
    cost += "".join(
        f", {len(of)} {how}" for how, of in (("moved", result.moved), ("ended", result.ended)) if of
    )
    return f"| {what} | {result.use:.3f} | {waits} | {cost} |"


def _time(seconds: int) -> str:
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def picture(results: Mapping[str, Result]) -> str:
    """SVG: of each size, which part had started after how long; time is logarithmic."""
    parts = []
    for place, name in enumerate(CLASSES):
        left, top = EDGE + place % 2 * (WIDE + EDGE), EDGE + place // 2 * (HIGH + 2 * EDGE)
        parts.append(f'<text x="{left}" y="{top - 10}" font-weight="bold">{name} GPUs</text>')
        parts.append(
            f'<rect x="{left}" y="{top}" width="{WIDE}" height="{HIGH}" fill="none" stroke="#999"/>'
        )
        for part in (0, 0.5, 1):
            at = top + HIGH * (1 - part)
            parts.append(f'<text x="{left - 6}" y="{at + 4}" text-anchor="end">{part:.0%}</text>')
        for seconds, words in TICKS.items():
            at = left + WIDE * _place(seconds)
            parts.append(f'<path d="M{at:.0f} {top}v{HIGH}" stroke="#ddd"/>')
            parts.append(
                f'<text x="{at:.0f}" y="{top + HIGH + 16}" text-anchor="middle">{words}</text>'
            )
        for policy, result in results.items():
            waits = result.of(name)
            points = " ".join(
                f"{left + WIDE * _place(waits[min(len(waits) - 1, i * len(waits) // 200)]):.1f},"
                f"{top + HIGH * (1 - i / 200):.1f}"
                for i in range(201)
            )
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{COLORS[policy]}" stroke-width="2"/>'
            )
    bottom = 2 * (HIGH + 2 * EDGE) + 10
    for place, policy in enumerate(results):
        parts.append(
            f'<text x="{EDGE + place * 200}" y="{bottom}" fill="{COLORS[policy]}">{policy}</text>'
        )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDE + 3 * EDGE} {bottom + 20}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def _place(seconds: int) -> float:
    """0 for ten seconds and less, 1 for 100 hours."""
    return min(1.0, max(0.0, log10(max(seconds, 10) / 10) / log10(36_000)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.scale.week_report", description=__doc__)
    parser.add_argument("seeds", nargs="*", type=int, metavar="SEED", default=[3, 7, 11])
    parser.add_argument("--picture", type=Path, help="drawn of the first seed")
    wanted = parser.parse_args()
    print(HEAD, flush=True)
    for place, seed in enumerate(wanted.seeds):
        submits, results = trace(seed), {}
        for policy in POLICIES:
            results[policy] = simulate(submits, policy)
            print(line(f"seed {seed}, {policy}", results[policy]), flush=True)
        if wanted.picture and not place:
            wanted.picture.write_text(picture(results))
    others(wanted.seeds[0])


def others(seed: int) -> None:
    """Weeks of other people."""
    for what, submits, people, policies in (
        ("nobody has a deadline", without_deadlines(trace(seed)), TEAMS, COMPARED),
        ("weights 1 to 4, quotas of 192 GPUs", trace(seed), QUOTAS, COMPARED[:2]),
        ("all have a deadline", with_deadlines(trace(seed)), TEAMS, ["queue"]),
        ("three of ten are low", with_low(trace(seed)), TEAMS, ["queue"]),
    ):
        for policy in policies:
            result = simulate(submits, policy, people)
            print(line(f"{what}, {policy}", result), flush=True)
        if result.preempted:
            print(f"times that low ones were stopped: {result.preempted}")
        if what.startswith("all"):
            print(f"waited longer than 6 h: {len(result.margins_s)}, ", end="")
            print(f"least margin to the bound {min(result.margins_s) / 3600:.1f} h", flush=True)


if __name__ == "__main__":
    main()
